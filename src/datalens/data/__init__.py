"""Records and shards: what enters, and what about it is public."""

from datalens.data.catalogue import (
    Description,
    catalogue,
    count,
    describe,
    fingerprint,
    holds_pictures,
    is_folder,
    is_two_things,
    load,
    load_unlabelled,
)
from datalens.data.records import (
    Keep,
    NoClasses,
    NoTestSplit,
    Positions,
    PublicFacts,
    Records,
    Split,
    name_of,
)
from datalens.data.shards import Shards, deal, shard_size

__all__ = [
    "Description",
    "Keep",
    "NoClasses",
    "NoTestSplit",
    "Positions",
    "PublicFacts",
    "Records",
    "Shards",
    "Split",
    "catalogue",
    "count",
    "deal",
    "describe",
    "fingerprint",
    "holds_pictures",
    "is_folder",
    "is_two_things",
    "load",
    "load_unlabelled",
    "name_of",
    "shard_size",
]
