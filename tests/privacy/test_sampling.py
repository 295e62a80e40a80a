"""What one sampled step costs, against exact sums and integration."""

import math

import mpmath
import numpy as np
import pytest
from scipy.stats import norm

from datalens.mechanism.events import SampledGaussianRelease
from datalens.privacy.sampling import sampled_renyi


def step(noise: float, probability: float) -> SampledGaussianRelease:
    return SampledGaussianRelease(
        what="dp-sgd", sampling_probability=probability, noise_multiplier=noise
    )


@pytest.mark.parametrize("q, noise", [(1e-9, 5.0), (1e-6, 50.0), (1e-4, 1.0), (0.3, 1000.0)])
def test_rounding_never_hides_a_small_cost(q: float, noise: float) -> None:
    """At whole orders the truth is a finite sum (Mironov, Talwar, Zhang 2019): 60 digits of it."""
    event = step(noise, q)
    with mpmath.workdps(60):
        for order in (2, 3, 8, 64, 512):
            terms = (
                mpmath.binomial(order, i)
                * mpmath.mpf(q) ** i
                * (1 - mpmath.mpf(q)) ** (order - i)
                * mpmath.exp(mpmath.mpf(i * i - i) / (2 * mpmath.mpf(noise) ** 2))
                for i in range(order + 1)
            )
            truth = float(mpmath.log(mpmath.fsum(terms)) / (order - 1))
            found = float(sampled_renyi(event, [order])[0])
            assert truth <= found <= truth * (1 + 1e-9) + 1e-11


@pytest.mark.parametrize("noise, q", [(1.0, 0.01), (2.0, 0.1), (5.0, 0.5), (0.8, 0.9), (2.0, 1.0)])
def test_the_cost_of_replacing_in_a_sampled_step(noise: float, q: float) -> None:
    """Against integration over the worst pair; and less than twice as much at order 2."""
    event = step(noise, q)
    for order in (2.0, 3.5, 8.0):
        x = np.linspace(-14 * noise - order, 14 * noise + 2 * order, 200_001)
        p, r = (
            np.logaddexp(
                math.log1p(-q) + norm.logpdf(x, 0, noise) if q < 1 else -np.inf,
                math.log(q) + norm.logpdf(x, at, noise),
            )
            for at in (1, -1)
        )
        truth = math.log(np.exp(order * p + (1 - order) * r).sum() * (x[1] - x[0])) / (order - 1)
        found = float(sampled_renyi(event, [order], "replaced")[0])
        assert truth * (1 - 1e-6) <= found
        assert found < 2 * truth or order > 2
        blanked = float(sampled_renyi(event, [order])[0])
        assert blanked < truth  # the control: blanking's cost would be too little


def test_no_pair_of_records_is_worse_than_opposite_ones() -> None:
    """The lemma behind REPLACE_ONE, by integration over the plane that two records span."""
    q, noise, eps = 0.3, 1.0, 0.5
    side = np.linspace(-8, 8, 401)
    x, y = np.meshgrid(side, side)

    def mixture(at: tuple[float, float]) -> np.ndarray:
        near = norm.pdf(x, at[0], noise) * norm.pdf(y, at[1], noise)
        return (1 - q) * norm.pdf(x, 0, noise) * norm.pdf(y, 0, noise) + q * near

    def over(u: tuple[float, float], v: tuple[float, float]) -> float:
        apart = np.maximum(mixture(u) - math.exp(eps) * mixture(v), 0)
        return float(apart.sum() * (side[1] - side[0]) ** 2)

    worst = over((1, 0), (-1, 0))
    chance = np.random.default_rng(0)
    for _ in range(40):
        angles, sizes = chance.uniform(0, 2 * math.pi, 2), chance.uniform(0.5, 1, 2)
        u, v = ((s * math.cos(a), s * math.sin(a)) for s, a in zip(sizes, angles, strict=True))
        assert over(u, v) <= worst + 1e-6
    assert over((1.3, 0), (-1, 0)) > worst + 1e-3  # the control: a record that is too long


def test_orders_without_an_answer_count_as_infinite_and_say_nothing(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Of little noise, low orders have a series that does not converge."""
    event = SampledGaussianRelease(
        what="dp-sgd", sampling_probability=0.0128, noise_multiplier=0.367879
    )
    curve = sampled_renyi(event, [1.1, 2.0])
    assert np.isinf(curve[0]) and 0 < curve[1] < 100
    assert not caplog.records
