"""One contract that every accountant passes: zero is free, more costs more, and it is a bound."""

import math
from collections.abc import Sequence
from functools import cache
from typing import Any

import numpy as np
import pytest
from scipy.optimize import brentq
from scipy.stats import norm

from datalens.errors import DataLensError
from datalens.mechanism.events import GaussianRelease, SampledGaussianRelease
from datalens.privacy.accountants import (
    ACCOUNTANTS,
    AccountantName,
    Charge,
    NotApplicable,
    epsilon,
    is_bound,
)

DELTA = 1e-5
RELATIONS: tuple[Any, ...] = ("blanked", "replaced")


def release(count: int = 1, sigma: float = 20.0, what: str = "class-sums") -> Charge:
    squared = {"squared_sensitivity": 9, "squared_sensitivity_replace": 36}
    return Charge(event=GaussianRelease(what=what, sigma=sigma, **squared), count=count)


def step(count: int = 1, noise: float = 1.0, probability: float = 0.02) -> Charge:
    event = SampledGaussianRelease(
        what="dp-sgd", sampling_probability=probability, noise_multiplier=noise
    )
    return Charge(event=event, count=count)


def exact_delta(eps: float, sigma: float, apart: float, q: float) -> float:
    """One sampled step, by integrating over both ways a record can come and go.

    Blanked (apart 1): noise about 0, and about 0 or 1. Replaced (apart 2): about 0 or -1, and
    about 0 or 1.
    """
    x = np.linspace(-14 * sigma - 1, 14 * sigma + 1, 20_001)
    there = (1 - q) * norm.pdf(x, 0, sigma) + q * norm.pdf(x, 1, sigma)
    away = norm.pdf(x, 0, sigma)
    if apart == 2:
        away = (1 - q) * away + q * norm.pdf(x, -1, sigma)
    width = x[1] - x[0]
    ways = [np.maximum(p - math.exp(eps) * r, 0).sum() for p, r in ((there, away), (away, there))]
    return float(max(ways) * width)


@cache
def exact_epsilon(sigma: float, apart: float, q: float = 1.0) -> float:
    return float(brentq(lambda e: exact_delta(e, sigma, apart, q) - DELTA, 0, 200, xtol=1e-9))


@pytest.mark.parametrize("accountant", ACCOUNTANTS)
class TestEveryAccountant:
    def charged(self, accountant: AccountantName) -> list[Any]:
        """The kinds of charges this accountant interprets."""
        return [release] if accountant == "gaussian" else [release, step]

    def test_nothing_costs_nothing(self, accountant: AccountantName) -> None:
        for nothing in ([], [release(0)], [step(0)], [step(0), release(0)]):
            assert epsilon(nothing, DELTA, accountant) == 0.0

    @pytest.mark.parametrize("relation", RELATIONS)
    def test_more_costs_more(self, accountant: AccountantName, relation: Any) -> None:
        for kind in self.charged(accountant):
            costs = [epsilon([kind(n)], DELTA, accountant, relation) for n in (1, 50, 51)]
            assert costs == sorted(costs) and costs[0] < costs[-1] and costs[0] > 0

    def test_more_noise_costs_less(self, accountant: AccountantName) -> None:
        releases = [epsilon([release(9, s)], DELTA, accountant) for s in (10.0, 10.1, 40.0)]
        assert releases[0] > releases[1] > releases[2] > 0
        if accountant != "gaussian":
            steps = [epsilon([step(9, z)], DELTA, accountant) for z in (0.7, 0.71, 3.0)]
            assert steps[0] > steps[1] > steps[2] > 0
            fewer = [epsilon([step(9, 1.0, q)], DELTA, accountant) for q in (1.0, 0.1, 0.09)]
            assert fewer[0] > fewer[1] > fewer[2] > 0

    def test_a_smaller_delta_costs_more(self, accountant: AccountantName) -> None:
        for kind in self.charged(accountant):
            costs = [epsilon([kind(20)], delta, accountant) for delta in (1e-9, 1e-6, 1e-3)]
            assert costs[0] > costs[1] > costs[2]

    def test_replacing_costs_at_least_as_much(self, accountant: AccountantName) -> None:
        for kind in self.charged(accountant):
            blanked, replaced = (epsilon([kind(20)], DELTA, accountant, r) for r in RELATIONS)
            assert replaced > blanked

    def test_it_is_never_below_the_exact_cost_of_continuous_noise(
        self, accountant: AccountantName
    ) -> None:
        for apart, relation in ((1, "blanked"), (2, "replaced")):
            found = epsilon([release(4, 6.0)], DELTA, accountant, relation)  # type: ignore[arg-type]
            truth = exact_epsilon(1.0 / apart, 1)
            assert found >= truth * (1 - 1e-6)
            assert accountant not in ("gaussian", "pld") or found == pytest.approx(truth, rel=1e-4)

    @pytest.mark.parametrize("noise, q", [(1.0, 0.1), (0.7, 0.01), (3.0, 0.5), (1.0, 1.0)])
    def test_it_is_never_below_the_exact_cost_of_a_sampled_step(
        self, accountant: AccountantName, noise: float, q: float
    ) -> None:
        if accountant == "gaussian":
            with pytest.raises(NotApplicable, match="certified or pld"):
                epsilon([step(1, noise, q)], DELTA, accountant)
            return
        for apart, relation in ((1, "blanked"), (2, "replaced")):
            found = epsilon([step(1, noise, q)], DELTA, accountant, relation)  # type: ignore[arg-type]
            truth = exact_epsilon(noise, apart, q)
            assert found >= truth * (1 - 1e-6)
            assert accountant != "pld" or found == pytest.approx(truth, rel=5e-3)

    def test_what_it_does_not_know_is_refused(self, accountant: AccountantName) -> None:
        with pytest.raises(DataLensError, match="Unknown privacy event"):
            epsilon([Charge(event="laplace", count=1)], DELTA, accountant)  # type: ignore[arg-type]
        with pytest.raises(DataLensError, match="Unknown relation"):
            epsilon([release()], DELTA, accountant, "added")  # type: ignore[arg-type]

    @pytest.mark.parametrize("delta", [0.0, 1.0, -1e-5, math.nan, math.inf])
    def test_impossible_deltas_are_refused(self, accountant: AccountantName, delta: float) -> None:
        for charges in ([], [release()], [step()]):
            with pytest.raises(DataLensError, match="delta"):
                epsilon(charges, delta, accountant)

    def test_order_and_splitting_do_not_matter(self, accountant: AccountantName) -> None:
        parts: Sequence[Charge] = [release(3, 20.0), release(40, 60.0), release(5, 33.0)]
        if accountant != "gaussian":
            parts = [*parts, step(50, 1.1), step(70, 2.0, 0.05)]
        split = [Charge(event=c.event, count=1) for c in parts for _ in range(c.count)]
        one = epsilon(parts, DELTA, accountant)
        assert epsilon(parts[::-1], DELTA, accountant) == pytest.approx(one, rel=1e-9)
        if accountant == "pld":  # each of many distributions is rounded up: a few, then
            split = [Charge(event=c.event, count=n) for c in parts for n in (1, c.count - 1)]
        assert epsilon(split, DELTA, accountant) == pytest.approx(one, rel=1e-6)

    def test_a_part_costs_no_more_than_the_whole(self, accountant: AccountantName) -> None:
        whole = [release(3, 20.0), release(40, 60.0)]
        if accountant != "gaussian":
            whole = [*whole, step(50, 1.1)]
        cost = epsilon(whole, DELTA, accountant)
        for left_out in range(len(whole)):
            part = whole[:left_out] + whole[left_out + 1 :]
            assert epsilon(part, DELTA, accountant) < cost


def test_the_exact_cost_catches_an_accountant_that_forgets_the_relation() -> None:
    """The control: the cost of blanking is below the exact cost of replacing."""
    assert epsilon([release(4, 6.0)], DELTA) < exact_epsilon(0.5, 1)
    assert epsilon([step(1, 1.0, 0.1)], DELTA, "pld") < exact_epsilon(1.0, 2, 0.1)


def test_who_may_size_a_private_run() -> None:
    bounds = {
        name: [is_bound(c, name) for c in ([release()], [step()], [release(), step()])]
        for name in ACCOUNTANTS
    }
    assert bounds == {
        "certified": [True, True, True],
        "paper": [True, True, True],
        "moments": [True, True, True],
        "gaussian": [False, False, False],
        "pld": [False, True, False],
    }


@pytest.mark.parametrize("count", [-1, True, 1.0, None, 2**53, math.nan])
def test_a_charge_counts_releases(count: Any) -> None:
    with pytest.raises(DataLensError, match="counts"):
        Charge(event=release().event, count=count)


def test_unknown_accountants_are_refused() -> None:
    for charges in ([release()], [step()]):
        with pytest.raises(DataLensError, match="Unknown accountant"):
            epsilon(charges, DELTA, "hopeful")  # type: ignore[arg-type]
