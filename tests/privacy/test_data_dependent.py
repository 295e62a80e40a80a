"""Theorem 5 against enumeration, Theorem 4 against the divergence it bounds, and their ends."""

import math
from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import logsumexp
from scipy.stats import norm

from datalens.errors import DataLensError
from datalens.mechanism.ballots import BallotRule
from datalens.mechanism.noise import ExactNoise
from datalens.mechanism.topagg import TopAgg
from datalens.privacy.accountants import Charge, epsilon
from datalens.privacy.certificate import totals
from datalens.privacy.data_dependent import (
    ORDERS,
    Composition,
    DataDependentBound,
    least_passing,
    peaks,
    renyi_curve,
    theorem_4,
)
from datalens.privacy.ledger import Ledger

OUTCOMES = (-1, 0, 1)


def log_odds_of_a_vote(f: int, sigma: float, passing: int) -> dict[int, float]:
    """By adding up the noise's masses one by one: log P(-1), P(0), P(+1) of one entry."""
    reach = math.ceil(40 * sigma) + abs(f) + passing
    noise = np.arange(-reach, reach + 1)
    mass = -((noise / sigma) ** 2) / 2
    votes = {1: noise + f >= passing, -1: noise + f <= -passing, 0: abs(noise + f) < passing}
    return {vote: logsumexp(mass[cast]) - logsumexp(mass) for vote, cast in votes.items()}


def log_odds(tally: tuple[int, ...], sigma: float, passing: int) -> np.ndarray:
    """Log of the probability of each of the 3^d directions."""
    entries = [log_odds_of_a_vote(f, sigma, passing) for f in tally]
    directions = product(OUTCOMES, repeat=len(tally))
    return np.array(
        [sum(p[v] for p, v in zip(entries, votes, strict=True)) for votes in directions]
    )


def printed_q(tally: np.ndarray, sigma: float, threshold: float) -> float:
    """Theorem 5 as it is printed, for the likeliest direction."""
    ends = (threshold - tally) / sigma
    up, down, zero = 1 - norm.cdf(ends), norm.cdf(ends), abs(2 * norm.cdf(ends) - 1)
    likeliest = np.where(tally >= threshold, up, np.where(tally <= -threshold, down, zero))
    return float(1 - likeliest.prod())


TALLIES = [(0,), (7,), (-9,), (3, -12), (15, 1, -4), (-6, -6, 6, 0)]


@pytest.mark.parametrize("tally", TALLIES)
@pytest.mark.parametrize("sigma", [0.4, 1.0, 5.0, 23.7])
@pytest.mark.parametrize("passing", [1, 4, 11])
def test_theorem_5_is_the_enumerated_probability(
    tally: tuple[int, ...], sigma: float, passing: int
) -> None:
    found = peaks(np.array([tally]), sigma=sigma, passing=passing)
    every = log_odds(tally, sigma, passing)
    assert found.log_peak[0] == pytest.approx(every.max(), rel=1e-9, abs=1e-14)
    assert found.log_q[0] == pytest.approx(logsumexp(np.sort(every)[:-1]), rel=1e-9)


@pytest.mark.parametrize("tally", [(-9,), (3, -12), (-6, -6, 6, 0)])
def test_the_printed_theorem_5_is_rejected(tally: tuple[int, ...]) -> None:
    q = -math.expm1(log_odds(tally, 5.0, 4).max())
    found = math.exp(peaks(np.array([tally]), sigma=5.0, passing=4).log_q[0])
    assert found == pytest.approx(q, rel=1e-9)
    assert abs(printed_q(np.array(tally), 5.0, 3.5) - q) > 0.1


def test_theorem_5_is_what_the_noise_does() -> None:
    """20,000 exact draws through TopAgg itself; the right q passes at 5 sigmas, 1.2 q does not."""
    tally = np.array([9, -14, 1])
    topagg = TopAgg(ballot=BallotRule(top_k=1, clip=1.0), n_teachers=20, sigma=6.0, quorum=0.4)
    draws = tally + topagg.draw((20_000, len(tally)), noise=ExactNoise(), key="draws")
    directions, counts = np.unique(topagg.direction(draws), axis=0, return_counts=True)
    entries = [log_odds_of_a_vote(int(f), 6.0, 8) for f in tally]
    likeliest = np.array([max(p, key=p.__getitem__) for p in entries])
    missed = 1 - counts[(directions == likeliest).all(axis=1)].sum() / 20_000
    q = math.exp(peaks(tally[None], sigma=6.0, passing=least_passing(0.4, 20)).log_q[0])
    spread = math.sqrt(q * (1 - q) / 20_000)
    assert abs(missed - q) < 5 * spread
    assert abs(missed - 1.2 * q) > 5 * spread


@given(quorum=st.floats(0, 100), teachers=st.integers(1, 5000), levels=st.sampled_from([1, 64]))
def test_the_threshold_is_that_of_topagg(quorum: float, teachers: int, levels: int) -> None:
    ballot = BallotRule(top_k=1, clip=1.0, levels=levels)
    topagg = TopAgg(ballot=ballot, n_teachers=teachers, sigma=1.0, quorum=quorum)
    least = least_passing(quorum, levels * teachers)
    assert least >= 1
    release = np.array([least - 1, least, -least + 1, -least])
    assert topagg.direction(release).tolist() == [0, 1, 0, -1]


def test_tails_meet_where_the_table_ends() -> None:
    """Sums below sigma 10,000 and the normal tail above it agree to the error that is claimed."""
    tally = np.array([[0, 15_000, -60_000]])
    below = peaks(tally, sigma=9_999.999, passing=20_000)
    above = peaks(tally, sigma=10_000.001, passing=20_000)
    assert above.log_q == pytest.approx(below.log_q, rel=1e-6)
    assert above.log_peak == pytest.approx(below.log_peak, rel=1e-6)


@pytest.mark.parametrize("sigma", [5.0, 2e4])
def test_q_stays_right_far_out(sigma: float) -> None:
    """Unanimous far beyond the threshold, q is the one tail; at 200 sigmas it is rounded up."""
    passing = round(10 * sigma)
    near, far = (
        peaks(np.array([[passing + round(n * sigma)]]), sigma=sigma, passing=passing).log_q[0]
        for n in (25, 200)
    )
    assert near == pytest.approx(norm.logsf(25 + 0.5 / sigma), rel=0.01)
    assert norm.logsf(31) < far < norm.logsf(29)


def test_q_near_one_is_kept_in_log_space() -> None:
    found = peaks(np.zeros((1, 784), dtype=np.int64), sigma=5000.0, passing=2800)
    one = log_odds_of_a_vote(0, 5000.0, 2800)[0]
    assert found.log_peak[0] == pytest.approx(784 * one)
    assert -1e-280 < found.log_q[0] < 0


def neighbours(tally: tuple[int, ...], top_k: int) -> set[tuple[int, ...]]:
    """Every tally that one ballot can make of it by becoming another."""
    ballots = [b for b in product(OUTCOMES, repeat=len(tally)) if np.count_nonzero(b) <= top_k]
    return {
        tuple(f - a + b for f, a, b in zip(tally, old, new, strict=True))
        for old in ballots
        for new in ballots
    }


def divergence(log_p: np.ndarray, log_other: np.ndarray, order: float) -> float:
    return float(logsumexp(order * log_p + (1 - order) * log_other)) / (order - 1)


def worst_divergence(
    tally: tuple[int, ...], top_k: int, *, sigma: float, passing: int, order: float
) -> float:
    here = log_odds(tally, sigma, passing)
    return max(
        divergence(here, log_odds(other, sigma, passing), order)
        for other in neighbours(tally, top_k)
    )


@settings(max_examples=150, deadline=None)
@given(
    tally=st.lists(st.integers(-25, 25), min_size=1, max_size=2).map(tuple),
    sigma=st.floats(0.8, 12),
    passing=st.integers(1, 12),
    top_k=st.integers(1, 2),
    order=st.floats(1.05, 60),
)
def test_theorem_4_bounds_the_divergence_from_every_neighbour(
    tally: tuple[int, ...], sigma: float, passing: int, top_k: int, order: float
) -> None:
    top_k = min(top_k, len(tally))
    rho = 4 * top_k / (2 * sigma**2)
    log_q = float(peaks(np.array([tally]), sigma=sigma, passing=passing).log_q[0])
    bound = renyi_curve(log_q, rho, np.array([order]))
    if bound is None:
        return
    worst = worst_divergence(tally, top_k, sigma=sigma, passing=passing, order=order)
    assert worst <= bound[0] * (1 + 1e-9) + 1e-12


@pytest.mark.parametrize("wrong", ["a tenth of q", "a tenth of the cost"])
def test_a_smaller_bound_would_be_caught(wrong: str) -> None:
    """The control of the test above: there are neighbours for which it would fail."""
    tally, sigma, passing, order = (13,), 1.21, 9, 2.63
    rho = 4 / (2 * sigma**2)
    log_q = float(peaks(np.array([tally]), sigma=sigma, passing=passing).log_q[0])
    worst = worst_divergence(tally, 1, sigma=sigma, passing=passing, order=order)
    right = renyi_curve(log_q, rho, np.array([order]))
    if wrong == "a tenth of q":
        smaller = renyi_curve(log_q - math.log(10), rho, np.array([order]))
    else:
        smaller = renyi_curve(log_q, rho / 10, np.array([order]))
    assert right is not None and smaller is not None
    assert smaller[0] < worst <= right[0]


def best_of_a_grid(log_q: float, rho: float, order: float) -> tuple[float | None, bool]:
    """Theorem 4 over a fine grid of mu1 and mu2, with the precondition as it is printed and A
    positive; and whether mu1 and mu2 fulfil it where the bound would be least without it."""

    def fits(mu1: np.ndarray, mu2: np.ndarray) -> np.ndarray:
        logs = np.log(mu1 / (mu1 - 1)) + np.log(mu2 / (mu2 - 1))
        return (log_q <= rho * mu2 * (mu2 - 1) - mu2 * logs) & (log_q + rho * mu2 < 0)

    mu1 = order + np.concatenate([[0.0], np.logspace(-3, 8, 150)])[:, None]
    mu1, mu2 = (x.ravel() for x in np.broadcast_arrays(mu1, 1 + np.logspace(-4, 8, 400)))
    ok = fits(mu1, mu2)
    every = theorem_4(log_q, rho, order=np.array(order), mu1=mu1[ok], mu2=mu2[ok])
    root = np.array(math.sqrt(-log_q / rho))
    free = bool(root > 1 + 1e-9 and fits(np.maximum(order, 1 + root), root))
    return (float(every.min()) if ok.any() else None), free


@settings(max_examples=100, deadline=None)
@given(log_q=st.floats(-690, -0.1), rho=st.floats(1e-7, 0.5), order=st.floats(1.01, 1e4))
def test_no_other_mu_is_better(log_q: float, rho: float, order: float) -> None:
    """Where the precondition does not bind; that is wherever Theorem 4 is of use."""
    best, free = best_of_a_grid(log_q, rho, order)
    if best is not None and free:
        found = renyi_curve(log_q, rho, np.array([order]))
        assert found is not None and found[0] <= best * (1 + 1e-9) + 1e-12


@pytest.mark.parametrize("q", [0.4, 0.7, 0.9, 0.99])
@pytest.mark.parametrize("rho", [1e-5, 1e-3])
@pytest.mark.parametrize("order", [2.0, 25.0])
def test_nor_where_the_precondition_binds(q: float, rho: float, order: float) -> None:
    best, free = best_of_a_grid(math.log(q), rho, order)
    found = renyi_curve(math.log(q), rho, np.array([order]))
    assert not free
    assert (found is None) is (best is None)
    if found is not None and best is not None:
        assert found[0] <= best * 1.05


@settings(max_examples=100, deadline=None)
@given(log_q=st.floats(-300, -0.05), rho=st.floats(1e-6, 1), order=st.floats(1.05, 1e3))
def test_the_bound_grows_with_q(log_q: float, rho: float, order: float) -> None:
    """What the precondition is for: q may be rounded up."""
    lower, upper = (renyi_curve(x, rho, np.array([order])) for x in (log_q * 1.01, log_q))
    if upper is not None:
        assert lower is not None and lower[0] <= upper[0] * 1.05 + 1e-13


@pytest.mark.parametrize("log10_q", [-300, -100, -10, -3])
def test_small_q_is_stable(log10_q: float) -> None:
    curve = renyi_curve(log10_q * math.log(10), 1.6e-5)
    assert curve is not None and np.isfinite(curve).all() and (curve >= 0).all()
    at = np.searchsorted(ORDERS, 20.0)
    assert 0 < curve[at] < 1.6e-5 * ORDERS[at]


@pytest.mark.parametrize("log_q", [-1e-12, -1e-300, -0.0, -1e-3])
def test_near_one_it_is_not_applicable(log_q: float) -> None:
    assert renyi_curve(log_q, 1.6e-5) is None
    bound = Composition(rho=1.6e-5, delta=1e-5, accountant="paper").add(np.full(15, log_q))
    assert bound.dependent is None and bound.least == bound.independent


def test_the_printed_precondition_is_not_enough() -> None:
    """At rho 1, q 0.6, mu1 10, mu2 3 it holds, and yet a neighbour's q has no bound below 1."""
    log_q, rho, mu1, mu2 = math.log(0.6), 1.0, 10.0, 3.0
    assert log_q <= (mu2 - 1) * rho * mu2 - mu2 * math.log(mu1 / (mu1 - 1) * mu2 / (mu2 - 1))
    assert log_q + rho * mu2 > 0
    assert renyi_curve(log_q, rho) is None


def test_between_it_may_exceed_what_holds_for_any_records() -> None:
    """Theorem 4 as it stands is no minimum: with q of one half it is far above Theorem 3."""
    bound = Composition(rho=1.6e-5, delta=1e-5, accountant="paper").add(np.log(np.full(1290, 0.5)))
    assert bound.independent == pytest.approx(0.996, abs=1e-3)
    assert bound.dependent is not None and bound.dependent > 3
    assert bound.least == bound.independent


@pytest.mark.parametrize("accountant", ["paper", "certified"])
def test_it_helps_where_teachers_agree_on_one_value(accountant: str) -> None:
    """4,000 teachers of one mind on one pixel, as in PATE's own setting."""
    found = peaks(np.array([[4000]]), sigma=400.0, passing=2000)
    rho = 4 / (2 * 400.0**2)
    run = Composition(rho=rho, delta=1e-5, accountant=accountant)  # type: ignore[arg-type]
    bound = run.add(np.repeat(found.log_q, 500))
    assert bound.dependent is not None
    assert bound.dependent < 0.8 * bound.independent
    assert bound.least <= bound.dependent * (1 + 1e-9)
    mixed = run.add_unknown(3)
    assert mixed.dependent is None and bound.least < mixed.least < mixed.independent


def test_nothing_takes_it_for_a_cost(tmp_path) -> None:  # type: ignore[no-untyped-def]
    bound = DataDependentBound(independent=1.0, dependent=0.5, least=0.5)
    with pytest.raises(TypeError):
        float(bound)  # type: ignore[arg-type]
    with pytest.raises(DataLensError, match="Unknown privacy event"):
        Charge(event=bound, count=1)  # type: ignore[arg-type]
    with pytest.raises(AttributeError):
        epsilon([bound], 1e-5)  # type: ignore[list-item]
    with pytest.raises(AttributeError):
        totals([bound])  # type: ignore[list-item]
    ledger = Ledger(tmp_path / "ledger.sqlite")
    with pytest.raises(AttributeError):
        ledger.reserve("run", [bound], facts={})  # type: ignore[list-item]
    assert ledger.rows("run") == []
    with pytest.raises(DataLensError, match="Unknown privacy event"):
        ledger.spend("run", "votes/0", bound, count=1)  # type: ignore[arg-type]
    assert ledger.charges("run") == []
