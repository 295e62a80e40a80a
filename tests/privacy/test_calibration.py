"""What a budget buys: never over, and hardly under."""

import math
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from datalens.errors import DataLensError
from datalens.mechanism.events import GaussianRelease, SampledGaussianRelease
from datalens.privacy.accountants import Charge, epsilon, epsilon_of_rho, rho_of, total_rho
from datalens.privacy.calibration import (
    _five_digits,
    affordable,
    budget_rho,
    noise_multiplier_for,
    sigma_for,
    steps_for,
)

DELTA = 1e-5


def step(noise: float, probability: float, count: int) -> Charge:
    event = SampledGaussianRelease(
        what="dp-sgd", sampling_probability=probability, noise_multiplier=noise
    )
    return Charge(event=event, count=count)


def release(squared: float, sigma: float, count: int = 1) -> Charge:
    event = GaussianRelease(
        what="votes",
        squared_sensitivity=squared,
        squared_sensitivity_replace=squared,
        sigma=sigma,
    )
    return Charge(event=event, count=count)


@settings(max_examples=40, deadline=None)
@given(
    eps=st.floats(0.01, 50),
    delta=st.floats(1e-12, 0.1),
    accountant=st.sampled_from(["certified", "paper"]),
)
def test_calibration_uses_the_budget_and_never_exceeds_it(
    eps: float, delta: float, accountant: str
) -> None:
    rho = budget_rho(eps, delta, accountant)  # type: ignore[arg-type]
    assert epsilon_of_rho(rho, delta, accountant) <= eps  # type: ignore[arg-type]
    assert epsilon_of_rho(rho * 1.001, delta, accountant) > eps * 0.999  # type: ignore[arg-type]


@settings(max_examples=200, deadline=None)
@given(rho=st.floats(1e-9, 1e3), squared=st.floats(1, 1e18))
def test_sigma_never_costs_more_than_asked(rho: float, squared: float) -> None:
    sigma = sigma_for(rho, squared)
    assert squared / (2 * sigma**2) <= rho
    assert squared / (2 * sigma**2) > rho * 0.999
    assert float(f"{sigma:.5g}") == sigma


@settings(max_examples=200, deadline=None)
@given(rho=st.floats(0, 100), each=st.floats(1e-7, 10))
def test_affordable_never_exceeds(rho: float, each: float) -> None:
    count = affordable(rho, each)
    assert count * each <= rho
    assert (count + 2) * each > rho


@settings(max_examples=60, deadline=None)
@given(
    eps=st.floats(0.05, 20),
    delta=st.floats(1e-9, 1e-3),
    shares=st.lists(st.floats(0.001, 0.3), min_size=1, max_size=3),
    squared=st.integers(1, 10**12),
    count=st.integers(1, 5000),
    accountant=st.sampled_from(["certified", "paper"]),
)
def test_a_run_of_many_parts_never_exceeds_its_budget(
    eps: float, delta: float, shares: list[float], squared: int, count: int, accountant: Any
) -> None:
    """Warm start and histogram take shares; votes, by sigma and by count, take what is left."""
    rho = budget_rho(eps, delta, accountant)
    parts = [release(squared, sigma_for(rho * share, squared)) for share in shares]
    left = rho - total_rho(parts)
    votes = release(4 * 200, sigma_for(left / 2 / count, 4 * 200), count)
    left -= total_rho([votes])
    cheap = release(4 * 50, sigma_for(left / 7.3, 4 * 50))
    more = Charge(event=cheap.event, count=affordable(left, rho_of(cheap.event)))
    spent = epsilon([*parts, votes, more], delta, accountant)
    assert spent <= eps
    assert more.count == 7 and spent > 0.8 * eps
    over = Charge(event=cheap.event, count=more.count + 1)
    assert epsilon([*parts, votes, over], delta, accountant) > eps  # the control


@settings(max_examples=12, deadline=None)
@given(
    eps=st.floats(0.1, 20),
    delta=st.floats(1e-8, 1e-4),
    q=st.floats(0.001, 1.0),
    steps=st.integers(1, 5000),
    accountant=st.sampled_from(["certified", "paper"]),
)
def test_noise_for_sampled_steps(
    eps: float, delta: float, q: float, steps: int, accountant: Any
) -> None:
    noise = noise_multiplier_for(
        eps, delta, sampling_probability=q, steps=steps, accountant=accountant
    )
    assert epsilon([step(noise, q, steps)], delta, accountant) <= eps
    assert epsilon([step(noise * 0.9995, q, steps)], delta, accountant) > eps
    assert float(f"{noise:.5g}") == noise


@settings(max_examples=20, deadline=None)
@given(
    eps=st.floats(0.1, 20),
    delta=st.floats(1e-8, 1e-4),
    q=st.floats(0.001, 1.0),
    noise=st.floats(0.5, 20),
    accountant=st.sampled_from(["certified", "paper"]),
)
def test_sampled_steps_for_noise(
    eps: float, delta: float, q: float, noise: float, accountant: Any
) -> None:
    steps = steps_for(
        eps, delta, sampling_probability=q, noise_multiplier=noise, accountant=accountant
    )
    assert epsilon([step(noise, q, steps)], delta, accountant) <= eps
    assert epsilon([step(noise, q, steps + 1)], delta, accountant) > eps


@pytest.mark.parametrize("eps, q, steps", [(1.0, 0.05, 200), (8.0, 0.01, 1000)])
def test_loss_distributions_size_sampled_steps_both_ways(eps: float, q: float, steps: int) -> None:
    asked: Any = {"sampling_probability": q, "accountant": "pld"}
    noise = noise_multiplier_for(eps, DELTA, steps=steps, **asked)
    assert epsilon([step(noise, q, steps)], DELTA, "pld") <= eps
    assert epsilon([step(noise * 0.9995, q, steps)], DELTA, "pld") > eps
    assert noise < noise_multiplier_for(eps, DELTA, sampling_probability=q, steps=steps)
    back = steps_for(eps, DELTA, noise_multiplier=noise, **asked)
    assert steps <= back < steps * 1.01
    assert epsilon([step(noise, q, back)], DELTA, "pld") <= eps
    assert epsilon([step(noise, q, back + 1)], DELTA, "pld") > eps


def test_what_is_bought_beside_is_counted() -> None:
    histogram = [release(1, 10.0)]
    alone, beside = (
        noise_multiplier_for(2.0, DELTA, sampling_probability=0.02, steps=500, beside=b)
        for b in ([], histogram)
    )
    assert beside > alone
    assert epsilon([*histogram, step(beside, 0.02, 500)], DELTA) <= 2.0
    assert epsilon([*histogram, step(alone, 0.02, 500)], DELTA) > 2.0
    fewer = steps_for(
        2.0, DELTA, sampling_probability=0.02, noise_multiplier=alone, beside=histogram
    )
    assert 0 < fewer < 500


def test_a_budget_that_is_gone_buys_no_step() -> None:
    gone = [release(1, 1.0)]
    asked: Any = {"sampling_probability": 0.02, "beside": gone}
    assert steps_for(1.0, DELTA, noise_multiplier=1.0, **asked) == 0
    with pytest.raises(DataLensError, match="No noise"):
        noise_multiplier_for(1.0, DELTA, steps=10, **asked)


def test_an_accountant_that_is_no_bound_sizes_nothing() -> None:
    asked: Any = {"sampling_probability": 0.02, "steps": 10}
    for name in ("gaussian", "pld"):
        with pytest.raises(DataLensError, match="no bound"):
            budget_rho(1.0, DELTA, name)  # type: ignore[arg-type]
        with pytest.raises(DataLensError, match="no bound"):
            noise_multiplier_for(1.0, DELTA, **asked, accountant=name, beside=[release(1, 99.0)])
    with pytest.raises(DataLensError, match="no bound"):
        noise_multiplier_for(1.0, DELTA, **asked, accountant="gaussian")


@pytest.mark.parametrize("bad", [0.0, -1.0, math.nan, math.inf])
def test_nonsense_is_refused(bad: float) -> None:
    with pytest.raises(DataLensError):
        budget_rho(bad, DELTA)
    with pytest.raises(DataLensError):
        sigma_for(bad, 1)
    with pytest.raises(DataLensError):
        affordable(1.0, bad)
    with pytest.raises(DataLensError):
        noise_multiplier_for(bad, DELTA, sampling_probability=0.1, steps=5)
    with pytest.raises(DataLensError):
        noise_multiplier_for(1.0, DELTA, sampling_probability=bad, steps=5)
    with pytest.raises(DataLensError):
        steps_for(1.0, DELTA, sampling_probability=0.1, noise_multiplier=bad)
    if not math.isfinite(bad):
        with pytest.raises(DataLensError):
            affordable(bad, 1.0)


@pytest.mark.slow
@settings(max_examples=15, deadline=None)
@given(
    eps=st.floats(0.2, 12),
    q=st.floats(0.002, 0.5),
    steps=st.integers(2, 3000),
)
def test_loss_distributions_never_exceed_a_budget(eps: float, q: float, steps: int) -> None:
    asked: Any = {"sampling_probability": q, "accountant": "pld"}
    noise = noise_multiplier_for(eps, DELTA, steps=steps, **asked)
    assert epsilon([step(noise, q, steps)], DELTA, "pld") <= eps
    assert epsilon([step(noise * 0.999, q, steps)], DELTA, "pld") > eps
    back = steps_for(eps, DELTA, noise_multiplier=noise, **asked)
    assert epsilon([step(noise, q, back)], DELTA, "pld") <= eps
    assert epsilon([step(noise, q, back + 1)], DELTA, "pld") > eps


def test_rounding_goes_up_until_it_fits() -> None:
    assert _five_digits(0.98765432, lambda noise: True) == 0.98766
    assert _five_digits(0.98765432, lambda noise: noise >= 0.98769) == 0.98769
    assert _five_digits(99999.4, lambda noise: noise > 100_000) == 100_010.0
