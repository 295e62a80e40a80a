"""The audit's statistics: bounds that are true as often as they say, and that have power."""

import numpy as np
import pytest
from scipy.optimize import brentq
from scipy.stats import binomtest, norm

from datalens.errors import DataLensError
from datalens.mechanism.events import GaussianRelease
from datalens.privacy.accountants import Charge, epsilon_of_rho
from datalens.privacy.audit import (
    Transcript,
    confidence_of_each,
    find,
    lower_bound,
    share_moved,
)
from datalens.workflows.audit import tallies

CHANCE = np.random.default_rng


def gaussian(mu: float, trials: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    chance = CHANCE(seed)
    return chance.normal(0, 1, trials), chance.normal(mu, 1, trials)


def randomised_response(epsilon: float, trials: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Where the bound can be tight: one test attains epsilon exactly, at delta 0."""
    chance, truth = CHANCE(seed), 1 / (1 + np.exp(-epsilon))
    flips = chance.random((2, trials)) > truth
    return flips[0].astype(float), 1 - flips[1].astype(float)


def test_bounds_are_true_as_often_as_they_say() -> None:
    """At 80 % confidence; the same bounds must often exceed a claim that is 20 % too small."""
    bounds = np.array(
        [
            lower_bound(*randomised_response(1.0, 1000, seed), delta=0, confidence=0.8).epsilon
            for seed in range(400)
        ]
    )
    wrong = int((bounds > 1.0).sum())
    assert binomtest(wrong, len(bounds), 0.2, alternative="greater").pvalue > 1e-5
    assert (bounds > 0.8).mean() > 0.5


@pytest.mark.parametrize("delta", [0.2, 0.05])
def test_a_gaussian_mechanism_is_bounded_from_below_and_half_its_noise_exceeds(
    delta: float,
) -> None:
    claim = epsilon_of_rho(0.5, delta, "gaussian")  # mu = 1
    confidence = confidence_of_each(1)
    bounds = [
        lower_bound(*gaussian(mu, 20_000, 0), delta=delta, confidence=confidence).epsilon
        for mu in (1.0, 2.0)
    ]
    assert 0.6 * claim < bounds[0] < claim < bounds[1]


def test_both_directions_are_tried() -> None:
    """A test that picks out the blanked world does as well: here only that one can."""
    blanked = np.repeat([0.0, 1.0], 2000)  # the lower score occurs in this world alone
    present = np.ones(4000)
    for one, other in ((blanked, present), (-present, -blanked)):
        for flipped in (False, True):
            pair = (-other, -one) if flipped else (one, other)
            bound = lower_bound(*pair, delta=0.05, confidence=0.999)
            assert bound.epsilon > 4


def test_equal_worlds_show_nothing_and_separate_worlds_show_all_that_trials_can() -> None:
    same = lower_bound(*gaussian(0.0, 10_000, 1), delta=1e-5, confidence=0.999)
    assert same.epsilon < 0.1
    apart = lower_bound(np.zeros(10_000), np.ones(10_000), delta=0.05, confidence=0.999)
    assert 6 < apart.epsilon < np.log(5000)


def test_bad_scores_are_refused() -> None:
    for scores in (np.zeros(5), np.full(100, np.nan), np.full(100, np.inf)):
        with pytest.raises(DataLensError, match="finite scores"):
            lower_bound(np.zeros(100), scores, delta=0.05, confidence=0.99)


def test_the_claim_follows_from_what_was_charged() -> None:
    """The same scores hold against four charges, and exceed one."""
    event = tallies.mechanism().event
    blanked, present = gaussian(1.0, 20_000, 2)
    for count, holds in ((tallies.IMAGES, True), (1, False)):
        transcript = Transcript(
            blanked=blanked,
            present=present,
            charges=(Charge(event=event, count=count),),
            moved=1.0,
        )
        assert find(transcript, delta=0.05, confidence=0.999).holds is holds


def test_moves_are_shares_of_what_was_paid() -> None:
    event = GaussianRelease(
        what="votes", squared_sensitivity=8, squared_sensitivity_replace=8, sigma=1.0
    )
    ones = np.ones(8, dtype=np.int64)
    assert share_moved(ones, 0 * ones, Charge(event=event, count=1)) == 1.0
    assert share_moved(ones, -ones, Charge(event=event, count=2)) == 2.0
    assert share_moved(ones, -ones, Charge(event=event, count=0)) == np.inf
    assert share_moved(ones, ones, Charge(event=event, count=0)) == 0.0


@pytest.mark.parametrize("delta", [0.2, 0.05])
def test_the_exact_curve_is_right_for_discrete_noise_at_the_audits_settings(delta: float) -> None:
    """Its epsilon by summation over the discrete Gaussian itself; a lattice has steps in it."""
    worlds = tallies.worst_pair(tallies.mechanism())
    difference = (worlds.present - worlds.blanked).ravel()
    reach = np.arange(-80, 81)
    one = np.exp(-(reach**2) / (2 * tallies.SIGMA**2))
    one /= one.sum()
    total = np.ones(1)
    for _ in np.flatnonzero(difference):  # the noise of a score, as all differences are equal
        total = np.convolve(total, one)
    assert set(np.abs(difference)) == {0, 2}
    shift = np.abs(difference).sum()
    null, other = np.pad(total, (0, shift)), np.pad(total, (shift, 0))

    def excess(epsilon: float) -> float:
        return float(np.maximum(other - np.exp(epsilon) * null, 0).sum()) - delta

    claimed = epsilon_of_rho(0.5, delta, "gaussian")
    assert brentq(excess, 0, 10) == pytest.approx(claimed, abs=1e-3)
    assert norm.sf(0.5 - claimed) > delta  # and the claim is no triviality


def test_the_worst_pair_uses_up_what_is_paid_for() -> None:
    """An audit at a milder pair would have less power than it could."""
    worlds = tallies.worst_pair(tallies.mechanism())
    charge = Charge(event=tallies.mechanism().event, count=tallies.IMAGES)
    assert share_moved(worlds.present, worlds.blanked, charge) == 1.0
