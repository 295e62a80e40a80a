"""What a user leaves open, chosen from public facts only: n, shape, classes, epsilon."""

import math
from typing import Any

from datalens.data import PublicFacts, shard_size
from datalens.ensemble import make_discriminator
from datalens.errors import DataLensError
from datalens.synthesizers.settings import DataLensSettings

SMALLEST_SHARD = 50
MOST_TEACHERS = 400
LARGE_ENSEMBLE = 10 * 2**30
"""Bytes of weights and float32 moments beyond which moments are kept in bfloat16."""


def complete(settings: DataLensSettings, public: PublicFacts) -> DataLensSettings:
    """The settings with every open choice made. Sees no record."""
    values = math.prod(public.shape)
    n_teachers = settings.n_teachers or max(
        2, min(MOST_TEACHERS, public.n_records // SMALLEST_SHARD)
    )
    shard_size(public.n_records, n_teachers)  # refuses too many teachers while that is still free
    chosen: dict[str, Any] = {
        "n_teachers": n_teachers,
        "batch_size": settings.batch_size or 64,
        "top_k": values if settings.keep_all else settings.top_k or max(1, values // 8),
        "moments": settings.moments or _moments(settings, public, n_teachers),
    }
    if chosen["top_k"] > values:
        raise DataLensError(
            f"top-k is {settings.top_k} but an image has only {values} values; use fewer."
        )
    if settings.sigma is None:
        chosen["steps"] = settings.steps or 40
    if settings.threshold and settings.quorum is None:
        chosen["quorum"] = 0.1
    return settings.model_copy(update=chosen)


def _moments(settings: DataLensSettings, public: PublicFacts, n_teachers: int) -> str:
    discriminator = make_discriminator(settings.discriminator, public.shape, public.n_classes)
    size = n_teachers * discriminator.n_parameters * 3 * 4
    return "bfloat16" if size > LARGE_ENSEMBLE else "float32"
