"""Shards to gradients: all teachers, in blocks, on threads and over ranks."""

from datalens.ensemble.compact import Compact
from datalens.ensemble.discriminator import Discriminator
from datalens.ensemble.division import own_teachers
from datalens.ensemble.ranks import ALONE, RankFailed, Ranks
from datalens.ensemble.reference import Reference
from datalens.ensemble.registry import DISCRIMINATORS, make_discriminator
from datalens.ensemble.streams import derive, stream
from datalens.ensemble.teachers import Teachers

__all__ = [
    "ALONE",
    "DISCRIMINATORS",
    "Compact",
    "Discriminator",
    "RankFailed",
    "Ranks",
    "Reference",
    "Teachers",
    "derive",
    "make_discriminator",
    "own_teachers",
    "stream",
]
