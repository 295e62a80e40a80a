"""Epsilon against closed forms, OpenDP, dp-accounting, and the design's example."""

import math

import dp_accounting
import numpy as np
import pytest
from dp_accounting import rdp
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import minimize_scalar

from datalens.errors import DataLensError
from datalens.mechanism.events import GaussianRelease
from datalens.privacy.accountants import Charge, epsilon, epsilon_of_rho, total_rho
from datalens.privacy.calibration import affordable, budget_rho, sigma_for

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


def test_nonsense_is_refused() -> None:
    for bad in (0.0, -1.0, float("nan"), float("inf")):
        with pytest.raises(DataLensError):
            budget_rho(bad, DELTA)
    for bad in (0.0, 1.0, float("nan")):
        with pytest.raises(DataLensError):
            epsilon_of_rho(1.0, bad)
    with pytest.raises(DataLensError, match="gaussian is no bound"):
        budget_rho(1.0, DELTA, "gaussian")  # type: ignore[arg-type]
    with pytest.raises(DataLensError, match="Unknown privacy event"):
        Charge.from_json({"event": "laplace", "count": 1})
    with pytest.raises(DataLensError):
        Charge(event=votes().event, count=-1)
