"""Laplace noise: its Renyi curve, its composition with Gaussian noise, its calibration."""

import math

import numpy as np
import pytest
from dp_accounting import LaplaceDpEvent, NeighboringRelation, rdp
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import logsumexp

from datalens.errors import DataLensError
from datalens.mechanism.events import GaussianRelease, LaplaceRelease
from datalens.privacy import recompute
from datalens.privacy.accountants import Charge, NotApplicable, epsilon, is_bound, renyi
from datalens.privacy.calibration import laplace_scale_for, most_releases
from datalens.privacy.laplace import laplace_renyi, pure_epsilon
from datalens.privacy.verify import _counts

DELTA = 1e-5
GRID = np.array([1.001, 1.5, 2.0, 5.0, 33.3, 1000.0])


def votes(scale: float, count: int = 1, sensitivity: float = 1, replace: float = 1) -> Charge:
    event = LaplaceRelease(
        what="real-votes", sensitivity=sensitivity, sensitivity_replace=replace, scale=scale
    )
    return Charge(event=event, count=count)


def sums(sigma: float, count: int = 1) -> Charge:
    squared = {"squared_sensitivity": 1, "squared_sensitivity_replace": 4}
    return Charge(event=GaussianRelease(what="class-sums", sigma=sigma, **squared), count=count)


def discrete_divergence(scale: float, apart: int, order: float) -> float:
    """Of discrete Laplace noise about 0 and about `apart`, by adding up all outcomes."""
    x = np.arange(-4000, 4001 + apart)
    logs = [-np.abs(x - centre) / scale for centre in (0, apart)]
    p, q = (each - logsumexp(each) for each in logs)
    return float(logsumexp(order * p + (1 - order) * q)) / (order - 1)


@pytest.mark.parametrize("scale", [0.2, 1.0, 7.0, 50.0])
@pytest.mark.parametrize("order", [1.5, 2.0, 16.0])
def test_the_curve_is_the_truth_at_sensitivity_1_and_above_it_beyond(
    scale: float, order: float
) -> None:
    bound = laplace_renyi(votes(scale).event, np.array([order]))[0]  # type: ignore[arg-type]
    assert bound == pytest.approx(discrete_divergence(scale, 1, order), rel=1e-6)
    three = laplace_renyi(votes(scale, 1, 3).event, np.array([order]))[0]  # type: ignore[arg-type]
    truth = discrete_divergence(scale, 3, order)
    assert truth <= three * (1 + 1e-9)
    assert truth > bound  # the control: paying for a move of 1 does not cover one of 3


def test_continuous_laplace_noise_costs_no_more() -> None:
    for scale in (0.3, 2.0, 40.0):
        account = rdp.RdpAccountant(GRID, NeighboringRelation.REPLACE_SPECIAL)
        account.compose(LaplaceDpEvent(scale))
        assert (account.rdp <= laplace_renyi(votes(scale).event, GRID) * (1 + 1e-9)).all()  # type: ignore[arg-type]


@settings(max_examples=300, deadline=None)
@given(e=st.floats(1e-12, 1e12), order=st.floats(1.0001, 1e9))
def test_the_curve_is_stable_everywhere(e: float, order: float) -> None:
    """Between 0 and both of its limits: e, and that of zero-concentrated privacy, a e^2 / 2."""
    found = float(laplace_renyi(votes(1 / e).event, np.array([order]))[0])  # type: ignore[arg-type]
    assert 0 < found <= min(e, order * e**2 / 2) * (1 + 1e-9)
    if e < 1e-6 and order * e < 1e-6:
        assert found == pytest.approx(order * e**2 / 2, rel=1e-5)
    if order * e > 1e6 and order > 1e6:
        assert found == pytest.approx(e, rel=1e-5)


@settings(max_examples=60, deadline=None)
@given(
    scale=st.floats(0.05, 1e5),
    count=st.integers(1, 10**6),
    sigma=st.floats(0.5, 1e4),
    gaussians=st.integers(0, 100),
    delta=st.sampled_from([1e-3, 1e-5, 1e-9]),
)
def test_the_verifier_finds_the_same_on_its_own(
    scale: float, count: int, sigma: float, gaussians: int, delta: float
) -> None:
    charges = [votes(scale, count, replace=2), *([sums(sigma, gaussians)] if gaussians else [])]
    told = [charge.to_json() for charge in charges]
    for relation in ("blanked", "replaced"):
        cost = recompute.curve(told, replaced=relation == "replaced")
        for name, convert in (("certified", recompute.certified), ("paper", recompute.paper)):
            own = convert(cost, delta)
            written = epsilon(charges, delta, name, relation)  # type: ignore[arg-type]
            assert own * (1 - 1e-4) - 1e-6 <= written <= own * 1.1 + 1e-3


def test_pure_privacy_is_never_much_exceeded_and_composition_beats_adding_up() -> None:
    assert epsilon([votes(0.5)], DELTA) <= 2 * (1 + 1e-4)
    many = [votes(100.0, 10_000)]
    assert epsilon(many, DELTA) < 10 < 10_000 * pure_epsilon(many[0].event)  # type: ignore[arg-type]
    assert epsilon(many, DELTA, "paper") > epsilon(many, DELTA)


def test_it_is_dearer_than_gaussian_noise_of_the_same_deviation() -> None:
    """By a factor of about sqrt(2) in noise, which is why Gaussian noise is the default."""
    same = epsilon([votes(100.0 / math.sqrt(2), 5000)], DELTA)
    assert same > epsilon([sums(100.0, 5000)], DELTA) * 1.3


def test_charges_of_both_kinds_add_up_at_every_order() -> None:
    both = [votes(3.0, 7), sums(4.0, 5)]
    for order in (1.1, 2.0, 50.0):
        assert renyi(both, order) == pytest.approx(renyi(both[:1], order) + renyi(both[1:], order))
    assert epsilon(both, DELTA) > max(epsilon([one], DELTA) for one in both)
    assert epsilon(both, DELTA, relation="replaced") > epsilon(both, DELTA)


@pytest.mark.parametrize("accountant", ["gaussian", "pld"])
def test_what_is_no_bound_for_it_says_so(accountant: str) -> None:
    with pytest.raises(NotApplicable, match="Laplace"):
        epsilon([votes(1.0), sums(1.0)], DELTA, accountant)  # type: ignore[arg-type]
    assert not is_bound([votes(1.0)], accountant)  # type: ignore[arg-type]
    assert epsilon([votes(1.0, 0)], DELTA, accountant) == 0  # type: ignore[arg-type]


def test_the_verifier_takes_laplace_noise_for_counts_only() -> None:
    """Other sums move further in all coordinates together than their Euclidean length."""
    charge = votes(2.0, 3).to_json()
    assert list(_counts([charge]).values()) == [3]
    for lie in ({"what": "class-sums"}, {"scale": 0.0}, {"sensitivity": 0}):
        with pytest.raises(ValueError, match="charge"):
            _counts([{**charge, **lie}])


def test_a_charge_survives_a_file() -> None:
    assert Charge.from_json(votes(2.5, 9).to_json()) == votes(2.5, 9)


@pytest.mark.parametrize("accountant", ["certified", "paper"])
@pytest.mark.parametrize("goal, count", [(0.1, 10), (1.0, 1), (10.0, 50_000), (10_000.0, 100)])
def test_the_scale_is_enough_and_hardly_more(goal: float, count: int, accountant: str) -> None:
    beside = [sums(1000.0)]
    asked = {"sensitivity": 1.0, "count": count, "accountant": accountant, "beside": beside}
    scale = laplace_scale_for(goal, DELTA, **asked)  # type: ignore[arg-type]
    assert float(f"{scale:.5g}") == scale

    def cost(scale: float) -> float:
        return epsilon([*beside, votes(scale, count)], DELTA, accountant)  # type: ignore[arg-type]

    assert cost(scale) <= goal < cost(scale * 0.9997)
    event = votes(scale).event
    most = most_releases(goal, DELTA, event, accountant=accountant, beside=beside)  # type: ignore[arg-type]
    assert most >= count and cost(scale) <= goal
    over = [*beside, Charge(event=event, count=most + 1)]
    assert epsilon(over, DELTA, accountant) > goal  # type: ignore[arg-type]


def test_what_no_noise_can_do_is_one_sentence() -> None:
    with pytest.raises(DataLensError, match="No noise"):
        laplace_scale_for(1.0, DELTA, sensitivity=1, count=5, beside=[sums(0.1)])
    assert most_releases(1.0, DELTA, votes(1.0).event, beside=[sums(0.1)]) == 0
