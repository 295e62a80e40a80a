"""Costs by closed forms: what the verifier has of its own, so as not to trust the accountants."""

import math
from typing import Any

from scipy.optimize import brentq, minimize_scalar
from scipy.stats import norm

GRID = 64
"""Levels of a vote that is not a sign."""
ROUNDS = 3
"""Cluster sums of a run that has clusters."""


def sensitivities(what: str, parameters: dict[str, Any]) -> tuple[float, float]:
    """Squared sensitivity with a record blanked, and with a record replaced."""
    if any(isinstance(v, bool) or not isinstance(v, int) or v < 1 for v in parameters.values()):
        raise ValueError(f"impossible parameters of {what}")
    if what == "votes":  # one ballot becomes any other: twice its norm
        squared = 4 * parameters["top_k"] * parameters["levels"] ** 2
        return squared, squared
    if what == "class-sums":
        return parameters["bound"] ** 2, 4 * parameters["bound"] ** 2
    if what == "second-moments":
        return parameters["bound"] ** 4, 4 * parameters["bound"] ** 4
    if what == "class-counts":
        return 1, 2
    if what == "cluster-sums":  # a row, and a weight for being there
        squared = parameters["bound"] ** 2 + parameters["weight"] ** 2
        return squared, 4 * squared
    if what == "cluster-moments":
        return parameters["bound"] ** 4, 4 * parameters["bound"] ** 4
    if what == "gradient-sums":  # an outer product is as long as its two sides multiplied
        squared = (parameters["features"] * parameters["residuals"]) ** 2
        return squared, 4 * squared
    raise ValueError(f"unknown mechanism {what!r}")


def planned(told: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """The releases that a configuration decides on: which, how many, and of votes how noisy."""
    settings, once = told["settings"], {"count": 1}
    plan: dict[str, dict[str, Any]] = {}
    if settings["label_prior"] == "bought":
        plan["class-counts"] = once
    if told["method"] == "class-gaussian" or settings["warm_start"]:
        plan |= {"class-sums": once, "second-moments": once}
    first = settings.get("warm_start", False)
    if first and settings.get("clusters", 1) > 1:
        plan |= {"cluster-sums": {"count": ROUNDS}, "cluster-moments": once}
    if first and settings.get("label_steps", 0) > 0:
        plan["gradient-sums"] = {"count": settings["label_steps"]}
    if settings.get("vote_share", 0) > 0:
        levels = 1 if settings["quantise"] else GRID
        plan["votes"] = {
            "count": settings["steps"] * settings["batch_size"],  # each image is one release
            "sigma": settings["sigma"] * levels,
            "top_k": settings["top_k"],
            "levels": levels,
        }
    return plan


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
