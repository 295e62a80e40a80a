"""One critic out of many: bounds of what it says, and what a step with it costs."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy.special import logsumexp
from scipy.stats import kstest

from datalens.mechanism.drawn import DrawnCritic
from datalens.mechanism.events import SampledGaussianRelease
from datalens.mechanism.noise import SeededFloatNoise
from datalens.privacy.sampling import sampled_renyi

M = 4
DRAWN = DrawnCritic(n_teachers=10, clip=0.5, noise_multiplier=0.7)
ODD = [math.nan, math.inf, -math.inf, 1e308, -1e308, 1e-320, 0.0]


@settings(max_examples=200, deadline=None)
@given(seed=st.integers(0, 2**32 - 1), scale=st.integers(-300, 300), odd=st.sampled_from(ODD))
def test_whatever_a_critic_says_moves_a_step_by_no_more_than_is_paid_for(
    seed: int, scale: int, odd: float
) -> None:
    chance = np.random.default_rng(seed)
    wild = chance.normal(size=(2, M, 9)) * 10.0**scale
    wild[0, chance.integers(M), chance.integers(9)] = odd
    u, v = DRAWN.bounded(wild[0]), DRAWN.bounded(wild[1])
    assert np.isfinite(u).all()
    assert np.linalg.norm(u, axis=1).max() <= 0.5
    assert np.linalg.norm(u - v, axis=1).max() <= DRAWN.sensitivity


def test_the_bound_is_reached_and_the_norm_of_one_gradient_would_be_too_little() -> None:
    ones = np.ones((1, 9))
    moved = np.linalg.norm(DRAWN.bounded(ones) - DRAWN.bounded(-ones))
    assert moved == pytest.approx(DRAWN.sensitivity)
    assert moved > 1.9 * DRAWN.clip  # the mutant: as if a record could only be left out


def test_a_gradient_within_bounds_stays_as_it_is() -> None:
    small = np.random.default_rng(0).normal(size=(M, 9)) / 100
    assert np.array_equal(DRAWN.bounded(small), small)


@pytest.mark.parametrize("factor, fits", [(1.0, True), (0.9, False), (1.1, False)])
def test_the_noise_is_what_its_price_says(factor: float, fits: bool) -> None:
    found = DRAWN.release(np.zeros((M, 2000)), noise=SeededFloatNoise(b"s"), key="a")
    claimed = 0.7 * 2 * 0.5 * factor
    assert bool(kstest(found.ravel(), "norm", args=(0, claimed)).pvalue > 1e-3) is fits


Points = NDArray[np.float64]


def divergence(own: tuple[Points, Points], others: Points, z: float, order: float) -> float:
    """D of what is released with the record from that without it, over the plane of all critics.

    Each critic's Gaussian has noise z around a point; `own` are the two of the record's critic.
    """
    reach = order + 8 * z
    axis = np.arange(-reach, reach, z / 5)
    x = np.stack(np.meshgrid(axis, axis), axis=-1)

    def log_density(at: Points) -> Points:
        squares = ((x[None] - np.vstack([at, others])[:, None, None]) ** 2).sum(-1)
        return np.asarray(logsumexp(-squares / (2 * z**2), axis=0)) - math.log(len(others) + 1)

    p, q = log_density(own[0][None]), log_density(own[1][None])
    cell = (z / 5) ** 2 / (2 * math.pi * z**2)
    return float(logsumexp(order * p + (1 - order) * q) + math.log(cell)) / (order - 1)


def price(probability: float, z: float, order: float) -> float:
    event = SampledGaussianRelease(
        what="drawn-critic", sampling_probability=probability, noise_multiplier=z
    )
    return float(sampled_renyi(event, [order])[0])


def triangle(n_teachers: int) -> tuple[tuple[Points, Points], Points]:
    """The record's critic at one corner or another, all others at the third: sides of 1."""
    u, v = np.array([1.0, 0.0]), np.array([0.5, math.sqrt(0.75)])
    return (u, v), np.zeros((n_teachers - 1, 2))


@pytest.mark.parametrize("n_teachers", [2, 3, 10, 50])
@pytest.mark.parametrize("z", [0.45, 0.7, 1.5])
def test_no_critics_cost_more_than_is_charged(n_teachers: int, z: float) -> None:
    """Random points at most 1 apart, and the worst known; any three lie in a plane."""
    drawn = DrawnCritic(n_teachers=n_teachers, clip=1.0, noise_multiplier=z)
    chance = np.random.default_rng(n_teachers)
    for order in (1.5, 2.0, 4.0):
        charged = price(drawn.event.sampling_probability, z, order)
        own, others = triangle(n_teachers)
        assert divergence(own, others, z, order) <= charged
        for _ in range(3):
            angles = chance.uniform(0, 2 * math.pi, 2 + min(n_teachers - 1, 3))
            at = 0.5 * np.stack([np.cos(angles), np.sin(angles)], axis=1)
            others = at[2:][np.arange(n_teachers - 1) % len(at[2:])]
            assert divergence((at[0], at[1]), others, z, order) <= charged


@pytest.mark.parametrize("z", [0.7, 1.0])
def test_one_in_n_would_be_too_little(z: float) -> None:
    """The control: the price of being drawn once in N is less than a triangle costs."""
    own, others = triangle(50)
    assert divergence(own, others, z, 2.0) > 1.1 * price(1 / 50, z, 2.0)


def test_one_draw_for_four_images_would_cost_more_than_four_draws() -> None:
    """The control: one critic for all of them moves twice as far, with the same noise."""
    own, others = triangle(10)
    together = divergence(own, others, 0.9 / 2, 4.0)
    assert together > 2 * 4 * price(DRAWN.event.sampling_probability, 0.9, 4.0)


def test_integration_is_exact_where_the_truth_is_known() -> None:
    """All others where the critic is without the record: then one in N is the whole truth."""
    u, v = np.array([1.0, 0.0]), np.zeros(2)
    found = divergence((u, v), np.zeros((9, 2)), 0.7, 3.0)
    assert found == pytest.approx(price(1 / 10, 0.7, 3.0), rel=1e-6)
