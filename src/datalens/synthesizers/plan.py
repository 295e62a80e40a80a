"""From settings and public facts to a frozen plan: every number fixed before the first release.

Nothing here sees a record. The plan states its whole cost, which the ledger reserves.
"""

import math
from dataclasses import dataclass
from typing import Any, ClassVar, TypeVar

from datalens.data import PublicFacts
from datalens.errors import DataLensError
from datalens.mechanism.moments import ClassCounts
from datalens.mechanism.topagg import TopAgg
from datalens.privacy.accountants import Charge, epsilon, rho_of, total_rho
from datalens.privacy.calibration import affordable, budget_rho, sigma_for
from datalens.synthesizers.auto import complete, quorum_for, share_of_votes
from datalens.synthesizers.compressing import compressor_of, price
from datalens.synthesizers.frozen import FrozenPlan
from datalens.synthesizers.moments import MomentPlan
from datalens.synthesizers.settings import (
    ClassGaussianSettings,
    DataLensSettings,
    Settings,
    within_limits,
)
from datalens.synthesizers.warm_start import WarmStartPlan

PRIOR_SHARE = 0.01
"""Share of the budget that buys the class histogram, where it is bought."""


@dataclass(frozen=True, kw_only=True)
class Plan(FrozenPlan):
    """The frozen plan of a method that makes images."""

    settings: Settings
    counts: ClassCounts | None
    """The class histogram, where it is bought."""
    start: MomentPlan | WarmStartPlan | None
    """What is bought before any vote."""

    def charges_after(self, steps: int) -> list[Charge]:
        return self.first_charges

    @property
    def first_charges(self) -> list[Charge]:
        """What is bought before any vote."""
        return self._prior_charges + (self.start.charges if self.start else [])

    @property
    def _prior_charges(self) -> list[Charge]:
        return [Charge(event=self.counts.event, count=1)] if self.counts else []

    @property
    def parameters(self) -> dict[str, dict[str, Any]]:
        found: dict[str, dict[str, Any]] = {"class-counts": {}} if self.counts else {}
        return found | (self.start.parameters if self.start else {})

    @property
    def facts(self) -> dict[str, Any]:
        return super().facts | {"label_prior": self.settings.label_prior}


@dataclass(frozen=True, kw_only=True)
class ClassGaussianPlan(Plan):
    """Class sums and second moments share the budget."""

    method: ClassVar[str] = "class-gaussian"
    start: MomentPlan

    @classmethod
    def resolve(cls, settings: ClassGaussianSettings, public: PublicFacts) -> "ClassGaussianPlan":
        rho = budget_rho(settings.epsilon, settings.delta, settings.accountant)
        counts = class_prior(settings, public, rho)
        rho -= rho_of(counts.event) if counts else 0.0
        start = MomentPlan.within(
            rho, public=public, sums_share=settings.sums_share, rank=settings.rank
        )
        return cls(settings=settings, public=public, counts=counts, start=start)


@dataclass(frozen=True, kw_only=True)
class DataLensPlan(Plan):
    """Prior and warm start."""

    method: ClassVar[str] = "datalens"
    settings: DataLensSettings
    start: WarmStartPlan | None

    def spent_in_start(self, steps: int) -> float:
        """Epsilon when so many steps of the warm start have been taken."""
        paid = self._prior_charges + (self.start.charges_after(steps) if self.start else [])
        return epsilon(paid, self.settings.delta, self.settings.accountant)

    @classmethod
    def resolve(cls, settings: DataLensSettings, public: PublicFacts) -> "DataLensPlan":
        """The plan, which is a `VotingPlan` if there are votes."""
        rho = budget_rho(settings.epsilon, settings.delta, settings.accountant)
        share = share_of_votes(settings)
        counts = class_prior(settings, public, rho)
        rho -= rho_of(counts.event) if counts else 0.0
        start = None
        decided: dict[str, Any] = {"vote_share": share}
        if settings.warm_start:
            start = WarmStartPlan.within(rho * (1 - share), public=public, settings=settings)
            decided |= start.decided
            rho -= total_rho(start.charges)
        settings = within_limits(settings, decided)
        if share == 0:
            return DataLensPlan(settings=settings, public=public, counts=counts, start=start)
        settings = complete(settings, public, rho)
        topagg, steps = _votes(settings, public, rho)
        decided = {"sigma": topagg.sigma, "steps": steps, "quorum": topagg.quorum}
        return VotingPlan(
            settings=within_limits(settings, decided),
            public=public,
            counts=counts,
            start=start,
            topagg=topagg,
            steps=steps,
            batch_size=given(settings.batch_size),
            block_size=given(settings.block_size),
        )


@dataclass(frozen=True, kw_only=True)
class VotingPlan(DataLensPlan):
    """Prior and warm start first; votes take what is left, whole steps at a time."""

    topagg: TopAgg
    steps: int
    batch_size: int
    block_size: int
    """Teachers in a block."""

    @property
    def n_teachers(self) -> int:
        return self.topagg.n_teachers

    def charges_after(self, steps: int) -> list[Charge]:
        """A step with a batch of m images makes m releases and pays for each."""
        if steps == 0:
            return self.first_charges
        votes = Charge(event=self.topagg.event, count=steps * self.batch_size)
        return [*self.first_charges, votes]

    @property
    def parameters(self) -> dict[str, dict[str, Any]]:
        return super().parameters | {self.topagg.ballot.what: self.topagg.ballot.parameters}

    @property
    def facts(self) -> dict[str, Any]:
        return super().facts | {"steps": self.steps, "teachers": self.topagg.n_teachers}


def class_prior(settings: Settings, public: PublicFacts, rho: float) -> ClassCounts | None:
    """The class histogram, if it is to be bought, at its share of the budget."""
    if settings.label_prior == "uniform":
        return None
    sigma = sigma_for(rho * PRIOR_SHARE, 1)
    return ClassCounts(sigma=sigma, n_classes=public.n_classes)


def _votes(settings: DataLensSettings, public: PublicFacts, rho: float) -> tuple[TopAgg, int]:
    """The mechanism and the number of steps: from sigma, or from the steps, or both checked."""
    compressor = compressor_of(settings, math.prod(public.shape))
    batch = given(settings.batch_size)
    sigma = settings.sigma
    if sigma is None:
        sigma = sigma_for(rho / (given(settings.steps) * batch), price(compressor))
    topagg = TopAgg(
        ballot=compressor,
        n_teachers=given(settings.n_teachers),
        sigma=sigma,
        quorum=_quorum(settings, sigma * compressor.spread),
    )
    most = affordable(rho, rho_of(topagg.event)) // batch
    steps = settings.steps or most
    if most < 1 or steps > most:
        raise DataLensError(
            f"epsilon {settings.epsilon:g} pays for {most} steps of {batch} images at sigma"
            f" {sigma:g} and {_size(settings)}; raise sigma or epsilon, or lower batch-size,"
            f" {_size(settings).split()[0]} or steps."
        )
    return topagg, steps


def _size(settings: DataLensSettings) -> str:
    """What a ballot's price follows from, in words."""
    if settings.compressor == "topagg":
        return f"top-k {settings.top_k}"
    return f"ballot_bound {settings.ballot_bound}"


def _quorum(settings: DataLensSettings, noise: float) -> float | None:
    if not settings.threshold:
        return None
    if settings.quorum is not None:
        return settings.quorum
    return quorum_for(noise, given(settings.n_teachers))


N = TypeVar("N")


def given(value: N | None) -> N:
    """What a complete setting says."""
    if value is None:
        raise TypeError("a plan needs complete settings")
    return value
