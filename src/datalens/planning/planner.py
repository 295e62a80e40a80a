"""Settings to choose from, before any budget is spent: what each costs, and what it should give.

Guarantee: nothing here sees a record. A plan is resolved from settings and public facts by the
method itself, exactly as `fit` does, and nothing is reserved or spent.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from datalens.data import PublicFacts, shard_size
from datalens.data.limits import MAX_RECORDS
from datalens.errors import DataLensError
from datalens.planning.machine import Rates, memory, seconds
from datalens.privacy.accountants import AccountantName, epsilon
from datalens.synthesizers import METHODS
from datalens.synthesizers.auto import SHARD
from datalens.synthesizers.cautions import POOR, USELESS, Caution, cautions, unlike
from datalens.synthesizers.plan import Plan, VotingPlan
from datalens.synthesizers.prediction import Prediction, predict

SHOWN: tuple[AccountantName, ...] = ("certified", "paper", "gaussian")
MOST_EPSILON = 1000.0
FLAGS = {"vote_share": "--vote-share", "top_k": "--top-k", "n_teachers": "--teachers"}


@dataclass(frozen=True, kw_only=True)
class Option:
    """One way to spend the budget, with nothing left open."""

    words: str
    """What `datalens fit` is to be told beside the data and the budget; nothing is `auto`."""
    plan: Plan
    prediction: Prediction
    epsilon: dict[str, float]
    """By each accountant."""
    cautions: list[Caution]
    seconds: float | None
    """None if the machine was not measured."""
    memory: int
    """Bytes."""

    @property
    def releases(self) -> int:
        return sum(charge.count for charge in self.plan.charges)

    def to_json(self) -> dict[str, Any]:
        """For machines; None where there are no votes."""
        plan, expected = self.plan, self.prediction
        votes = plan if isinstance(plan, VotingPlan) else None
        passing = expected.directions
        return {
            "method": plan.method,
            "options": self.words,
            "predicted_accuracy": expected.accuracy,
            "signal_to_noise": expected.signal.ratio,
            "signal_kept": expected.signal.kept,
            "teachers": votes and votes.n_teachers,
            "shard": votes and shard_size(plan.public.n_records, votes.n_teachers),
            "top_k": votes and votes.settings.top_k,
            "sigma": votes and votes.topagg.sigma,
            "quorum": votes and votes.topagg.quorum,
            "steps": votes and votes.steps,
            "agreement": expected.agreement,
            "false_directions": passing and passing.false,
            "missed_directions": passing and passing.missed,
            "releases": self.releases,
            "epsilon": self.epsilon,
            "seconds": self.seconds,
            "memory_bytes": self.memory,
            "cautions": [str(caution) for caution in self.cautions],
            "settings": plan.settings.model_dump(exclude_none=True),
        }


@dataclass(frozen=True, kw_only=True)
class Outlook:
    """The options, best first, and whether any is worth its budget."""

    public: PublicFacts
    options: list[Option]
    refused: list[str]
    """What cannot be done with such data, and why."""
    needed_records: int | None
    """To get half of the way, at this epsilon; None if there are enough, or no number is."""
    needed_epsilon: float | None
    """The same with these records."""

    @property
    def best(self) -> Option:
        return self.options[0]

    @property
    def useful(self) -> bool:
        return self.best.prediction.share >= USELESS

    def to_json(self) -> dict[str, Any]:
        return {
            "records": self.public.n_records,
            "shape": list(self.public.shape),
            "classes": self.public.n_classes,
            "epsilon": self.best.plan.settings.epsilon,
            "delta": self.best.plan.settings.delta,
            "useful": self.useful,
            "needed_records": self.needed_records,
            "needed_epsilon": self.needed_epsilon,
            "options": [option.to_json() for option in self.options],
            "refused": self.refused,
        }


def outlook(
    public: PublicFacts, *, epsilon: float, delta: float = 1e-5, rates: Rates | None = None
) -> Outlook:
    """Every option that such data allow, ranked by what it should give. `auto` wins ties."""
    budget = {"epsilon": epsilon, "delta": delta}
    options, refused = [option("datalens", {}, public, budget, rates)], []
    for method, settings in _others(public):
        try:
            options.append(option(method, settings, public, budget, rates))
        except DataLensError as error:
            refused.append(f"{method} {spoken(method, settings)}: {error}")
    options.sort(key=lambda each: -each.prediction.accuracy)  # stable
    more = fewest = None
    if options[0].prediction.share < POOR:
        more, fewest = _needed_epsilon(public, budget), _needed_records(public, budget)
    return Outlook(
        public=public,
        options=options,
        refused=refused,
        needed_records=fewest,
        needed_epsilon=more,
    )


def option(
    method: str,
    settings: dict[str, Any],
    public: PublicFacts,
    budget: dict[str, float],
    rates: Rates | None = None,
) -> Option:
    """These settings, completed by the method itself."""
    plan = METHODS[method](**settings, **budget).resolve(public)
    expected = predict(plan)
    if expected is None:
        raise DataLensError(f"Nothing is known of what {method} would give.")
    return Option(
        words=spoken(method, settings),
        plan=plan,
        prediction=expected,
        epsilon={name: epsilon(plan.charges, plan.settings.delta, name) for name in SHOWN},
        cautions=cautions(plan) + unlike(public),
        seconds=None if rates is None else seconds(plan, rates),
        memory=memory(plan),
    )


def spoken(method: str, settings: dict[str, Any]) -> str:
    """As `datalens fit` takes them."""
    words = [] if method == "datalens" else ["--method", method]
    words += [] if settings.get("warm_start", True) else ["--no-warm-start"]
    for name, flag in FLAGS.items():
        words += [flag, str(settings[name])] if name in settings else []
    return " ".join(words)


def _others(public: PublicFacts) -> list[tuple[str, dict[str, Any]]]:
    """Beside `auto`: one without clusters and labeller, votes after a warm start, votes alone."""
    values, alone = math.prod(public.shape), {"warm_start": False}
    some = [{"top_k": max(1, values // part)} for part in (64, 4)]
    sizes = [{"n_teachers": max(2, public.n_records // (SHARD * part // 2))} for part in (1, 4)]
    votes = [alone | each for each in ({}, *some, *sizes)]
    return [
        ("class-gaussian", {}),
        ("datalens", {"vote_share": 0.2}),
        *(("datalens", each) for each in votes),
    ]


def _needed_records(public: PublicFacts, budget: dict[str, float]) -> int | None:
    def enough(n_records: float) -> bool:
        more = replace(public, n_records=int(n_records))
        return _share(more, budget) >= POOR

    least = _least(enough, public.n_records, MAX_RECORDS)
    return None if least is None else int(least)


def _needed_epsilon(public: PublicFacts, budget: dict[str, float]) -> float | None:
    def enough(epsilon: float) -> bool:
        return _share(public, budget | {"epsilon": epsilon}) >= POOR

    return _least(enough, budget["epsilon"], MOST_EPSILON)


def _share(public: PublicFacts, budget: dict[str, float]) -> float:
    """Of the way, with `auto`."""
    expected = predict(METHODS["datalens"](**budget).resolve(public))
    return expected.share if expected else 0.0


def _least(enough: Callable[[float], bool], low: float, high: float) -> float | None:
    """The least number that is enough, rounded up to two digits; None if `high` is not.

    Found by halving: more never predicts less.
    """
    if not enough(high):
        return None
    while high > low * 1.01:
        middle = math.sqrt(low * high)
        low, high = (low, middle) if enough(middle) else (middle, high)
    unit = 10.0 ** (math.floor(math.log10(high)) - 1)
    return float(f"{math.ceil(high / unit) * unit:.2g}")
