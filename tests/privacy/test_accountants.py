"""Epsilon against closed forms, OpenDP, dp-accounting, and the design's example."""

import math

import dp_accounting
import numpy as np
import pytest
from dp_accounting import rdp
from scipy.optimize import minimize_scalar
from scipy.stats import norm

from datalens.errors import DataLensError
from datalens.mechanism.events import GaussianRelease, SampledGaussianRelease
from datalens.mechanism.moments import ClassCounts, ClassSums, SecondMoments
from datalens.privacy.accountants import (
    SAMPLED_ORDERS,
    Charge,
    NotApplicable,
    epsilon,
    epsilon_of_rho,
    renyi,
    rho_of,
    total_rho,
)
from datalens.privacy.calibration import affordable, budget_rho

DELTA = 1e-5


def votes(top_k: int = 200, sigma: float = 5000.0, count: int = 1290) -> Charge:
    squared = 4 * top_k
    event = GaussianRelease(
        what="votes",
        squared_sensitivity=squared,
        squared_sensitivity_replace=squared,
        sigma=sigma,
    )
    return Charge(event=event, count=count)


def step(noise: float = 1.0, probability: float = 0.01, count: int = 1000) -> Charge:
    event = SampledGaussianRelease(
        what="dp-sgd", sampling_probability=probability, noise_multiplier=noise
    )
    return Charge(event=event, count=count)


def whole_run() -> list[Charge]:
    """A warm start, a histogram, and two phases of votes with different k and sigma."""
    nowhere = np.zeros((1, 1), dtype=np.int64)
    return [
        Charge(event=ClassSums(bound=2000, sigma=30_000.0, n_classes=10).event, count=1),
        Charge(event=SecondMoments(bound=1500, sigma=1.2e9, centres=nowhere).event, count=1),
        Charge(event=ClassCounts(sigma=40.0, n_classes=10).event, count=1),
        votes(top_k=200, sigma=5000.0, count=600),
        votes(top_k=50, sigma=1500.0, count=150),
    ]


BLANKED = (
    2000**2 / (2 * 30_000.0**2)
    + 29**2 * 1500**4 / (2 * 1.2e9**2)
    + 1 / (2 * 40.0**2)
    + 600 * 800 / (2 * 5000.0**2)
    + 150 * 200 / (2 * 1500.0**2)
)
"""What the whole run costs, added up by hand."""
REPLACED = (
    BLANKED + 2000**2 / (2 * 30_000.0**2) + 29**2 * 1500**4 / (2 * 1.2e9**2) + 1 / (2 * 40.0**2)
)


@pytest.mark.parametrize(
    "accountant, known", [("paper", 0.996), ("certified", 0.808), ("gaussian", 0.738)]
)
def test_the_papers_run(accountant: str, known: float) -> None:
    """k = 200, sigma = 5000, 1290 releases: the worked example of the design."""
    assert round(epsilon([votes()], DELTA, accountant), 3) == known  # type: ignore[arg-type]


@pytest.mark.parametrize("accountant, count", [("paper", 1301), ("certified", 1909)])
def test_what_epsilon_1_buys(accountant: str, count: int) -> None:
    each = total_rho([votes(count=1)])
    assert affordable(budget_rho(1.0, DELTA, accountant), each) == count  # type: ignore[arg-type]


@pytest.mark.parametrize("rho", [1e-4, 0.02064, 0.5, 1.78, 20.0])
def test_paper_is_theorem_3_at_its_best_order(rho: float) -> None:
    best = minimize_scalar(
        lambda log: rho * (1 + math.exp(log)) + math.log(1 / DELTA) / math.exp(log),
        bounds=(-5, 12),
        method="bounded",
        options={"xatol": 1e-9},
    )
    assert epsilon_of_rho(rho, DELTA, "paper") == pytest.approx(best.fun, rel=1e-6)


@pytest.mark.parametrize("rho", [1e-4, 0.02064, 0.5, 1.78, 20.0])
def test_certified_equals_opendp(rho: float) -> None:
    import opendp.prelude as dp

    dp.enable_features("contrib")
    space = dp.vector_domain(dp.atom_domain(T="i64")), dp.l2_distance(T="f64")
    measurement = dp.c.make_zCDP_to_approxDP(dp.m.make_gaussian(*space, scale=1.0))
    theirs = measurement.map(math.sqrt(2 * rho)).epsilon(DELTA)
    assert epsilon_of_rho(rho, DELTA) == pytest.approx(theirs, rel=1e-4)
    assert epsilon_of_rho(rho, DELTA) >= theirs * (1 - 1e-9)  # a grid of orders is never below


def test_certified_equals_dp_accounting_on_the_gaussian_event() -> None:
    account = rdp.RdpAccountant(orders=1 + np.logspace(-3, 6, 9000))
    noise_multiplier = 5000 / math.sqrt(800)
    account.compose(dp_accounting.GaussianDpEvent(noise_multiplier), 1290)
    assert epsilon([votes()], DELTA) == pytest.approx(account.get_epsilon(DELTA), rel=1e-4)


def test_gaussian_is_below_certified_is_below_paper() -> None:
    for rho in (0.001, 0.1, 2.0):
        gaussian, certified, paper = (
            epsilon_of_rho(rho, DELTA, name)  # type: ignore[arg-type]
            for name in ("gaussian", "certified", "paper")
        )
        assert gaussian < certified < paper


def test_gaussian_is_no_bound_for_discrete_noise() -> None:
    """At sigma 1 the discrete Gaussian's true delta exceeds the continuous one's."""
    support = np.arange(-60, 61)
    mass = np.exp(-(support**2) / 2.0)
    mass /= mass.sum()
    moved = np.roll(mass, 1)
    eps = epsilon_of_rho(0.5, 1e-3, "gaussian")
    assert np.maximum(mass - math.exp(eps) * moved, 0).sum() > 1e-3
    certified = epsilon_of_rho(0.5, 1e-3)
    assert np.maximum(mass - math.exp(certified) * moved, 0).sum() <= 1e-3


def test_replacing_costs_more_where_sums_are_released() -> None:
    sums = GaussianRelease(
        what="class-sums", squared_sensitivity=9, squared_sensitivity_replace=36, sigma=10
    )
    charges = [Charge(event=sums, count=1), votes()]
    assert epsilon(charges, DELTA, relation="replaced") > epsilon(charges, DELTA)
    assert epsilon([votes()], DELTA, relation="replaced") == epsilon([votes()], DELTA)


def test_nonsense_is_refused() -> None:
    for bad in (0.0, 1.0, float("nan")):
        with pytest.raises(DataLensError):
            epsilon_of_rho(1.0, bad)
    for bad in (-1.0, float("nan"), float("inf")):
        with pytest.raises(DataLensError, match="rho"):
            epsilon_of_rho(bad, DELTA)
    for bad in (1.0, 0.5, float("nan"), float("inf")):
        with pytest.raises(DataLensError, match="order"):
            renyi([votes()], bad)
    with pytest.raises(NotApplicable):
        rho_of(step().event)
    with pytest.raises(DataLensError, match="Unknown privacy event"):
        Charge.from_json({"event": "cauchy", "count": 1})
    with pytest.raises(DataLensError):
        Charge(event=votes().event, count=-1)


@pytest.mark.parametrize("relation, rho", [("blanked", BLANKED), ("replaced", REPLACED)])
def test_a_whole_run_by_closed_forms(relation: str, rho: float) -> None:
    """Every order by minimisation, the simple conversion, the normal distribution function."""
    charges = whole_run()
    assert total_rho(charges, relation) == pytest.approx(rho, rel=1e-12)  # type: ignore[arg-type]

    def proposition_12(log: float) -> float:
        less, order = math.exp(log), 1 + math.exp(log)
        return rho * order + math.log(less / order) - math.log(order * DELTA) / less

    best = minimize_scalar(proposition_12, bounds=(-3, 12), method="bounded")
    assert epsilon(charges, DELTA, "certified", relation) == pytest.approx(best.fun, rel=1e-4)  # type: ignore[arg-type]
    simple = rho + 2 * math.sqrt(rho * math.log(1 / DELTA))
    assert epsilon(charges, DELTA, "paper", relation) == pytest.approx(simple, rel=1e-12)  # type: ignore[arg-type]
    mu = math.sqrt(2 * rho)
    eps = epsilon(charges, DELTA, "gaussian", relation)  # type: ignore[arg-type]
    delta = norm.cdf(mu / 2 - eps / mu) - math.exp(eps) * norm.cdf(-mu / 2 - eps / mu)
    assert delta == pytest.approx(DELTA, rel=1e-6)


def test_a_whole_run_by_dp_accounting_event_by_event() -> None:
    account = rdp.RdpAccountant(orders=1 + np.logspace(-3, 6, 9000))
    for charge in whole_run():
        each = charge.event
        assert isinstance(each, GaussianRelease)
        noise = each.sigma / math.sqrt(each.squared_sensitivity)
        account.compose(dp_accounting.GaussianDpEvent(noise), charge.count)
    assert epsilon(whole_run(), DELTA) == pytest.approx(account.get_epsilon(DELTA), rel=1e-4)


def test_a_whole_run_by_opendp() -> None:
    import opendp.prelude as dp

    dp.enable_features("contrib")
    space = dp.vector_domain(dp.atom_domain(T="i64")), dp.l2_distance(T="f64")
    rhos = [
        charge.count * dp.m.make_gaussian(*space, scale=charge.event.sigma).map(s)
        for charge in whole_run()
        if isinstance(charge.event, GaussianRelease)
        for s in [math.sqrt(charge.event.squared_sensitivity)]
    ]
    assert sum(rhos) == pytest.approx(total_rho(whole_run()), rel=1e-9)


def test_a_run_with_sampled_steps_by_dp_accounting() -> None:
    """A histogram, and two phases of DP-SGD: composed by dp-accounting on its own orders."""
    charges = [whole_run()[2], step(1.0, 0.01, 1000), step(1.5, 0.02, 300)]
    event = dp_accounting.ComposedDpEvent(
        [
            dp_accounting.GaussianDpEvent(40.0),
            _theirs(1.0, 0.01, 1000),
            _theirs(1.5, 0.02, 300),
        ]
    )
    theirs = rdp.RdpAccountant().compose(event).get_epsilon(DELTA)
    assert epsilon(charges, DELTA) == pytest.approx(theirs, rel=5e-3)
    exact = dp_accounting.pld.PLDAccountant().compose(event).get_epsilon(DELTA)
    assert exact * (1 - 1e-6) <= epsilon(charges, DELTA, "pld") < exact * 1.002
    assert (
        epsilon(charges, DELTA, "pld") < epsilon(charges, DELTA) < epsilon(charges, DELTA, "paper")
    )


def _theirs(noise: float, probability: float, count: int) -> dp_accounting.DpEvent:
    one = dp_accounting.PoissonSampledDpEvent(probability, dp_accounting.GaussianDpEvent(noise))
    return dp_accounting.SelfComposedDpEvent(one, count)


def test_the_orders_for_sampled_steps_are_fine_enough() -> None:
    """Gaussian releases beside one negligible sampled step cost what they cost alone."""
    for rho in (1e-3, 0.02, 0.5, 5.0):
        release = GaussianRelease(
            what="v", squared_sensitivity=2 * rho, squared_sensitivity_replace=1, sigma=1.0
        )
        charges = [Charge(event=release, count=1), step(1e6, 1e-6, 1)]
        alone = epsilon(charges[:1], DELTA)
        assert alone * (1 - 1e-4) <= epsilon(charges, DELTA) < alone * 1.02


def test_renyi_is_what_epsilon_minimises_over() -> None:
    charges = [*whole_run(), step()]
    for relation in ("blanked", "replaced"):
        simple = min(
            renyi(charges, order, relation) + math.log(1 / DELTA) / (order - 1)  # type: ignore[arg-type]
            for order in SAMPLED_ORDERS.tolist()
        )
        assert epsilon(charges, DELTA, "paper", relation) == pytest.approx(simple, rel=1e-12)  # type: ignore[arg-type]
    assert renyi(whole_run(), 7.5) == pytest.approx(7.5 * BLANKED)
    assert renyi(whole_run(), 7.5, "replaced") == pytest.approx(7.5 * REPLACED)
    assert renyi([], 2.0) == 0.0
