"""Shards to gradients: all teachers as stacked tensors."""

from datalens.ensemble.compact import Compact
from datalens.ensemble.discriminator import Discriminator
from datalens.ensemble.reference import Reference
from datalens.ensemble.registry import DISCRIMINATORS, make_discriminator
from datalens.ensemble.streams import derive, stream
from datalens.ensemble.teachers import Teachers

__all__ = [
    "DISCRIMINATORS",
    "Compact",
    "Discriminator",
    "Reference",
    "Teachers",
    "derive",
    "make_discriminator",
    "stream",
]
