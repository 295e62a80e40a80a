"""Events to epsilon: five views of the same charges.

- certified: Renyi composition, which for Gaussian releases is zero-concentrated composition and
  holds for the exact discrete Gaussian (and Laplace), with the best known conversion. This is
  what sizes a private run by default.
- paper: the same with the simple conversion. For Gaussian releases, Theorem 3 of the paper.
- moments: the moments accountant of Abadi et al. 2016, which is the same at the whole orders 2 to
  33 only. For comparison: its epsilon is a bound, and above that of paper.
- gaussian: exact for continuous Gaussian noise, and no bound for discrete noise. For show.
- pld: privacy loss distributions, rounded up. Tight for continuous noise, so for sampled steps,
  and no bound for discrete noise.
"""

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Literal, get_args

import dp_accounting
import numpy as np
from dp_accounting import pld, rdp

from datalens.errors import DataLensError
from datalens.mechanism.events import (
    Event,
    GaussianRelease,
    LaplaceRelease,
    SampledGaussianRelease,
    event_from_json,
)
from datalens.privacy.laplace import laplace_renyi
from datalens.privacy.sampling import Curve, Relation, sampled_renyi, to_dp_accounting

AccountantName = Literal["certified", "paper", "moments", "gaussian", "pld"]
ACCOUNTANTS: tuple[AccountantName, ...] = get_args(AccountantName)

ORDERS = 1 + np.logspace(-3, 6, 4000)
"""Renyi orders tried. Any grid gives a bound; this one is within 1e-5 of the best order."""

SAMPLED_ORDERS: Curve = np.unique(
    np.concatenate(
        [
            np.arange(1.1, 2, 0.1),
            np.arange(2, 8, 0.25),
            np.arange(8, 64),
            np.floor(2 ** np.arange(6, 10.25, 0.25)),
        ]
    )
)
"""The same where steps are sampled. Coarser, because a whole order costs as many terms."""

MOMENTS: Curve = np.arange(2.0, 34.0)
"""Orders of the moments accountant: a moment of order 1 to 32 is the Renyi divergence of the next
order, times the moment's own."""

PLD_STEPS = 2**13
"""A privacy loss distribution is rounded up to at least so many steps below epsilon."""

RENYI = ("certified", "paper", "moments")
"""The accountants that compose Renyi divergences."""

Steps = Sequence[tuple[SampledGaussianRelease, int]]


class NotApplicable(DataLensError):
    """This accountant cannot interpret such an event. Another one can."""


@dataclass(frozen=True, kw_only=True)
class Charge:
    """An event bought `count` times."""

    event: Event
    count: int

    def __post_init__(self) -> None:
        if not isinstance(self.event, Event):
            raise DataLensError(f"Unknown privacy event {self.event!r:.50}.")
        if (
            isinstance(self.count, bool)
            or not isinstance(self.count, int)
            or not 0 <= self.count < 2**53
        ):
            raise DataLensError(f"A charge counts 0 or more releases, got {self.count!r:.50}.")

    def to_json(self) -> dict[str, Any]:
        return {**self.event.to_json(), "count": self.count}

    @classmethod
    def from_json(cls, body: dict[str, Any]) -> "Charge":
        fields = dict(body)
        count = fields.pop("count", None)
        return cls(event=event_from_json(fields), count=count)


def epsilon(
    charges: Iterable[Charge],
    delta: float,
    accountant: AccountantName = "certified",
    relation: Relation = "blanked",
) -> float:
    """Epsilon of all charges together, by one accountant, under one neighbouring relation."""
    _check_relation(relation)
    bought = [charge for charge in charges if charge.count]
    rho = total_rho((c for c in bought if isinstance(c.event, GaussianRelease)), relation)
    steps: Counter[SampledGaussianRelease] = Counter()  # a ledger has them in many blocks
    for c in bought:
        if isinstance(c.event, SampledGaussianRelease):
            steps[c.event] += c.count
    sampled = list(steps.items())
    laplace = [(c.event, c.count) for c in bought if isinstance(c.event, LaplaceRelease)]
    if not sampled and not laplace:
        return epsilon_of_rho(rho, delta, accountant)
    _check(rho, delta, accountant)
    if laplace and accountant not in RENYI:
        raise NotApplicable(
            f"The accountant {accountant} is not applicable to Laplace noise; use certified."
        )
    if accountant == "gaussian":
        raise NotApplicable(
            "The accountant gaussian is not applicable to sampled steps; use certified or pld."
        )
    if accountant == "pld":
        return _pld_epsilon(rho, sampled, delta, relation)
    orders = SAMPLED_ORDERS if sampled else ORDERS
    orders = MOMENTS if accountant == "moments" else orders
    curve = rho * orders + sum(n * laplace_renyi(e, orders, relation) for e, n in laplace)
    if sampled:
        curve += _sampled_curve(sampled, relation, orders)
    if accountant in ("paper", "moments"):
        return _simple_epsilon(orders, curve, delta)
    return float(rdp.compute_epsilon(orders, curve, delta)[0])


def epsilon_of_rho(rho: float, delta: float, accountant: AccountantName = "certified") -> float:
    """Epsilon at `delta` of a total zero-concentrated cost `rho`."""
    _check(rho, delta, accountant)
    if rho == 0:
        return 0.0
    if accountant == "paper":
        # Theorem 3 at its best order, lambda = 1 + sqrt(log(1/delta) / rho).
        return rho + 2 * math.sqrt(rho * math.log(1 / delta))
    if accountant == "moments":
        return _simple_epsilon(MOMENTS, rho * MOMENTS, delta)
    if accountant == "gaussian":
        return float(dp_accounting.get_epsilon_gaussian(1 / math.sqrt(2 * rho), delta))
    if accountant == "pld":
        return _pld_epsilon(rho, [], delta, "blanked")
    return float(rdp.compute_epsilon(ORDERS, rho * ORDERS, delta)[0])


def is_bound(charges: Iterable[Charge], accountant: AccountantName) -> bool:
    """Whether this accountant's epsilon may be relied on, whatever kind of noise is used.

    Gaussian and Laplace releases carry discrete noise, for which only Renyi composition is proven.
    """
    if accountant in RENYI:
        return True
    sampled_only = all(isinstance(c.event, SampledGaussianRelease) for c in charges if c.count)
    return accountant == "pld" and sampled_only


def renyi(charges: Iterable[Charge], order: float, relation: Relation = "blanked") -> float:
    """The Renyi divergence of all charges together at one order: they add up, also adaptively."""
    if not (order > 1 and math.isfinite(order)):
        raise DataLensError(f"A Renyi order must be a number above 1, got {order!r}.")
    _check_relation(relation)
    return math.fsum(c.count * _renyi_of(c.event, order, relation) for c in charges if c.count)


def total_rho(charges: Iterable[Charge], relation: Relation = "blanked") -> float:
    """The zero-concentrated cost of all charges together: they add up, also adaptively."""
    return math.fsum(c.count * rho_of(c.event, relation) for c in charges if c.count)


def rho_of(event: Event, relation: Relation = "blanked") -> float:
    """s^2 / (2 sigma^2): Gaussian noise (Bun and Steinke 2016), discrete or continuous."""
    if not isinstance(event, GaussianRelease):
        raise NotApplicable(
            f"What is {event.kind} has no zero-concentrated cost of its own; add it up at Renyi"
            " orders."
        )
    squared = (
        event.squared_sensitivity if relation == "blanked" else event.squared_sensitivity_replace
    )
    return squared / (2 * event.sigma**2)


@lru_cache(maxsize=4096)
def _renyi_of(event: Event, order: float, relation: Relation) -> float:
    if isinstance(event, GaussianRelease):
        return rho_of(event, relation) * order
    if isinstance(event, LaplaceRelease):
        return float(laplace_renyi(event, np.array([order]), relation)[0])
    return float(sampled_renyi(event, [order], relation)[0])


def _simple_epsilon(orders: Curve, curve: Curve, delta: float) -> float:
    """At the best of these orders (Mironov 2017, Proposition 3)."""
    return float(np.min(curve + math.log(1 / delta) / (orders - 1)))


def _sampled_curve(steps: Steps, relation: Relation, orders: Curve) -> Curve:
    total = np.zeros_like(orders)
    for event, count in steps:
        total += count * _one_step(event, relation, tuple(orders))
    return total


@lru_cache(maxsize=64)
def _one_step(
    event: SampledGaussianRelease, relation: Relation, orders: tuple[float, ...]
) -> Curve:
    return sampled_renyi(event, orders, relation)


def _pld_epsilon(rho: float, sampled: Steps, delta: float, relation: Relation) -> float:
    """dp-accounting's privacy loss distributions, composed; each is rounded up to a grid.

    Replaced, a sampled step becomes the pair that dp-accounting calls REPLACE_ONE: the record at
    +1 in one mixture P, at -1 in the other, Q. No records u and v, of norm at most 1, are worse:
    with g >= 1 and for any set S of outcomes, P(S) - g Q(S) is
    q N(u)(S) - (1 - q)(g - 1) N(0)(S) - q g N(v)(S). Hold N(u)(S). By Neyman and Pearson the
    other two are least on a half-line, and the less, the further u is from 0 (at most 1) and
    from v (at most 2). With u = 1 and v = -1 one half-line attains both. For g < 1 exchange P
    and Q.
    """
    coarse = rho * SAMPLED_ORDERS + _sampled_curve(sampled, relation, SAMPLED_ORDERS)
    above = float(rdp.compute_epsilon(SAMPLED_ORDERS, coarse, delta)[0])
    if above == 0:
        return 0.0
    account = pld.PLDAccountant(
        _RELATIONS[relation],
        value_discretization_interval=2.0 ** math.floor(math.log2(above / PLD_STEPS)),
    )
    if rho:
        apart = 1 if relation == "blanked" else 2  # how far REPLACE_ONE thinks a record moves
        account.compose(dp_accounting.GaussianDpEvent(apart / math.sqrt(2 * rho)))
    for event, count in sampled:
        account.compose(to_dp_accounting(event), count)
    return float(account.get_epsilon(delta))


_RELATIONS = {
    "blanked": dp_accounting.NeighboringRelation.REPLACE_SPECIAL,
    "replaced": dp_accounting.NeighboringRelation.REPLACE_ONE,
}


def _check(rho: float, delta: float, accountant: AccountantName) -> None:
    if accountant not in ACCOUNTANTS:
        raise DataLensError(
            f"Unknown accountant {accountant!r:.50}; use one of {', '.join(ACCOUNTANTS)}."
        )
    if not 0 < delta < 1:
        raise DataLensError(f"delta must lie between 0 and 1, got {delta!r}.")
    if not (rho >= 0 and math.isfinite(rho)):
        raise DataLensError(f"rho must be a number of at least 0, got {rho!r}.")


def _check_relation(relation: Relation) -> None:
    if relation not in _RELATIONS:
        raise DataLensError(f"Unknown relation {relation!r}; use {' or '.join(_RELATIONS)}.")
