"""What a user leaves open, chosen from public facts only: n, shape, classes, epsilon."""

import math
from typing import Any

from datalens.data import PublicFacts, shard_size
from datalens.ensemble import make_discriminator
from datalens.ensemble.teachers import default_block_size
from datalens.errors import DataLensError
from datalens.synthesizers.compressing import completed, compressor_of, price
from datalens.synthesizers.settings import (
    LEAST_SHARE,
    DataLensSettings,
    Settings,
    TeacherSettings,
    VoteSettings,
)

SHARD = 20
"""Records a teacher gets. Small shards make many teachers, and noise is paid per teacher."""
MOST_TEACHERS = 4000
BATCH = 32
MOST_STEPS = 60
TOLERABLE_NOISE = 0.25
"""Sigma as a share of the teachers that steps are added up to: beyond it votes drown."""
LARGE_ENSEMBLE = 10 * 2**30
"""Bytes of weights and float32 moments beyond which moments are kept in bfloat16."""


VOTE_SHARE = 0.2
"""Of the budget, where votes are asked for and not how much they may cost."""


def share_of_votes(settings: DataLensSettings) -> float:
    """The share of the budget that is for votes.

    That votes pay for themselves after a warm start has not been shown (docs/utility.md), so there
    are none unless somebody wants them.
    """
    votes, start = _fields(VoteSettings, Settings), _fields(DataLensSettings, VoteSettings)
    share = settings.vote_share
    if not settings.warm_start:
        _refuse(settings, start - {"warm_start", "vote_share"}, "Without a warm start")
        if share not in (None, 1.0):
            raise DataLensError("Without a warm start all is spent on votes; leave out vote_share.")
        return 1.0
    if share is None:
        return VOTE_SHARE if settings.model_fields_set & votes else 0.0
    if share == 0:
        _refuse(settings, votes, "vote_share is 0: without votes")
    elif not LEAST_SHARE <= share <= 1 - LEAST_SHARE:
        raise DataLensError(
            f"vote_share is {share:g}: it must be 0, or between {LEAST_SHARE:g} and 1."
        )
    return share


def _fields(kind: type[Settings], base: type[Settings]) -> set[str]:
    return set(kind.model_fields) - set(base.model_fields)


def _refuse(settings: DataLensSettings, names: set[str], why: str) -> None:
    """What would be left aside is not to be given."""
    for name, field in DataLensSettings.model_fields.items():
        if name in names and getattr(settings, name) != field.default:
            raise DataLensError(f"{why} {name} means nothing; leave it out.")


def complete(settings: DataLensSettings, public: PublicFacts, rho: float) -> DataLensSettings:
    """The settings with every open choice made; `rho` is what there is to spend on votes."""
    values = math.prod(public.shape)
    top_k = values if settings.keep_all else settings.top_k or max(1, values // 16)
    if top_k > values:
        raise DataLensError(f"top-k is {top_k} but an image has only {values} values; use fewer.")
    batch_size = settings.batch_size or BATCH
    chosen: dict[str, Any] = {"batch_size": batch_size, "top_k": top_k}
    chosen |= ensemble(settings, public, batch_size=batch_size)
    settings = settings.model_copy(update=chosen)
    settings = settings.model_copy(update=completed(settings, values))
    if settings.sigma is not None or settings.steps is not None:
        return settings
    each = price(compressor_of(settings, values)) / 2  # what a release costs at a sigma of 1
    releases = rho * (TOLERABLE_NOISE * chosen["n_teachers"]) ** 2 / each
    steps = max(1, min(MOST_STEPS, int(releases / batch_size)))
    return settings.model_copy(update={"steps": steps})


def ensemble(settings: TeacherSettings, public: PublicFacts, *, batch_size: int) -> dict[str, Any]:
    """How many teachers there are and how they are computed, where that was left open."""
    n_teachers = settings.n_teachers or min(MOST_TEACHERS, max(2, public.n_records // SHARD))
    shard = shard_size(public.n_records, n_teachers)  # refuses too many teachers
    discriminator = make_discriminator(settings.discriminator, public.shape, public.n_classes)
    if min(batch_size, settings.real_batch or shard, shard) < discriminator.smallest_batch:
        raise DataLensError(
            f"A {discriminator.name} teacher needs batches of {discriminator.smallest_batch}"
            " records and images at least; raise batch-size or real_batch."
        )
    return {
        "n_teachers": n_teachers,
        "moments": settings.moments or _moments(n_teachers * discriminator.n_parameters),
        "block_size": settings.block_size
        or default_block_size(discriminator, min(settings.real_batch or shard, shard)),
    }


def quorum_for(sigma: float, n_teachers: int) -> float:
    """Twice the noise: one entry in twenty passes by chance alone. At most unanimity."""
    return round(min(1.0, 2 * sigma / n_teachers), 4)


def _moments(n_parameters: int) -> str:
    return "bfloat16" if n_parameters * 3 * 4 > LARGE_ENSEMBLE else "float32"
