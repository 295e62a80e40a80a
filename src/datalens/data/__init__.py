"""Records and shards: what enters, and what about it is public."""

from datalens.data.catalogue import Description, catalogue, describe, load
from datalens.data.records import NoTestSplit, PublicFacts, Records, Split
from datalens.data.shards import Shards, deal, shard_size

__all__ = [
    "Description",
    "NoTestSplit",
    "PublicFacts",
    "Records",
    "Shards",
    "Split",
    "catalogue",
    "deal",
    "describe",
    "load",
    "shard_size",
]
