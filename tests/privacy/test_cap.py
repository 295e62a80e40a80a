"""A cap holds over all runs, whoever asks first and whatever they learn on the way."""

import multiprocessing
import shutil
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from datalens.data import PublicFacts
from datalens.errors import DataLensError
from datalens.mechanism.events import GaussianRelease
from datalens.privacy.accountants import Charge, epsilon
from datalens.privacy.calibration import budget_rho, sigma_for
from datalens.privacy.cap import Cap
from datalens.privacy.ledger import BudgetExceeded, Ledger
from datalens.synthesizers.moments import MomentPlan

DELTA = 1e-5


def votes(sigma: float, count: int = 1) -> Charge:
    event = GaussianRelease(
        what="votes", squared_sensitivity=4, squared_sensitivity_replace=4, sigma=sigma
    )
    return Charge(event=event, count=count)


def costing(eps: float, delta: float = DELTA) -> list[Charge]:
    """A plan that costs just about epsilon."""
    return [votes(sigma_for(budget_rho(eps, delta), 4))]


@settings(max_examples=20, deadline=None)
@given(
    eps=st.floats(0.05, 20),
    delta=st.floats(1e-10, 1e-2),
    sigmas=st.lists(st.floats(2, 1e3), min_size=1, max_size=20),
)
def test_what_fits_under_a_cap_costs_no_more_than_it(
    eps: float, delta: float, sigmas: list[float]
) -> None:
    """Runs come one by one, and each is let in if it fits: the total never exceeds the cap."""
    cap, inside = Cap.of(eps, delta), []
    for sigma in sigmas:
        if cap.holds([*inside, votes(sigma)]):
            inside.append(votes(sigma))
    assert epsilon(inside, delta) <= eps * (1 + 1e-9)


@settings(max_examples=20, deadline=None)
@given(eps=st.floats(0.05, 20), delta=st.floats(1e-10, 1e-2), share=st.floats(0.05, 0.95))
def test_the_whole_cap_can_be_spent(eps: float, delta: float, share: float) -> None:
    """Fixing the order costs nothing: a run of the cap's epsilon fits, a slightly larger not."""
    cap = Cap.of(eps, delta)
    public = PublicFacts(name="x", n_records=100, shape=(1, 8, 8), class_names=("a", "b"))
    rho = budget_rho(eps, delta)
    plan = MomentPlan.within(rho, public=public, sums_share=share, rank=None).charges
    assert cap.holds(plan)
    assert not cap.holds([*plan, votes(sigma_for(rho * 1e-3, 4))])


def test_what_is_left_is_what_fits(tmp_path: Path) -> None:
    ledger = Ledger(tmp_path / "data.sqlite")
    cap = ledger.set_cap(3.0, DELTA)
    ledger.reserve("a", costing(2.0), facts={})
    left = cap.left(ledger.standing().committed)
    assert 2.0 < left < 2.1  # not 1: costs add up in rho, not in epsilon
    with pytest.raises(BudgetExceeded, match=r"cap of epsilon 3 .*1 runs under way"):
        ledger.reserve("b", costing(left * 1.01), facts={})
    assert "b" not in ledger.standing().runs
    ledger.reserve("b", costing(left * 0.999), facts={})
    assert epsilon(ledger.standing().committed, DELTA) <= 3.0


def test_what_a_run_did_not_use_returns_at_its_end(tmp_path: Path) -> None:
    ledger = Ledger(tmp_path / "data.sqlite")
    ledger.set_cap(1.0, DELTA)
    (charge,) = costing(0.9)
    ledger.reserve("a", [Charge(event=charge.event, count=1)], facts={})
    with pytest.raises(BudgetExceeded):
        ledger.reserve("b", costing(0.9), facts={})
    ledger.settle("a", {})
    ledger.reserve("b", costing(0.9), facts={})
    ledger.spend("b", "x", costing(0.9)[0].event, count=1)
    ledger.settle("b", {})
    with pytest.raises(BudgetExceeded):
        ledger.reserve("c", costing(0.9), facts={})


def test_a_cap_that_comes_too_late_is_refused(tmp_path: Path) -> None:
    ledger = Ledger(tmp_path / "data.sqlite")
    ledger.reserve("a", costing(5.0), facts={})
    with pytest.raises(DataLensError, match=r"too late .* 5 is spent or set aside"):
        ledger.set_cap(1.0, DELTA)
    assert ledger.standing().cap is None
    ledger.set_cap(5.1, DELTA)


def test_the_last_cap_holds_and_all_are_recorded(tmp_path: Path) -> None:
    ledger = Ledger(tmp_path / "data.sqlite")
    for eps in (0.5, 2.0, 1.0):  # neither the smallest nor the largest
        ledger.set_cap(eps, 1e-6)
    cap = ledger.standing().cap
    assert cap is not None and (cap.epsilon, cap.delta) == (1.0, 1e-6)
    assert [row.kind for row in ledger.rows()] == ["cap"] * 3
    with pytest.raises(BudgetExceeded, match="cap of epsilon 1 "):
        ledger.reserve("a", costing(1.5, 1e-6), facts={})
    ledger.reserve("a", costing(0.9, 1e-6), facts={})


def test_a_copy_of_a_ledger_has_its_cap_and_what_was_spent_under_it(tmp_path: Path) -> None:
    ledger = Ledger(tmp_path / "data.sqlite")
    ledger.set_cap(1.0, DELTA)
    ledger.reserve("a", costing(0.9), facts={})
    shutil.copy(ledger.path, tmp_path / "copy.sqlite")
    for each in (ledger, Ledger(tmp_path / "copy.sqlite")):
        with pytest.raises(BudgetExceeded, match="cap of epsilon 1 "):
            each.reserve("b", costing(0.9), facts={})


@pytest.mark.parametrize(
    "eps, delta", [(0, 1e-5), (-1, 1e-5), (float("nan"), 1e-5), (1, 0), (1, 1)]
)
def test_nonsense_is_no_cap(tmp_path: Path, eps: float, delta: float) -> None:
    ledger = Ledger(tmp_path / "data.sqlite")
    with pytest.raises(DataLensError):
        ledger.set_cap(eps, delta)
    assert ledger.rows() == []


def _reserve_many(path: Path, who: int) -> None:
    ledger = Ledger(path)
    for number in range(8):
        run = f"{who}-{number}"
        try:
            ledger.reserve(run, costing(0.6), facts={})
        except BudgetExceeded:
            continue
        ledger.spend(run, "x", costing(0.6)[0].event, count=1)
        if number % 2:
            ledger.settle(run, {})


def test_two_processes_never_exceed_the_cap_together(tmp_path: Path) -> None:
    ledger = Ledger(tmp_path / "data.sqlite")
    ledger.set_cap(1.5, DELTA)
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["tests.privacy.test_cap"])
    workers = [context.Process(target=_reserve_many, args=(ledger.path, w)) for w in range(3)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join(60)
    assert [worker.exitcode for worker in workers] == [0, 0, 0]
    standing = ledger.standing()
    alone = next(n for n in range(1, 99) if not Cap.of(1.5, DELTA).holds(costing(0.6) * n)) - 1
    assert len(standing.spent) == len(standing.runs) == alone
    assert epsilon(standing.spent, DELTA) <= 1.5
