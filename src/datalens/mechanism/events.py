"""What a mechanism costs, described and not yet interpreted.

Events describe, accountants (in privacy/) interpret. An event holds only public numbers.
"""

import sys
from dataclasses import asdict, dataclass
from typing import Any, ClassVar

from datalens.errors import DataLensError, brief

LARGEST_SIGMA = 2.0**46
"""So that noise on 64-bit integers cannot overflow."""


def positive(**named: float) -> None:
    """Refuse what is not a positive finite number, naming it."""
    for name, value in named.items():
        if not 0 < value <= sys.float_info.max:  # NaN and infinity fail this too
            raise DataLensError(f"{name} must be a positive number, got {value!r:.50}.")


def noise_scale(**named: float) -> None:
    """Refuse a scale at which noise or its cost would overflow, naming it."""
    positive(**named)
    for name, value in named.items():
        if not 1 / LARGEST_SIGMA < value < LARGEST_SIGMA:
            raise DataLensError(f"{name} must lie between 2^-46 and 2^46, got {value!r:.50}.")


@dataclass(frozen=True, kw_only=True)
class GaussianRelease:
    """A vector of the records, released with Gaussian noise on every coordinate.

    Sensitivities are squared because on an integer grid the squares are integers, and so
    survive being written to a file and read again without rounding.
    """

    kind: ClassVar[str] = "gaussian"

    what: str
    """Which mechanism: "votes", "class-sums", "cluster-sums", ... (privacy/replan.py)."""
    squared_sensitivity: float
    """Largest squared Euclidean change when one record is blanked in place."""
    squared_sensitivity_replace: float
    """The same when one record is replaced by any other."""
    sigma: float
    """Noise standard deviation per coordinate, in the units of the released grid."""

    def __post_init__(self) -> None:
        positive(
            squared_sensitivity=self.squared_sensitivity,
            squared_sensitivity_replace=self.squared_sensitivity_replace,
        )
        noise_scale(sigma=self.sigma)

    def to_json(self) -> dict[str, Any]:
        """A plain object that `event_from_json` reads back without loss."""
        return {"event": self.kind, **asdict(self)}


@dataclass(frozen=True, kw_only=True)
class SampledGaussianRelease:
    """A sum over a random part of the records, released with floating-point Gaussian noise.

    One step of DP-SGD. Every record takes part with the same probability, independently of all
    others (Poisson sampling), and who took part stays secret. What is released is the sum, or
    the sum divided by a public number; never by how many took part.
    """

    kind: ClassVar[str] = "sampled-gaussian"

    what: str
    """Which mechanism, as "dp-sgd"."""
    sampling_probability: float
    """With which each record takes part: above 0, at most 1."""
    noise_multiplier: float
    """sigma, in units of the largest norm of what one record adds to the sum.

    Blanked, a record that takes part moves the sum by at most 1 such unit. Replaced, it moves
    it by at most 2; the accountants see to that.
    """

    def __post_init__(self) -> None:
        positive(sampling_probability=self.sampling_probability)
        noise_scale(noise_multiplier=self.noise_multiplier)
        if self.sampling_probability > 1:
            raise DataLensError(
                f"sampling_probability must be at most 1, got {self.sampling_probability!r:.50}."
            )

    def to_json(self) -> dict[str, Any]:
        """A plain object that `event_from_json` reads back without loss."""
        return {"event": self.kind, **asdict(self)}


@dataclass(frozen=True, kw_only=True)
class LaplaceRelease:
    """A vector of the records, released with Laplace noise on every coordinate."""

    kind: ClassVar[str] = "laplace"

    what: str
    """Which mechanism, as "real-votes"."""
    sensitivity: float
    """Largest change, summed over coordinates, when one record is blanked in place."""
    sensitivity_replace: float
    """The same when one record is replaced by any other."""
    scale: float
    """Of the noise, in the units of the released grid: it deviates by sqrt(2) times as much.

    One release is (sensitivity / scale)-differentially private. Papers that write Lap(lambda)
    may mean a scale of lambda or of 1 / lambda.
    """

    def __post_init__(self) -> None:
        positive(sensitivity=self.sensitivity, sensitivity_replace=self.sensitivity_replace)
        noise_scale(scale=self.scale)

    def to_json(self) -> dict[str, Any]:
        """A plain object that `event_from_json` reads back without loss."""
        return {"event": self.kind, **asdict(self)}


Event = GaussianRelease | SampledGaussianRelease | LaplaceRelease

KNOWN: dict[str, type[Event]] = {
    event.kind: event for event in (GaussianRelease, SampledGaussianRelease, LaplaceRelease)
}


def event_from_json(body: dict[str, Any]) -> Event:
    """Refuses an event it does not know: an unknown cost is never taken as none."""
    fields = dict(body)
    kind = fields.pop("event", None)
    if not isinstance(kind, str) or kind not in KNOWN:
        raise DataLensError(
            f"Unknown privacy event {kind!r:.50}; this version knows {' and '.join(KNOWN)}."
        )
    try:
        return KNOWN[kind](**fields)
    except TypeError as error:
        raise DataLensError(f"A privacy event has the wrong fields ({brief(error)}).") from None
