"""Costs by closed forms: what the verifier has of its own, so as not to trust the accountants."""

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from scipy.optimize import brentq, minimize_scalar
from scipy.special import logsumexp
from scipy.stats import norm

Curve = Callable[[float], float]
"""Renyi divergence by order."""

LARGEST = 32.0
"""Logarithm of the largest order less one that is tried."""
WRITERS_LARGEST = math.log(1e6)
"""The same of the writer. Laplace noise that would need a larger one is more than it has to be."""
FINE = 8
"""Points in a deviation of the noise, where a divergence is integrated."""
MOST_POINTS = 80_000
FAR = 500.0
"""Powers of e between which a noise or cost is looked for."""
GRID = 80
"""Orders tried before the best is looked for between its neighbours."""
MOST_KINDS = 20
"""Of sampled steps: each is work at every order."""


def rho(charges: list[dict[str, Any]], sensitivity: str) -> float:
    """The zero-concentrated cost of Gaussian releases."""
    plain = [charge for charge in charges if charge["event"] == "gaussian"]
    return math.fsum(c["count"] * c[sensitivity] / (2 * c["sigma"] ** 2) for c in plain)


def curve(charges: list[dict[str, Any]], *, replaced: bool = False) -> Curve:
    """What all charges add up to at an order above 1: they add up, whatever depends on what."""
    base = rho(charges, "squared_sensitivity_replace" if replaced else "squared_sensitivity")
    sampled = sampled_steps(charges)
    one = _sampled_replaced if replaced else _sampled
    moves = "sensitivity_replace" if replaced else "sensitivity"
    pure = [(c["count"], c[moves] / c["scale"]) for c in charges if c["event"] == "laplace"]

    def at(order: float) -> float:
        steps = (count * one(q, z, order) for (q, z), count in sampled.items())
        coins = (count * _two_coins(epsilon, order) for count, epsilon in pure)
        return base * order + math.fsum(steps) + math.fsum(coins)

    return at


def sampled_steps(charges: list[dict[str, Any]]) -> dict[tuple[float, float], int]:
    """How many steps there are of each sampling probability and noise."""
    steps: dict[tuple[float, float], int] = {}
    for c in charges:
        if c["event"] == "sampled-gaussian":
            kind = (c["sampling_probability"], c["noise_multiplier"])
            steps[kind] = steps.get(kind, 0) + c["count"]
    if len(steps) > MOST_KINDS:
        raise ValueError(f"{len(steps)} kinds of sampled steps")
    return steps


def largest_order(charges: list[dict[str, Any]]) -> float:
    """Logarithm of the largest order less one to try: with little noise, an order is much work."""
    noises = [z for _, z in sampled_steps(charges)]
    if not noises:
        return LARGEST
    most = min(noises) * MOST_POINTS / FINE / 4
    if most < 2:
        raise ValueError("sampled steps with next to no noise")
    return min(math.log(most), 7.0)


def certified(cost: Curve, delta: float, *, largest: float = LARGEST) -> float:
    """Canonne, Kamath and Steinke (2020), Proposition 12: the best order, by minimisation."""

    def at(log_order: float) -> float:
        less = math.exp(log_order)  # the order minus one
        order = 1 + less
        return cost(order) - math.log(order * delta) / less + math.log(less / order)

    return max(_least(at, largest), 0.0)


def paper(cost: Curve, delta: float, *, largest: float = LARGEST) -> float:
    """The simple conversion at the best order: Theorem 3 of the paper."""

    def at(log_order: float) -> float:
        less = math.exp(log_order)
        return cost(1 + less) + math.log(1 / delta) / less

    return _least(at, largest)


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


def rho_within(epsilon: float, delta: float, accountant: str) -> float:
    """The zero-concentrated cost that the writer spends of a budget, by one of two accountants."""
    if accountant == "paper":  # the smaller root of epsilon = rho + 2 sqrt(rho log(1 / delta))
        log = math.log(1 / delta)
        return (epsilon / (math.sqrt(log + epsilon) + math.sqrt(log))) ** 2

    def excess(log_rho: float) -> float:
        rho = math.exp(log_rho)
        return certified(lambda order: rho * order, delta) - epsilon

    return math.exp(_crossing(excess, math.log(epsilon)))


def laplace_within(epsilon: float, delta: float) -> float:
    """The scale of the Laplace noise on one count that the writer spends a budget on: as much as
    makes the release epsilon-private at any delta, or more if the certified figure needs it."""

    def excess(log_pure: float) -> float:
        pure = math.exp(log_pure)
        cost = certified(lambda order: _two_coins(pure, order), delta, largest=WRITERS_LARGEST)
        return cost - epsilon

    return max(1 / epsilon, math.exp(-_crossing(excess, math.log(epsilon))))


def _crossing(excess: Curve, start: float) -> float:
    """Where something that rises is 0, within some powers of e."""
    low = high = start
    while excess(high) <= 0 and high < start + FAR:
        high += 1
    while excess(low) > 0 and low > start - FAR:
        low -= 1
    return float(brentq(excess, low, high, xtol=1e-9))


def _least(at: Curve, largest: float) -> float:
    """At the best order: on a grid first, because there may be several valleys."""
    logs = np.linspace(-12, largest, GRID)
    values = [at(float(log)) for log in logs]
    near = min(max(int(np.argmin(values)), 1), GRID - 2)
    bounds = (float(logs[near - 1]), float(logs[near + 1]))
    best = minimize_scalar(at, bounds=bounds, method="bounded", options={"xatol": 1e-7})
    return float(min(best.fun, *values))


def _two_coins(epsilon: float, order: float) -> float:
    """Any release of a pure epsilon, such as Laplace noise gives.

    None is worse than randomised response, which gives the true answer with probability p and
    the other with q, p / q = exp(epsilon); its divergence is that of two coins.
    """
    log_q = -math.log1p(math.exp(-epsilon)) - epsilon
    log_p = log_q + epsilon
    one = order * log_p + (1 - order) * log_q
    other = order * log_q + (1 - order) * log_p
    return float(np.logaddexp(one, other)) / (order - 1)


def _sampled(q: float, z: float, order: float) -> float:
    """One step of which a record is part with probability q, under noise z: by integration.

    The divergence of the mixture (1 - q) N(0, z^2) + q N(1, z^2) from N(0, z^2), which is the
    larger of the two directions (Mironov, Talwar and Zhang 2019).
    """
    x = np.linspace(-9 * z, order + 9 * z, 2 + math.ceil(FINE * (order / z + 18)))
    tilt = (2 * x - 1) / (2 * z**2)
    ratio = np.logaddexp(math.log1p(-q), math.log(q) + tilt) if q < 1 else tilt
    terms = order * ratio - x**2 / (2 * z**2)
    scale = math.log((x[1] - x[0]) / (z * math.sqrt(2 * math.pi)))
    return max(float(logsumexp(terms)) + scale, 0.0) / (order - 1)


def _sampled_replaced(q: float, z: float, order: float) -> float:
    """The same if the record is replaced: through its absence, or by convexity; the smaller."""
    through = (order - 0.5) / (order - 1) * _sampled(q, z, 2 * order)
    through += _sampled(q, z, 2 * order - 1)
    apart = (order - 1) * order * 2 / z**2
    stays = math.log1p(-q) if q < 1 else -math.inf
    convex = float(np.logaddexp(stays, math.log(q) + apart)) / (order - 1)
    return min(through, convex)
