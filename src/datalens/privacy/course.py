"""How the cost of a run grew, release by release, and what it was spent on."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from datalens.privacy.accountants import AccountantName, Charge, epsilon, renyi
from datalens.privacy.cap import Cap

POINTS = 16
"""Parts that the curve is cut into, closer together where it is steep: at the beginning."""
PLD_POINTS = 6
"""The same by privacy loss distributions, each of which takes a quarter of a second."""


@dataclass(frozen=True, kw_only=True)
class Course:
    """Epsilon after so many releases, by one accountant: from none to all."""

    releases: tuple[int, ...]
    epsilon: tuple[float, ...]


@dataclass(frozen=True, kw_only=True)
class Share:
    """What one kind of release had of the whole cost."""

    what: str
    releases: int
    share: float
    """Of 1, over all kinds."""


def course(charges: Sequence[Charge], delta: float, accountant: AccountantName) -> Course:
    """Epsilon at every point where another kind of release begins, and at some in between."""
    total = sum(charge.count for charge in charges)
    parts = PLD_POINTS if accountant == "pld" else POINTS
    places = {round(total * (part / parts) ** 2) for part in range(parts + 1)}
    if accountant != "pld":
        places |= set(_beginnings(charges))
    releases = tuple(sorted(places))
    return Course(
        releases=releases,
        epsilon=tuple(epsilon(first(charges, n), delta, accountant) for n in releases),
    )


def first(charges: Iterable[Charge], releases: int) -> list[Charge]:
    """The charges of so many releases, in the order in which they were bought."""
    found = []
    for charge in charges:
        count = min(charge.count, releases)
        if count:
            found.append(Charge(event=charge.event, count=count))
        releases -= count
    return found


def shares(charges: Sequence[Charge], delta: float) -> list[Share]:
    """What each kind of release cost, in order of first appearance.

    Epsilons do not add up; Renyi divergences at one order do. The order is the one at which a
    cap of this run's epsilon would be kept. With Gaussian releases alone any order gives the
    same shares.
    """
    spent = epsilon(charges, delta)
    order = Cap.of(spent, delta).order if spent > 0 else 2.0
    kinds = dict.fromkeys(charge.event.what for charge in charges if charge.count)
    parts = {what: [c for c in charges if c.event.what == what] for what in kinds}
    costs = {what: renyi(part, order) for what, part in parts.items()}
    return [
        Share(
            what=what,
            releases=sum(charge.count for charge in part),
            share=costs[what] / sum(costs.values()),
        )
        for what, part in parts.items()
    ]


def _beginnings(charges: Iterable[Charge]) -> Iterable[int]:
    """After how many releases a kind gives way to another."""
    done, last = 0, None
    for charge in charges:
        if charge.event.what != last:
            yield done
            last = charge.event.what
        done += charge.count
