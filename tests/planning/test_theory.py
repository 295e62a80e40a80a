"""Theorem 6 against descents in which everything that it speaks of is known."""

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from datalens.errors import DataLensError
from datalens.planning.theory import (
    Bound,
    Descent,
    best_k,
    bound,
    measured_taus,
    noise_constant,
    progress,
    sign_variance,
    weibull_taus,
)

Array = np.ndarray
RUNS = 60
"""Descents side by side, for expectations."""


@dataclass(frozen=True)
class Problem:
    """Teachers' losses: values and gradients at many points at once, (runs, d)."""

    value: Callable[[Array], Array]
    """(runs,)."""
    gradients: Callable[[Array], Array]
    """(runs, teachers, d)."""
    smoothness: float
    least: float


def quadratic(rng: np.random.Generator, d: int, teachers: int) -> Problem:
    """Teacher n's loss is half (x - b_n) H (x - b_n): all have one curvature."""
    curvature = rng.uniform(0.1, 2.0, d)
    centres = rng.normal(0, rng.uniform(0, 0.3), (teachers, d))
    least = 0.5 * (curvature * (centres - centres.mean(0)) ** 2).sum(1).mean()

    def value(x: Array) -> Array:
        return 0.5 * (curvature * (x[:, None] - centres) ** 2).sum(2).mean(1)

    return Problem(value, lambda x: curvature * (x[:, None] - centres), curvature.max(), least)


def logistic(rng: np.random.Generator, d: int, teachers: int) -> Problem:
    """Every teacher has ten records, features and a label of -1 or +1."""
    x = rng.normal(0, 1, (teachers, 10, d))
    y = np.where(x @ rng.normal(0, 1, d) + rng.normal(0, 1, (teachers, 10)) > 0, 1.0, -1.0)
    signed = x * y[..., None]
    flat = signed.reshape(-1, d)

    def value(w: Array) -> Array:
        return np.logaddexp(0, -w @ flat.T).mean(1)

    def gradients(w: Array) -> Array:
        margin = np.einsum("tnd,rd->rtn", signed, w)
        return -np.einsum("rtn,tnd->rtd", 1 / (1 + np.exp(margin)), signed) / 10

    # No loss is below 0, so the gap is at most the loss at the start.
    return Problem(value, gradients, np.linalg.eigvalsh(flat.T @ flat)[-1] / len(flat) / 4, 0.0)


def compress(g: Array, k: int, clip: float) -> Array:
    kept = np.zeros_like(g)
    places = np.argsort(-np.abs(g), axis=-1)[..., :k]
    np.put_along_axis(kept, places, np.take_along_axis(g, places, -1), -1)
    return np.clip(kept, -clip, clip)


@dataclass(frozen=True)
class Seen:
    """A descent, and what it turned out to be, averaged over runs and steps."""

    progress: float
    descent: Descent
    tau: float

    def bound(self, k: int, quantisation: float = 0.0) -> Bound:
        return bound(self.descent, top_k=k, tau=self.tau, quantisation=quantisation)


def descend(
    problem: Problem,
    rng: np.random.Generator,
    start: Array,
    *,
    k: int,
    clip: float,
    noise: float,
    step_size: float,
    steps: int,
    signs: bool = False,
) -> Seen:
    x = np.tile(start, (RUNS, 1))
    gap = problem.value(x)[0] - problem.least
    gained, squares, left, apart = [], [], [], []
    for _ in range(steps):
        g = problem.gradients(x)
        mean = g.mean(1)
        gained.append(np.mean([progress(each, clip) for each in mean]))
        squares.append((g**2).sum(2).mean())
        left.append((np.sort(g**2, axis=2)[..., : g.shape[2] - k]).sum(2).mean())
        apart.append(((g - mean[:, None]) ** 2).mean((0, 1)))
        ballots = compress(g, k, clip)
        if signs:
            dice = rng.uniform(size=ballots.shape)
            ballots = np.where(ballots == 0, 0, np.where(dice < (1 + ballots) / 2, 1.0, -1.0))
        x = x - step_size * (ballots.mean(1) + rng.normal(0, (noise * k) ** 0.5, x.shape))
    descent = Descent(
        smoothness=problem.smoothness,
        gradient=np.mean(squares) ** 0.5,
        clip=clip,
        n_values=len(start),
        noise=noise,
        disagreement=tuple(np.sqrt(np.mean(apart, axis=0))),
        step_size=step_size,
        steps=steps,
        gap=gap,
    )
    return Seen(float(np.mean(gained)), descent, (np.sum(left) / np.sum(squares)) ** 0.5)


@settings(max_examples=100, deadline=None, derandomize=True)
@given(
    seed=st.integers(0, 2**32 - 1),
    make=st.sampled_from([quadratic, logistic]),
    d=st.integers(1, 8),
    teachers=st.integers(1, 6),
    clip=st.floats(0.05, 1.0),
    noise=st.floats(0.0, 0.5),
    step=st.floats(0.05, 1.0),
    share=st.floats(0.0, 1.0),
    signs=st.booleans(),
)
def test_the_bound_holds_where_everything_in_it_is_known(
    seed: int,
    make: Callable[..., Problem],
    d: int,
    teachers: int,
    clip: float,
    noise: float,
    step: float,
    share: float,
    signs: bool,
) -> None:
    rng = np.random.default_rng(seed)
    k = 1 + int(share * (d - 1))
    problem = make(rng, d, teachers)
    seen = descend(
        problem,
        rng,
        rng.normal(0, 1, d),
        k=k,
        clip=clip,
        noise=noise,
        step_size=step / problem.smoothness,
        steps=30,
        signs=signs,
    )
    found = seen.bound(k, sign_variance(k, teachers if signs else None))
    # Averages over 60 runs stand for expectations: a few per cent of what chance moves.
    chance = 0.1 * (found.noise + found.quantisation)
    assert seen.progress <= found.total + chance + 1e-9


def at_rest(*, k: int, clip: float = 1e6, step: float = 1.0, noise: float = 0.1) -> Seen:
    """One teacher on half |x|^2 in 40 dimensions, long enough to forget the start."""
    rng = np.random.default_rng(7)
    bowl = Problem(lambda x: 0.5 * (x**2).sum(1), lambda x: x[:, None], 1.0, 0.0)
    return descend(bowl, rng, np.zeros(40), k=k, clip=clip, noise=noise, step_size=step, steps=200)


def test_the_bound_is_tight_in_the_noise() -> None:
    """Without clipping and top-k a quadratic settles exactly where the bound says."""
    seen = at_rest(k=40)
    assert seen.progress == pytest.approx(seen.bound(40).total, rel=0.02)


def test_without_the_factor_d_that_the_print_drops_it_fails() -> None:
    seen = at_rest(k=40)
    kept = seen.bound(40)
    assert seen.progress > replace(kept, noise=kept.noise / 40).total


def test_with_c_squared_for_a_clipped_vector_as_printed_it_fails() -> None:
    """A step twice as long as the curvature bears leaps from side to side for ever."""
    leaping = Problem(lambda x: 0.5 * (x**2).sum(1), lambda x: x[:, None], 1.0, 0.0)
    rng = np.random.default_rng(0)
    start, clip = np.full(40, 0.5), 0.5
    seen = descend(leaping, rng, start, k=40, clip=clip, noise=0.0, step_size=2.0, steps=200)
    found = seen.bound(40)
    assert seen.progress <= found.total + 1e-9
    printed = replace(found, movement=seen.descent.step_size / 2 * clip**2)
    assert seen.progress > printed.total


def test_a_violated_assumption_breaks_it() -> None:
    """A loss that is ten times as curved as is claimed; with the truth told the bound holds."""
    bowl = Problem(lambda x: 5 * (x**2).sum(1), lambda x: 10 * x[:, None], 1.0, 0.0)
    for claimed, holds in [(1.0, False), (10.0, True)]:
        rng = np.random.default_rng(0)
        told = replace(bowl, smoothness=claimed)
        seen = descend(told, rng, np.zeros(4), k=4, clip=1.0, noise=0.1, step_size=0.3, steps=200)
        assert bool(seen.progress <= seen.bound(4).total) is holds


def test_disagreement_that_is_denied_breaks_it() -> None:
    """One teacher shouts one way, two whisper the other: clipped, they outvote it for ever."""
    pulls = np.array([[-10.0], [4.0], [4.0]])
    slope = Problem(
        lambda x: x @ pulls.mean(0), lambda x: np.tile(pulls, (len(x), 1, 1)), 1e-9, -1.0
    )
    rng = np.random.default_rng(0)
    seen = descend(slope, rng, np.zeros(1), k=1, clip=1.0, noise=0.0, step_size=0.01, steps=1000)
    assert seen.progress <= seen.bound(1).total
    denied = replace(seen.descent, disagreement=(0.0,))
    assert seen.progress > bound(denied, top_k=1, tau=seen.tau).total


@given(
    st.lists(st.floats(-10, 10), min_size=1, max_size=20),
    st.floats(0.01, 10),
)
def test_progress_is_above_what_the_paper_measures(values: list[float], clip: float) -> None:
    """So that a bound on it is one on min(c, 1) / d * min(|g|^2, |g|_1), too."""
    g = np.array(values)
    printed = min(clip, 1) / len(g) * min((g**2).sum(), np.abs(g).sum())
    assert progress(g, clip) >= printed * (1 - 1e-9)


def test_every_term_does_what_its_name_says() -> None:
    base = Descent(
        smoothness=2.0,
        gradient=3.0,
        clip=0.5,
        n_values=100,
        noise=0.01,
        disagreement=(0.1,) * 100,
        step_size=0.05,
        steps=400,
        gap=10.0,
    )
    found = bound(base, top_k=20, tau=0.4, quantisation=4.0)
    assert found.start == pytest.approx(10 / (400 * 0.05))
    assert found.compression == pytest.approx(3 * min(0.4 * 3, 0.5 * 80**0.5))
    assert found.disagreement == pytest.approx(3 * (100 * 0.1**2) ** 0.5)
    assert found.movement == pytest.approx(2 * 0.05 / 2 * min(20 * 0.25, 9))
    assert found.noise == pytest.approx(2 * 0.05 / 2 * 100 * 0.01 * 20)
    assert found.quantisation == pytest.approx(2 * 0.05 / 2 * 4)
    assert bound(base, top_k=100, tau=0).compression == 0
    assert bound(base, top_k=20, tau=0.4).quantisation == 0


def test_the_best_k_is_that_of_a_search_and_falls_with_the_noise() -> None:
    taus = weibull_taus(784, 0.5)
    base = Descent(
        smoothness=1.0,
        gradient=1.0,
        clip=1.0,
        n_values=784,
        noise=noise_constant(rho=0.5, releases=1000, n_teachers=4000),
        disagreement=(0.0,) * 784,
        step_size=0.01,
        steps=1000,
        gap=1.0,
    )
    k = best_k(base, taus)
    totals = {j: bound(base, top_k=j, tau=taus[j - 1]).total for j in (k - 1, k, k + 1)}
    assert min(totals, key=lambda j: totals[j]) == k
    assert 1 < best_k(replace(base, noise=10 * base.noise), taus) < k < 784
    assert best_k(replace(base, noise=0.0), taus) > k
    assert best_k(base, taus, signs_of=10) <= k


def test_the_noise_constant_is_that_of_topagg() -> None:
    """From TopAgg's own event: k, sigma and N must give the same variance of the mean ballot."""
    from datalens.mechanism.ballots import BallotRule
    from datalens.mechanism.topagg import TopAgg
    from datalens.privacy.accountants import rho_of

    topagg = TopAgg(
        ballot=BallotRule(top_k=200, clip=1.0), n_teachers=4000, sigma=5000.0, quorum=0.7
    )
    rho = 1290 * rho_of(topagg.event)
    variance = noise_constant(rho=rho, releases=1290, n_teachers=4000) * 200
    assert variance == pytest.approx((5000 / 4000) ** 2)


def test_signs_vary_as_much_as_is_said() -> None:
    rng = np.random.default_rng(3)
    v = rng.uniform(-0.3, 0.3, 50)
    signs = np.where(rng.uniform(size=(20_000, 5, 50)) < (1 + v) / 2, 1.0, -1.0).mean(1)
    spread = ((signs - v) ** 2).sum(1).mean()
    assert 0.9 * sign_variance(50, 5) < spread <= sign_variance(50, 5)


@pytest.mark.parametrize("claimed, fits", [(0.5, True), (0.8, False), (0.35, False)])
def test_weibull_taus_are_those_of_weibull_gradients(claimed: float, fits: bool) -> None:
    rng = np.random.default_rng(5)
    drawn = rng.weibull(0.5, (400, 784)) * rng.choice([-1, 1], (400, 784))
    apart = np.abs(measured_taus(drawn) - weibull_taus(784, claimed)).max()
    assert bool(apart < 0.02) is fits


def test_measured_taus_are_those_of_the_definition() -> None:
    rng = np.random.default_rng(6)
    g = rng.normal(size=(7, 3, 12))
    for k in (1, 5, 12):
        left = g - compress(g, k, np.inf)
        assert measured_taus(g)[k - 1] == pytest.approx(
            (np.square(left).sum() / np.square(g).sum()) ** 0.5, abs=1e-7
        )
    flat = measured_taus(np.ones(9))
    assert flat == pytest.approx(np.sqrt(1 - np.arange(1, 10) / 9))


@pytest.mark.parametrize(
    "change, words",
    [
        ({"clip": 0.0}, "clip"),
        ({"noise": float("nan")}, "noise"),
        ({"disagreement": (0.1,)}, "disagreement"),
        ({"gap": -1.0}, "gap"),
    ],
)
def test_what_cannot_be_is_refused(change: dict[str, object], words: str) -> None:
    fine = at_rest(k=1).descent
    with pytest.raises(DataLensError, match=words):
        replace(fine, **change)


def test_signs_beyond_one_are_refused() -> None:
    with pytest.raises(DataLensError, match="clip"):
        bound(at_rest(k=1).descent, top_k=1, tau=1.0, quantisation=1.0)
    with pytest.raises(DataLensError, match="top-k"):
        bound(at_rest(k=1).descent, top_k=41, tau=1.0)
