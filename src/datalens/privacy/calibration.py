"""How much a budget buys. Everything is fixed before the first release, and never over.

Gaussian releases are planned in zero-concentrated cost (rho), where costs simply add up. Steps
on a sample of the records, and Laplace noise, have no such cost: they are planned by trying, and
what is returned has been tried.
"""

import math
from collections.abc import Callable, Sequence
from functools import cache, lru_cache
from typing import Literal

from scipy.optimize import brentq

from datalens.errors import DataLensError, NotAdmitted
from datalens.mechanism.events import (
    LARGEST_SIGMA,
    Event,
    LaplaceRelease,
    SampledGaussianRelease,
    positive,
)
from datalens.privacy.accountants import Charge, epsilon_of_rho, is_bound
from datalens.privacy.accountants import epsilon as epsilon_of
from datalens.privacy.rounding import rounded_down

SizingAccountant = Literal["certified", "paper"]
SampledAccountant = Literal["certified", "paper", "moments", "pld"]

MOST_STEPS = 2**32
MOST_LOG_NOISE = math.log(LARGEST_SIGMA) - 1
FAR = 10.0
"""How many budgets over is simply too much."""
ROUNDING = 1e-12
"""Share of a budget left unused, so that costs may be added up in any order."""


def refuse_large_delta(delta: float, n_records: int) -> None:
    """Refuse a delta above 1/n, with which publishing one record in full would be allowed."""
    if delta > 1 / n_records:
        raise NotAdmitted(
            f"delta {delta:g} is above 1/n = {rounded_down(1 / n_records)} for {n_records:,}"
            " records, and would allow publishing a whole record: lower it, or accept it with"
            " --allow-large-delta (allow_large_delta=True)."
        )


@lru_cache(maxsize=128)
def budget_rho(epsilon: float, delta: float, accountant: SizingAccountant = "certified") -> float:
    """The largest zero-concentrated cost whose epsilon at `delta` does not exceed `epsilon`."""
    positive(epsilon=epsilon)
    if accountant not in ("certified", "paper"):
        raise DataLensError(
            f"A run is sized by the accountant certified or paper, got {accountant!r}"
            f" ({accountant} is no bound for discrete noise)."
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
    return low * (1 - ROUNDING)


def affordable(rho: float, rho_each: float) -> int:
    """How many releases at `rho_each` fit into `rho`: rounded down, and checked."""
    positive(rho_each=rho_each)
    if not math.isfinite(rho / rho_each):
        raise DataLensError(f"rho must be a number that can be counted in, got {rho!r}.")
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
    return _five_digits(sigma, lambda rounded: squared_sensitivity / (2 * rounded**2) <= rho_each)


def noise_multiplier_for(
    epsilon: float,
    delta: float,
    *,
    sampling_probability: float,
    steps: int,
    accountant: SampledAccountant = "certified",
    beside: Sequence[Charge] = (),
) -> float:
    """The least noise at which so many sampled steps stay within `epsilon`.

    That is, together with what is bought `beside` them. Rounded up to five digits, and tried.
    """
    positive(steps=steps)
    excess = _excess(epsilon, delta, sampling_probability, accountant, beside)

    @cache
    def at(log_noise: float) -> float:
        return excess(math.exp(log_noise), steps)

    start, width = 0.0, 1.0
    if accountant == "pld":  # each try is slow, and the answer a little below that of certified
        quick = noise_multiplier_for(
            epsilon, delta, sampling_probability=sampling_probability, steps=steps
        )
        start, width = math.log(quick), 0.4
    low = high = start
    while at(high) > 0:
        low, high, width = high, high + width, 2 * width
        if high > MOST_LOG_NOISE:
            raise DataLensError(
                f"No noise keeps this within epsilon {epsilon:g}; raise epsilon, or buy less."
            )
    while at(low) <= 0:
        low, high, width = low - width, low, 2 * width
        if low < -MOST_LOG_NOISE:
            raise DataLensError(f"epsilon {epsilon:g} needs no noise at all; lower it.")
    least = math.exp(brentq(at, low, high, xtol=1e-6))
    return _five_digits(least, lambda noise: excess(noise, steps) <= 0)


def steps_for(
    epsilon: float,
    delta: float,
    *,
    sampling_probability: float,
    noise_multiplier: float,
    accountant: SampledAccountant = "certified",
    beside: Sequence[Charge] = (),
) -> int:
    """How many sampled steps stay within `epsilon`, with what is bought `beside` them: tried."""
    excess = _excess(epsilon, delta, sampling_probability, accountant, beside)

    @cache
    def after(steps: int) -> float:
        return excess(noise_multiplier, steps)

    low, high = 0, 1
    if accountant == "pld":  # each try is slow, and the answer a little above that of certified
        quick = steps_for(
            epsilon,
            delta,
            sampling_probability=sampling_probability,
            noise_multiplier=noise_multiplier,
        )
        high = max(quick, 1)
    while after(high) <= 0:
        low, high = high, 2 * high
        if high > MOST_STEPS:
            raise DataLensError(
                f"epsilon {epsilon:g} pays for more than {MOST_STEPS} steps; lower the noise."
            )
    if after(low) <= 0 and high > low + 1:
        low = int(brentq(lambda steps: after(int(steps)), low, high, xtol=0.4))
    while low > 0 and after(low) > 0:
        low -= 1
    while after(low + 1) <= 0:
        low += 1
    return low


def laplace_scale_for(
    epsilon: float,
    delta: float,
    *,
    sensitivity: float,
    count: int,
    accountant: SizingAccountant = "certified",
    beside: Sequence[Charge] = (),
) -> float:
    """The least Laplace noise at which so many releases stay within `epsilon`.

    That is, together with what is bought `beside` them. Rounded up to five digits, and tried.
    """
    positive(epsilon=epsilon, sensitivity=sensitivity, count=count)

    def fits(scale: float) -> bool:
        event = LaplaceRelease(
            what="any", sensitivity=sensitivity, sensitivity_replace=sensitivity, scale=scale
        )
        return within(epsilon, delta, accountant, beside, event, count)

    low, high = -MOST_LOG_NOISE, MOST_LOG_NOISE
    if not fits(math.exp(high)):
        raise DataLensError(
            f"No noise keeps this within epsilon {epsilon:g}; raise epsilon, or buy less."
        )
    if fits(math.exp(low)):
        raise DataLensError(f"epsilon {epsilon:g} needs no noise at all; lower it.")
    while high - low > 1e-7:
        middle = (low + high) / 2
        low, high = (low, middle) if fits(math.exp(middle)) else (middle, high)
    return _five_digits(math.exp(high), fits)


def most_releases(
    epsilon: float,
    delta: float,
    event: Event,
    *,
    accountant: SizingAccountant = "certified",
    beside: Sequence[Charge] = (),
) -> int:
    """How many releases stay within `epsilon`, with what is bought `beside` them: tried."""
    positive(epsilon=epsilon)
    low, high = 0, 1
    while within(epsilon, delta, accountant, beside, event, high):
        low, high = high, 2 * high
        if high > MOST_STEPS:
            return MOST_STEPS
    while high - low > 1:
        middle = (low + high) // 2
        fits = within(epsilon, delta, accountant, beside, event, middle)
        low, high = (middle, high) if fits else (low, middle)
    return low


def within(
    epsilon: float,
    delta: float,
    accountant: SizingAccountant,
    beside: Sequence[Charge],
    event: Event,
    count: int,
) -> bool:
    """Whether so many releases, with what is bought `beside` them, cost at most `epsilon`."""
    return epsilon_of([*beside, Charge(event=event, count=count)], delta, accountant) <= epsilon


def _excess(
    epsilon: float,
    delta: float,
    sampling_probability: float,
    accountant: SampledAccountant,
    beside: Sequence[Charge],
) -> Callable[[float, int], float]:
    """From noise and steps to how far they go over, in budgets."""
    positive(epsilon=epsilon)

    def excess(noise_multiplier: float, steps: int) -> float:
        event = SampledGaussianRelease(
            what="dp-sgd",
            sampling_probability=sampling_probability,
            noise_multiplier=noise_multiplier,
        )
        charges = [*beside, Charge(event=event, count=steps)]
        if not is_bound(charges, accountant):
            raise DataLensError(
                f"The accountant {accountant} is no bound for these releases; use certified."
            )
        cost = epsilon_of(charges, delta, accountant)
        return min((cost - epsilon) / epsilon, FAR)  # above 0 if and only if over

    return excess


def _five_digits(least: float, fits: Callable[[float], bool]) -> float:
    """The least number of five digits that is at least about `least`, and fits."""
    rounded = _next_up(least)
    while not fits(rounded):
        rounded = _next_up(rounded * (1 + 1e-9))
    return rounded


def _next_up(value: float) -> float:
    """Rounded up to five digits."""
    unit = 10.0 ** (math.floor(math.log10(value)) - 4)
    return float(f"{math.ceil(value / unit) * unit:.5g}")
