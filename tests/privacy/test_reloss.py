"""The verifier's privacy losses against dp-accounting's, and against closed forms."""

import math

import pytest

from datalens.mechanism.events import SampledGaussianRelease
from datalens.privacy.accountants import Charge, epsilon
from datalens.privacy.recompute import gaussian
from datalens.privacy.reloss import loss_epsilon

CASES = [
    (512 / 60_000, 1.35, 1000, 4.0),
    (128 / 60_000, 7.4, 2000, 0.2),
    (0.1, 0.62, 12, 40.0),
    (0.5, 5.0, 80, 14.0),
]
"""Sampling, noise, steps, and a loss that hardly ever occurs."""


@pytest.mark.parametrize("q, z, count, reach", CASES)
def test_it_agrees_with_dp_accounting_and_no_other_noise_does(
    q: float, z: float, count: int, reach: float
) -> None:
    def own(q: float, z: float) -> float:
        return loss_epsilon({(q, z): count}, 1e-5, reach=reach)

    event = SampledGaussianRelease(what="dp-sgd", sampling_probability=q, noise_multiplier=z)
    bound = epsilon([Charge(event=event, count=count)], 1e-5, "pld")
    assert own(q, z) == pytest.approx(bound, rel=5e-4)
    assert own(q, z) <= bound * (1 + 1e-6)
    assert own(q, 1.01 * z) < bound * (1 - 2e-3)
    assert own(0.99 * q, z) < bound * (1 - 2e-3)


def test_without_sampling_it_is_the_gaussian_curve() -> None:
    for z, count in ((3.0, 1), (10.0, 50)):
        exact = gaussian(count / (2 * z**2), 1e-5)
        found = loss_epsilon({(1.0, z): count}, 1e-5, reach=12.0)
        assert found == pytest.approx(exact, rel=1e-5)


def test_kinds_of_steps_add_up() -> None:
    once = loss_epsilon({(0.1, 2.0): 20}, 1e-5, reach=20.0)
    parts = loss_epsilon({(0.1, 2.0): 10, (0.1, 2.0000001): 10}, 1e-5, reach=20.0)
    assert parts == pytest.approx(once, rel=1e-4)


@pytest.mark.parametrize("delta", [1e-11, 0.0, math.nan])
def test_too_small_a_delta_is_refused(delta: float) -> None:
    with pytest.raises(ValueError, match="too small"):
        loss_epsilon({(0.1, 2.0): 20}, delta, reach=20.0)
