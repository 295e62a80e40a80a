"""Costs by closed forms: what the verifier has of its own, so as not to trust the accountants."""

import math
from typing import Any

from scipy.optimize import brentq, minimize_scalar
from scipy.stats import norm


def rho(charges: list[dict[str, Any]], sensitivity: str) -> float:
    return math.fsum(c["count"] * c[sensitivity] / (2 * c["sigma"] ** 2) for c in charges)


def certified(rho: float, delta: float) -> float:
    """Canonne, Kamath and Steinke (2020), Proposition 12: the best order, by minimisation."""
    if rho == 0:
        return 0.0

    def at(log_order: float) -> float:
        less = math.exp(log_order)  # the order minus one
        order = 1 + less
        return rho * order - math.log(order * delta) / less + math.log(less / order)

    best = minimize_scalar(at, bounds=(-12, 16), method="bounded", options={"xatol": 1e-10})
    return max(float(best.fun), 0.0)


def paper(rho: float, delta: float) -> float:
    """Theorem 3 of the paper, at its best order."""
    return rho + 2 * math.sqrt(rho * math.log(1 / delta))


def gaussian(rho: float, delta: float) -> float:
    """The exact curve of a Gaussian mechanism with mu = sqrt(2 rho) (Dong, Roth, Su 2022)."""
    if rho == 0:
        return 0.0
    mu = math.sqrt(2 * rho)

    def excess(epsilon: float) -> float:
        upper = norm.cdf(-epsilon / mu + mu / 2)
        lower = math.exp(epsilon + norm.logcdf(-epsilon / mu - mu / 2))
        return float(upper - lower) - delta

    if excess(0.0) <= 0:
        return 0.0
    return float(brentq(excess, 0.0, rho + 2 * math.sqrt(rho * math.log(1 / delta)) + 1))
