"""G-PATE's settings and plan: every number fixed before the first vote."""

from dataclasses import dataclass
from math import prod
from typing import Any, ClassVar

from pydantic import Field

from datalens.data import PublicFacts
from datalens.errors import DataLensError
from datalens.mechanism.bins import BinnedVotes, BinRule, VoteChecks
from datalens.mechanism.events import GaussianRelease
from datalens.privacy.accountants import Charge, rho_of
from datalens.privacy.calibration import affordable, budget_rho, sigma_for
from datalens.synthesizers.plan import Plan, class_prior, given
from datalens.synthesizers.settings import MOST_IMAGES, MOST_STEPS, MOST_UPDATES, within_limits
from datalens.synthesizers.wasserstein import CriticSettings, critics_for

STEPS = 1_000
"""Unless told: under noise many small steps do better than few clear ones."""
LARGEST_PROJECTION = 2**27
"""Numbers in the projections of one step."""


class GPateSettings(CriticSettings):
    """What is printed and what is ours: docs/methods/gpate.md."""

    projected: int = Field(default=20, gt=0, le=1000)
    """Coordinates that a gradient is projected to, each image's at random in each step."""
    bins: int = Field(default=2, gt=1, le=1000)
    clip: float = Field(default=1e-4, ge=1e-30, le=1e30)
    """Size at which projected coordinates are cut; the bins lie between."""
    threshold: float = Field(default=0.0, ge=0, le=100)
    """Share of the teachers that the fullest bin must have for its coordinate to count; 0 is no
    check, and none is paid for."""
    sigma: float | None = Field(default=None, ge=1e-9)
    """Noise of histograms, in votes. Given: the budget decides the steps. None: they decide it."""
    check_noise: float = Field(default=2.0, ge=1e-3, le=1e3)
    """Noise of what is held against the threshold, in units of sigma."""
    weigh_room: bool = True
    """Project with less weight on pixels that have no room left in [0, 1]."""
    smooth: float = Field(default=1.0, ge=0, le=8)
    """Width in pixels over which projections are smooth; 0 is white noise."""
    batch_size: int = Field(default=32, gt=0, le=MOST_IMAGES)
    """Images in a step: each is paid for."""
    steps: int | None = Field(default=None, gt=0, le=MOST_STEPS)
    refresh_every: int = Field(default=12, gt=0, le=MOST_UPDATES)
    """Steps between two times when all critics are updated."""
    generator_learning_rate: float = Field(default=2e-3, gt=0, le=1)
    """Of the first step; it falls to nothing at the last."""
    moving_average: float = Field(default=0.99, ge=0, lt=1)
    """How much of the averaged generator, which is published, stays at each step."""


@dataclass(frozen=True, kw_only=True)
class GPatePlan(Plan):
    """Of each image of each step histograms are bought, and a check, whatever its answer."""

    method: ClassVar[str] = "gpate"
    settings: GPateSettings
    rule: BinRule
    checks: VoteChecks | None
    """None: every coordinate is answered, and nothing is bought to find out which."""
    votes: BinnedVotes
    steps: int
    n_teachers: int

    @classmethod
    def resolve(cls, settings: GPateSettings, public: PublicFacts) -> "GPatePlan":
        rho = budget_rho(settings.epsilon, settings.delta, settings.accountant)
        counts = class_prior(settings, public, rho)
        rho -= rho_of(counts.event) if counts else 0.0
        chosen: dict[str, int] = {"n_teachers": critics_for(settings, public)}
        if settings.sigma is None and settings.steps is None:
            chosen["steps"] = STEPS
        settings = within_limits(settings, chosen)
        _refuse_too_many(settings, prod(public.shape))
        checks, votes = _mechanisms(settings, rho)
        steps = _steps(settings, rho, checks, votes)
        return cls(
            settings=within_limits(settings, {"sigma": votes.sigma, "steps": steps}),
            public=public,
            counts=counts,
            start=None,
            rule=BinRule(projected=votes.projected, bins=settings.bins, clip=settings.clip),
            checks=checks,
            votes=votes,
            steps=steps,
            n_teachers=given(settings.n_teachers),
        )

    def charges_after(self, steps: int) -> list[Charge]:
        """A step with a batch of m images makes m releases of each kind and pays for each."""
        count = steps * self.settings.batch_size
        bought = [Charge(event=event, count=count) for event in _events(self.checks, self.votes)]
        return [*self.first_charges, *bought]

    @property
    def parameters(self) -> dict[str, dict[str, Any]]:
        projected = {"projected": self.rule.projected}
        events = _events(self.checks, self.votes)
        return super().parameters | {event.what: projected for event in events}

    @property
    def facts(self) -> dict[str, Any]:
        return super().facts | {"steps": self.steps, "teachers": self.n_teachers}


def _squared(settings: GPateSettings) -> float:
    """Of one coordinate, what is checked and what is counted together, in units of sigma."""
    return 2 + (settings.check_noise**-2 if settings.threshold else 0)


def _events(checks: VoteChecks | None, votes: BinnedVotes) -> list[GaussianRelease]:
    """What is paid for each image."""
    return [each.event for each in (checks, votes) if each is not None]


def _mechanisms(settings: GPateSettings, rho: float) -> tuple[VoteChecks | None, BinnedVotes]:
    """At the sigma that was given, or at the one that the steps leave room for."""
    projected, sigma = settings.projected, settings.sigma
    if sigma is None:
        releases = given(settings.steps) * settings.batch_size
        sigma = sigma_for(rho / releases, projected * _squared(settings))
    votes = BinnedVotes(projected=projected, sigma=sigma)
    if not settings.threshold:
        return None, votes
    checks = VoteChecks(
        projected=projected,
        sigma=sigma * settings.check_noise,
        least=settings.threshold * given(settings.n_teachers),
    )
    return checks, votes


def _steps(
    settings: GPateSettings, rho: float, checks: VoteChecks | None, votes: BinnedVotes
) -> int:
    """As many as the budget pays for, or those that were given, if it does."""
    each = sum(rho_of(event) for event in _events(checks, votes))
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
    numbers = settings.batch_size * settings.projected * max(values, settings.bins)
    if numbers > LARGEST_PROJECTION:
        raise DataLensError(
            f"{settings.projected} projections of {settings.batch_size} images of {values} values"
            " do not fit in memory; lower batch-size or projected."
        )
