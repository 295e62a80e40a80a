"""G-PATE's settings and plan: every number fixed before the first vote."""

from dataclasses import dataclass
from math import prod
from typing import Any, ClassVar

from pydantic import Field

from datalens.data import PublicFacts
from datalens.errors import DataLensError
from datalens.mechanism.bins import BinnedVotes, BinRule, VoteChecks
from datalens.privacy.accountants import Charge, rho_of
from datalens.privacy.calibration import affordable, budget_rho, sigma_for
from datalens.synthesizers.auto import ensemble
from datalens.synthesizers.plan import Plan, class_prior, given
from datalens.synthesizers.settings import (
    MOST_IMAGES,
    MOST_STEPS,
    MOST_UPDATES,
    TeacherSettings,
)

TOLERABLE_NOISE = 0.2
"""Sigma as a share of the teachers that steps are added up to."""
STEPS = 100
"""At most, unless told."""
PROJECTED = (10, 30)
"""Coordinates at least, which is what is printed, and at most, unless told."""
LARGEST_PROJECTION = 2**27
"""Numbers in the projections of one step."""


class GPateSettings(TeacherSettings):
    """What is printed and what is ours: docs/methods/gpate.md."""

    projected: int | None = Field(default=None, gt=0, le=1000)
    """Coordinates that a gradient is projected to, each image's at random in each step."""
    bins: int = Field(default=10, gt=1, le=1000)
    clip: float = Field(default=1e-4, ge=1e-30, le=1e30)
    """Size at which projected coordinates are cut; the bins lie between."""
    threshold: float = Field(default=0.5, ge=0, le=100)
    """Share of the teachers that the fullest bin must have for its coordinate to count."""
    sigma: float | None = Field(default=None, ge=1e-9)
    """Noise of histograms, in votes. Given: the budget decides the steps. None: they decide it."""
    check_noise: float = Field(default=2.0, ge=1e-3, le=1e3)
    """Noise of what is held against the threshold, in units of sigma."""
    weigh_room: bool = True
    """Project with less weight on pixels that have no room left in [0, 1]."""
    smooth: float = Field(default=1.0, ge=0, le=8)
    """Width in pixels over which projections are smooth; 0 is white noise."""

    batch_size: int = Field(default=32, gt=0, le=MOST_IMAGES)
    steps: int | None = Field(default=None, gt=0, le=MOST_STEPS)
    step_size: float = Field(default=1.0, gt=0, le=100)
    student_updates: int = Field(default=10, gt=0, le=MOST_UPDATES)
    student_learning_rate: float = Field(default=1e-3, gt=0, le=1)
    latent: int = Field(default=100, gt=0, le=4096)
    moving_average: float = Field(default=0.9, ge=0, lt=1)
    """How much of the averaged generator stays at each step; 0 is the last generator."""


@dataclass(frozen=True, kw_only=True)
class GPatePlan(Plan):
    """Of each image of each step a check and its histograms are bought, answered or not."""

    method: ClassVar[str] = "gpate"
    settings: GPateSettings
    rule: BinRule
    checks: VoteChecks
    votes: BinnedVotes
    steps: int
    n_teachers: int
    block_size: int

    @classmethod
    def resolve(cls, settings: GPateSettings, public: PublicFacts) -> "GPatePlan":
        rho = budget_rho(settings.epsilon, settings.delta, settings.accountant)
        counts = class_prior(settings, public, rho)
        rho -= rho_of(counts.event) if counts else 0.0
        chosen = ensemble(settings, public, batch_size=settings.batch_size)
        settings = _complete(settings.model_copy(update=chosen), rho)
        _refuse_too_many(settings, prod(public.shape))
        checks, votes = _mechanisms(settings, rho)
        steps = _steps(settings, rho, checks, votes)
        return cls(
            settings=settings.model_copy(update={"sigma": votes.sigma, "steps": steps}),
            public=public,
            counts=counts,
            start=None,
            rule=BinRule(projected=votes.projected, bins=settings.bins, clip=settings.clip),
            checks=checks,
            votes=votes,
            steps=steps,
            n_teachers=given(settings.n_teachers),
            block_size=given(settings.block_size),
        )

    def charges_after(self, steps: int) -> list[Charge]:
        """A step with a batch of m images makes m releases of each kind and pays for each."""
        count = steps * self.settings.batch_size
        bought = [Charge(event=each.event, count=count) for each in (self.checks, self.votes)]
        return [*self.first_charges, *bought]

    @property
    def parameters(self) -> dict[str, dict[str, Any]]:
        projected = {"projected": self.rule.projected}
        return super().parameters | {"vote-checks": projected, "binned-votes": projected}

    @property
    def facts(self) -> dict[str, Any]:
        return super().facts | {"steps": self.steps, "teachers": self.n_teachers}


def _complete(settings: GPateSettings, rho: float) -> GPateSettings:
    """Coordinates, and then steps, as many as can be had at a noise that is tolerable."""
    images = 2 * rho * (TOLERABLE_NOISE * given(settings.n_teachers)) ** 2 / _squared(settings)
    affordable_steps = images / settings.batch_size
    least, most = PROJECTED
    steps = settings.steps or STEPS
    projected = settings.projected or max(least, min(most, int(affordable_steps / steps)))
    chosen: dict[str, Any] = {"projected": projected}
    if settings.sigma is None and settings.steps is None:
        chosen["steps"] = max(1, min(STEPS, int(affordable_steps / projected)))
    return settings.model_copy(update=chosen)


def _squared(settings: GPateSettings) -> float:
    """Of one coordinate, what is checked and what is counted together, in units of sigma."""
    return 2 + settings.check_noise**-2


def _mechanisms(settings: GPateSettings, rho: float) -> tuple[VoteChecks, BinnedVotes]:
    """At the sigma that was given, or at the one that the steps leave room for."""
    projected, sigma = given(settings.projected), settings.sigma
    if sigma is None:
        releases = given(settings.steps) * settings.batch_size
        sigma = sigma_for(rho / releases, projected * _squared(settings))
    checks = VoteChecks(
        projected=projected,
        sigma=sigma * settings.check_noise,
        least=settings.threshold * given(settings.n_teachers),
    )
    return checks, BinnedVotes(projected=projected, sigma=sigma)


def _steps(settings: GPateSettings, rho: float, checks: VoteChecks, votes: BinnedVotes) -> int:
    """As many as the budget pays for, or those that were given, if it does."""
    each = rho_of(checks.event) + rho_of(votes.event)
    most = affordable(rho, each) // settings.batch_size
    steps = settings.steps or min(most, MOST_STEPS)
    if most < 1 or steps > most:
        raise DataLensError(
            f"epsilon {settings.epsilon:g} pays for {most} steps of {settings.batch_size} images at"
            f" sigma {votes.sigma:g}; raise sigma or epsilon, or lower batch-size, projected or"
            " steps."
        )
    return steps


def _refuse_too_many(settings: GPateSettings, values: int) -> None:
    numbers = settings.batch_size * given(settings.projected) * max(values, settings.bins)
    if numbers > LARGEST_PROJECTION:
        raise DataLensError(
            f"{settings.projected} projections of {settings.batch_size} images of {values} values"
            " do not fit in memory; lower batch-size or projected."
        )
