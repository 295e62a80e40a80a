"""A cap on all that may ever be spent on a data set: a privacy filter."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np

from datalens.errors import DataLensError
from datalens.mechanism.events import positive
from datalens.privacy.accountants import ORDERS, Charge, epsilon_of_rho, renyi


@dataclass(frozen=True, kw_only=True)
class Cap:
    """Epsilon at delta, held as a bound on the Renyi divergence at one order fixed beforehand.

    Guarantee: charges whose divergences at `order` add up to at most `bound` are together
    (epsilon, delta)-differentially private, also when runs are chosen in the light of earlier
    ones and work side by side (Feldman and Zrnic 2021, for one fixed order; the conversion is
    Proposition 12 of Canonne, Kamath and Steinke 2020). With Gaussian releases alone nothing is
    lost by fixing the order: their divergence is proportional to it.
    """

    epsilon: float
    delta: float
    order: float
    bound: float

    @classmethod
    def of(cls, epsilon: float, delta: float) -> "Cap":
        """The order at which the most Gaussian releases fit under epsilon at delta."""
        positive(epsilon=epsilon, delta=delta)
        if delta >= 1:
            raise DataLensError(f"delta must lie between 0 and 1, got {delta!r}.")
        less = ORDERS - 1
        bounds = epsilon - np.log(less / ORDERS) + np.log(ORDERS * delta) / less
        best = int(np.argmax(bounds / ORDERS))
        if not bounds[best] > 0:
            raise DataLensError(f"No release fits under epsilon {epsilon:g} at delta {delta:g}.")
        return cls(
            epsilon=epsilon, delta=delta, order=float(ORDERS[best]), bound=float(bounds[best])
        )

    def holds(self, charges: Iterable[Charge]) -> bool:
        """Whether these charges stay under the cap together."""
        return renyi(charges, self.order) <= self.bound

    def left(self, charges: Iterable[Charge]) -> float:
        """What is left: the epsilon, at the cap's delta, of one more run that would still fit."""
        rho = (self.bound - renyi(charges, self.order)) / self.order
        return epsilon_of_rho(rho, self.delta) if rho > 0 else 0.0

    def to_json(self) -> dict[str, Any]:
        return {
            "epsilon": self.epsilon,
            "delta": self.delta,
            "order": self.order,
            "bound": self.bound,
        }
