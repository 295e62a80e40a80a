"""The work that a plan counts, of which its time is made, is the work that a fit does."""

import math
from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest

from datalens.classifiers import labeller
from datalens.data import load
from datalens.ensemble import Teachers
from datalens.mechanism.gradients import GradientSums
from datalens.mechanism.moments import SecondMoments
from datalens.mechanism.noise import ExactNoise
from datalens.planning.machine import Rates, seconds
from datalens.synthesizers import METHODS
from datalens.synthesizers.plan import Plan

COUNTED = ("noise", "moment", "feature", "gradient", "update", "ballot")
"""All rates but `eigen`, which is of public numbers."""


def planned(plan: Plan) -> dict[str, float]:
    """How often each thing is to be done: the time it takes where it alone takes a second."""
    nothing = {name: 0.0 for name in Rates.__dataclass_fields__}
    return {name: seconds(plan, Rates(**(nothing | {name: 1.0}))) for name in COUNTED}


@pytest.fixture
def done(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """Counts what is done while a test runs, where it is done."""
    found = Counter[str]()

    def watch(owner: Any, name: str, what: str, size: Callable[..., int]) -> None:
        inner = getattr(owner, name)

        def watched(*given: Any, **named: Any) -> Any:
            found[what] += size(*given, **named)
            return inner(*given, **named)

        monkeypatch.setattr(owner, name, watched)

    def seen(self: Teachers, images: Any, *_: Any, updates: int = 1, **named: Any) -> int:
        return self.n_teachers * updates * (self.real_batch + len(images))

    watch(ExactNoise, "draw", "noise", lambda self, shape, **_: math.prod(shape))
    watch(SecondMoments, "query", "moment", lambda self, images, labels: len(images))
    watch(labeller, "features", "feature", len)
    watch(GradientSums, "query", "gradient", lambda self, features, residuals: len(features))
    watch(Teachers, "train", "update", seen)
    watch(Teachers, "ask", "ballot", lambda self, images, *_: self.n_teachers * len(images))
    return found


@pytest.mark.parametrize(
    "settings",
    [
        {"clusters": 1, "vote_share": 0.3, "n_teachers": 20, "steps": 3, "batch_size": 5},
        {"warm_start": False, "n_teachers": 20, "steps": 2, "batch_size": 5, "real_batch": 8},
        {"clusters": 1, "label_steps": 4},
    ],
)
def test_what_is_planned_is_what_is_done(done: Counter[str], settings: dict[str, Any]) -> None:
    records = load("digits")
    method = METHODS["datalens"](epsilon=10.0, **settings)
    told = planned(method.resolve(records.public))
    method.fit(records, ledger="digits")
    assert told == {name: done[name] for name in COUNTED}
    assert all(told[name] for name in (("update",) if "n_teachers" in settings else ("feature",)))
    # Another plan is another amount of work: the counts would not fit it by chance.
    more = METHODS["datalens"](epsilon=10.0, **settings | {"n_teachers": 30, "steps": 4})
    assert planned(more.resolve(records.public)) != told


def test_clusters_are_left_out(done: Counter[str]) -> None:
    """As docs/planning.md says: their noise is drawn, and no time is counted for it."""
    records = load("digits")
    method = METHODS["datalens"](epsilon=10.0, clusters=3, label_share=0.0)
    told = planned(method.resolve(records.public))
    method.fit(records, ledger="digits")
    assert done["noise"] > told["noise"] > 0 and done["moment"] == told["moment"]
