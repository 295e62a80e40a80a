"""How much a budget buys. Everything is fixed before the first release, and never over."""

import math
from functools import lru_cache
from typing import Literal

from datalens.errors import DataLensError
from datalens.mechanism.events import positive
from datalens.privacy.accountants import epsilon_of_rho

SizingAccountant = Literal["certified", "paper"]


@lru_cache(maxsize=128)
def budget_rho(epsilon: float, delta: float, accountant: SizingAccountant = "certified") -> float:
    """The largest zero-concentrated cost whose epsilon at `delta` does not exceed `epsilon`."""
    positive(epsilon=epsilon)
    if accountant not in ("certified", "paper"):
        raise DataLensError(
            f"A run is sized by the accountant certified or paper, got {accountant!r}"
            " (gaussian is no bound for discrete noise)."
        )
    low, high = 0.0, 1.0
    while epsilon_of_rho(high, delta, accountant) <= epsilon:
        low, high = high, 2 * high
    for _ in range(60):
        middle = (low + high) / 2
        if epsilon_of_rho(middle, delta, accountant) <= epsilon:
            low = middle
        else:
            high = middle
    return low


def affordable(rho: float, rho_each: float) -> int:
    """How many releases at `rho_each` fit into `rho`: rounded down, and checked."""
    positive(rho_each=rho_each)
    count = max(int(rho / rho_each), 0)
    while count > 0 and count * rho_each > rho:
        count -= max(1, count >> 52)  # less than that does not change a float of this size
    return count


def sigma_for(rho_each: float, squared_sensitivity: float) -> float:
    """The least noise at which one release costs at most `rho_each`, rounded up to five digits.

    Rounded so that files show the very number that was used.
    """
    positive(rho_each=rho_each, squared_sensitivity=squared_sensitivity)
    sigma = math.sqrt(squared_sensitivity / (2 * rho_each))
    unit = 10.0 ** (math.floor(math.log10(sigma)) - 4)
    rounded = float(f"{math.ceil(sigma / unit) * unit:.5g}")
    while squared_sensitivity / (2 * rounded**2) > rho_each:
        rounded = float(f"{rounded + unit:.5g}")
    return rounded
