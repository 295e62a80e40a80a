"""What a mechanism costs, described and not yet interpreted.

Events describe, accountants (in privacy/) interpret. An event holds only public numbers.
"""

import math
from dataclasses import asdict, dataclass
from typing import Any

from datalens.errors import DataLensError

LARGEST_SIGMA = 2.0**46
"""So that noise on 64-bit integers cannot overflow."""


def positive(**named: float) -> None:
    """Refuse what is not a positive finite number, naming it."""
    for name, value in named.items():
        if not (value > 0 and math.isfinite(value)):  # NaN fails this too
            raise DataLensError(f"{name} must be a positive number, got {value!r}.")


@dataclass(frozen=True, kw_only=True)
class GaussianRelease:
    """A vector of the records, released with Gaussian noise on every coordinate.

    Sensitivities are squared because on an integer grid the squares are integers, and so
    survive being written to a file and read again without rounding.
    """

    what: str
    """Which mechanism: "votes", "class-sums", "second-moments", "class-counts"."""
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
            sigma=self.sigma,
        )
        if self.sigma >= LARGEST_SIGMA:
            raise DataLensError(f"sigma must be below 2^46, got {self.sigma!r}.")

    def to_json(self) -> dict[str, Any]:
        """A plain object that `from_json` reads back without loss."""
        return {"event": "gaussian", **asdict(self)}

    @classmethod
    def from_json(cls, body: dict[str, Any]) -> "GaussianRelease":
        """Refuses an event it does not know: an unknown cost is never taken as none."""
        fields = dict(body)
        kind = fields.pop("event", None)
        if kind != "gaussian":
            raise DataLensError(f"Unknown privacy event {kind!r}; this version knows 'gaussian'.")
        try:
            return cls(**fields)
        except TypeError as error:
            raise DataLensError(f"A privacy event has the wrong fields: {error}.") from None
