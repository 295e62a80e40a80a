"""Events to epsilon: three views of the same charges.

- paper: Theorem 3 of the paper, Renyi composition with the simple conversion.
- certified: zero-concentrated composition, which holds for the exact discrete Gaussian, with
  the best known conversion. This is what sizes a private run by default.
- gaussian: exact for continuous Gaussian noise, and no bound for discrete noise. For show.
"""

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Literal

import dp_accounting
import numpy as np
from dp_accounting import rdp

from datalens.errors import DataLensError
from datalens.mechanism.events import GaussianRelease

AccountantName = Literal["certified", "paper", "gaussian"]
Relation = Literal["blanked", "replaced"]

ORDERS = 1 + np.logspace(-3, 6, 4000)
"""Renyi orders tried. Any grid gives a bound; this one is within 1e-5 of the best order."""


@dataclass(frozen=True, kw_only=True)
class Charge:
    """An event bought `count` times."""

    event: GaussianRelease
    count: int

    def __post_init__(self) -> None:
        if isinstance(self.count, bool) or not isinstance(self.count, int) or self.count < 0:
            raise DataLensError(f"A charge counts 0 or more releases, got {self.count!r}.")

    def to_json(self) -> dict[str, Any]:
        return {**self.event.to_json(), "count": self.count}

    @classmethod
    def from_json(cls, body: dict[str, Any]) -> "Charge":
        fields = dict(body)
        count = fields.pop("count", None)
        return cls(event=GaussianRelease.from_json(fields), count=count)


def total_rho(charges: Iterable[Charge], relation: Relation = "blanked") -> float:
    """The zero-concentrated cost of all charges together: they add up, also adaptively."""
    return math.fsum(charge.count * rho_of(charge.event, relation) for charge in charges)


def renyi(charges: Iterable[Charge], order: float, relation: Relation = "blanked") -> float:
    """The Renyi divergence of all charges together at one order: they add up."""
    return total_rho(charges, relation) * order


def rho_of(event: GaussianRelease, relation: Relation = "blanked") -> float:
    """s^2 / (2 sigma^2): Gaussian noise (Bun and Steinke 2016), discrete or continuous."""
    squared = (
        event.squared_sensitivity if relation == "blanked" else event.squared_sensitivity_replace
    )
    return squared / (2 * event.sigma**2)


def epsilon_of_rho(rho: float, delta: float, accountant: AccountantName = "certified") -> float:
    """Epsilon at `delta` of a total zero-concentrated cost `rho`."""
    _check_delta(delta)
    if not (rho >= 0 and math.isfinite(rho)):
        raise DataLensError(f"rho must be a number of at least 0, got {rho!r}.")
    if rho == 0:
        return 0.0
    if accountant == "paper":
        # Theorem 3 at its best order, lambda = 1 + sqrt(log(1/delta) / rho).
        return rho + 2 * math.sqrt(rho * math.log(1 / delta))
    if accountant == "gaussian":
        return float(dp_accounting.get_epsilon_gaussian(1 / math.sqrt(2 * rho), delta))
    if accountant == "certified":
        account = rdp.RdpAccountant(
            orders=ORDERS, neighboring_relation=dp_accounting.NeighboringRelation.REPLACE_SPECIAL
        )
        account.compose(dp_accounting.ZCDpEvent(rho))
        return float(account.get_epsilon(delta))
    raise DataLensError(f"Unknown accountant {accountant!r}; use certified, paper or gaussian.")


def epsilon(
    charges: Iterable[Charge],
    delta: float,
    accountant: AccountantName = "certified",
    relation: Relation = "blanked",
) -> float:
    """Epsilon of all charges together, by one accountant, under one neighbouring relation."""
    return epsilon_of_rho(total_rho(charges, relation), delta, accountant)


def _check_delta(delta: float) -> None:
    if not 0 < delta < 1:
        raise DataLensError(f"delta must lie between 0 and 1, got {delta!r}.")
