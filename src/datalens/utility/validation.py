"""A noisy accuracy on held-out private records, bought through their ledger like anything else.

Figures on real records are internal unless somebody pays for them. Here the owner of records that
were held out pays: how many of them a public classifier has right, under exact Laplace noise.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from datalens.data import PublicFacts, Records
from datalens.mechanism.right_answers import RightAnswers
from datalens.privacy.accountants import Charge
from datalens.privacy.calibration import laplace_scale_for
from datalens.privacy.certificate import Product
from datalens.privacy.wording import COVERS
from datalens.synthesizers.frozen import FrozenPlan
from datalens.synthesizers.learner import Learner
from datalens.synthesizers.session import Member, Session
from datalens.synthesizers.settings import Budget

WHAT = "right-answers"
SURE = 0.95


class PublicClassifier(NamedTuple):
    """What is validated: it has never seen a held-out record, or only through a private run."""

    predict: Callable[[NDArray[np.uint8]], NDArray[np.int64]]
    weights: dict[str, NDArray[Any]]
    """So that the certificate can name it; none, if they may not be published."""


class ValidationSettings(Budget):
    """One count, and no more."""

    scale: float | None = None
    """Of its noise; follows from the budget."""


@dataclass(frozen=True, kw_only=True)
class ValidationPlan(FrozenPlan):
    method: ClassVar[str] = "validation"

    settings: ValidationSettings
    mechanism: RightAnswers

    @classmethod
    def resolve(cls, settings: ValidationSettings, public: PublicFacts) -> "ValidationPlan":
        """At least so much noise that epsilon also holds at delta 0."""
        epsilon, delta = settings.epsilon, settings.delta
        scale = max(1 / epsilon, laplace_scale_for(epsilon, delta, sensitivity=1, count=1))
        settings = settings.model_copy(update={"scale": scale})
        return cls(settings=settings, public=public, mechanism=RightAnswers(scale=scale))

    def charges_after(self, steps: int) -> list[Charge]:
        return [Charge(event=self.mechanism.event, count=1)]

    @property
    def parameters(self) -> dict[str, dict[str, Any]]:
        return {WHAT: {}}


class Validation(Learner[ValidationPlan]):
    """Spends a budget of held-out records on one figure about a public classifier.

    Guarantee: that of a learner. The records are touched by one query, whose answer is released
    under noise that the ledger was charged for before it was drawn. The classifier comes from
    `teach`, which has no access to the records, and is called once the cost is set aside.
    """

    method: ClassVar[str] = "validation"
    product: ClassVar[Product] = "judge"
    settings_type: ClassVar[type[Budget]] = ValidationSettings
    accounting: ClassVar[str] = "exact discrete Laplace noise on one count"
    many_ranks: ClassVar[bool] = False
    settings: ValidationSettings

    def __init__(self, teach: Callable[[], PublicClassifier], /, **settings: Any) -> None:
        super().__init__(**settings)
        self._teach = teach
        self._weights: dict[str, NDArray[Any]] = {}
        self._right = 0

    def resolve(self, public: PublicFacts) -> ValidationPlan:
        return ValidationPlan.resolve(self.settings, public)

    @property
    def right(self) -> int:
        """Right answers under noise: it may lie outside 0 and the number of records."""
        self._fitted()
        return self._right

    @property
    def accuracy(self) -> float:
        """Right on average, so not cut off at 0 or 1."""
        return self.right / self._fitted().public.n_records

    @property
    def interval(self) -> tuple[float, float]:
        """Where the accuracy on these very records lies, with 95 % over the noise."""
        n_records, reach = self._fitted().public.n_records, within(self._fitted().mechanism.scale)
        low, high = (self.right - reach) / n_records, (self.right + reach) / n_records
        return min(1.0, max(0.0, low)), max(0.0, min(1.0, high))

    def _train(self, records: Records, plan: ValidationPlan, session: Member) -> None:
        classifier = self._teach()

        def query() -> NDArray[np.int64]:
            return plan.mechanism.count(classifier.predict(records.images), records.labels)

        release = session.releases.obtain(WHAT, plan.mechanism, query, shape=(1,))
        if release is None:
            raise session.lost()
        self._weights, self._right = classifier.weights, int(release[0])

    def _certify(self, plan: ValidationPlan, session: Session) -> dict[str, Any]:
        certificate = super()._certify(plan, session)
        accuracy = self._right / plan.public.n_records
        certificate["facts"] |= {"right_answers": self._right, "accuracy": accuracy}
        certificate["facts"]["covers"] = COVERS
        return certificate

    def _arrays(self) -> dict[str, NDArray[Any]]:
        return self._weights

    def _take_arrays(self, arrays: dict[str, NDArray[Any]], plan: ValidationPlan) -> None:
        self._weights = arrays


def within(scale: float) -> int:
    """How far discrete Laplace noise goes, at most, with 95 %.

    It is further away than t with probability 2 exp(-(t + 1) / scale) / (1 + exp(-1 / scale)).
    """
    tail = (1 - SURE) * (1 + math.exp(-1 / scale)) / 2
    return max(0, math.ceil(-scale * math.log(tail)) - 1)
