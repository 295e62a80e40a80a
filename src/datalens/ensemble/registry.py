"""Discriminators by name."""

import torch

from datalens.ensemble.compact import Compact
from datalens.ensemble.discriminator import Discriminator
from datalens.ensemble.reference import Reference
from datalens.errors import DataLensError

DISCRIMINATORS: dict[str, type[Compact] | type[Reference]] = {
    "compact": Compact,
    "reference": Reference,
}


def make_discriminator(
    name: str,
    shape: tuple[int, int, int],
    n_classes: int,
    *,
    precision: torch.dtype = torch.float32,
) -> Discriminator:
    """The discriminator called ``name``, for images of ``shape`` (channels, height, width)."""
    if name not in DISCRIMINATORS:
        known = ", ".join(sorted(DISCRIMINATORS))
        raise DataLensError(f"there is no discriminator {name!r}: choose one of {known}.")
    return DISCRIMINATORS[name](shape, n_classes, precision=precision)
