"""Which compressor a run has, from its settings and the size of an image."""

from typing import Any

from datalens.errors import DataLensError
from datalens.mechanism import d2pfed, fetchsgd
from datalens.mechanism.ballots import BallotRule
from datalens.mechanism.compressors import Compressor
from datalens.mechanism.d2pfed import D2PFed
from datalens.mechanism.fetchsgd import FetchSGD
from datalens.synthesizers.settings import LEVELS, VoteSettings

OWN: dict[str, tuple[str, ...]] = {
    "topagg": ("keep_all", "quantise"),
    "d2pfed": ("levels", "ballot_bound"),
    "fetchsgd": ("keep_all", "quantise", "sketch_rows", "sketch_columns", "ballot_bound"),
}
"""The settings that only some compressors have. (A top_k that d2pfed has no use for is left aside,
because presets give one.)"""
ROTATED_LEVELS = 33
SKETCH_ROWS = 3


def completed(settings: VoteSettings, n_values: int) -> dict[str, Any]:
    """What the compressor needs beside top_k and is not given."""
    name = settings.compressor
    for other in {each for names in OWN.values() for each in names} - set(OWN[name]):
        if getattr(settings, other) != type(settings).model_fields[other].default:
            raise DataLensError(f"With the compressor {name}, {other} means nothing; leave it out.")
    if name == "d2pfed":
        levels = settings.levels or ROTATED_LEVELS
        bound = settings.ballot_bound or d2pfed.usual_bound(n_values, levels)
        return {"levels": levels, "ballot_bound": bound}
    if name == "fetchsgd":
        rows = settings.sketch_rows or SKETCH_ROWS
        columns = settings.sketch_columns or (n_values + 1) // 2
        bound = settings.ballot_bound or fetchsgd.usual_bound(
            _rule(settings), n_values, rows, columns
        )
        return {"sketch_rows": rows, "sketch_columns": columns, "ballot_bound": bound}
    return {}


def compressor_of(settings: VoteSettings, n_values: int) -> Compressor:
    """The compressor that complete settings describe."""
    bound = settings.ballot_bound or 0
    if settings.compressor == "d2pfed":
        return D2PFed(
            n_values=n_values,
            clip=settings.clip,
            clip_mode=settings.clip_mode,
            levels=settings.levels or 0,
            bound=bound,
        )
    if settings.compressor == "fetchsgd":
        return FetchSGD(
            ballot=_rule(settings),
            n_values=n_values,
            rows=settings.sketch_rows or 0,
            columns=settings.sketch_columns or 0,
            bound=bound,
        )
    return _rule(settings)


def price(compressor: Compressor) -> float:
    """Squared sensitivity of a release, in whole votes."""
    return compressor.squared_sensitivity / compressor.unit**2


def _rule(settings: VoteSettings) -> BallotRule:
    return BallotRule(
        top_k=settings.top_k or 0,
        clip=settings.clip,
        clip_mode=settings.clip_mode,
        levels=1 if settings.quantise else LEVELS,
    )
