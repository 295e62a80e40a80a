"""PATE-GAN's settings and plan: every number fixed before the first vote."""

from dataclasses import dataclass
from math import prod
from typing import Any, ClassVar, Literal

from pydantic import Field

from datalens.data import PublicFacts, shard_size
from datalens.ensemble import make_discriminator
from datalens.ensemble.teachers import default_block_size
from datalens.errors import DataLensError
from datalens.mechanism.moments import ClassCounts
from datalens.mechanism.real_votes import RealVotes
from datalens.privacy.accountants import Charge, rho_of
from datalens.privacy.calibration import (
    budget_rho,
    laplace_scale_for,
    most_releases,
    sigma_for,
    within,
)
from datalens.synthesizers.plan import PRIOR_SHARE, Plan
from datalens.synthesizers.settings import (
    MOST_IMAGES,
    MOST_STEPS,
    MOST_UPDATES,
    Settings,
    within_limits,
)

STEPS = 200
SHARD = 20
"""Records a teacher gets, unless told: what a vote says in spite of its noise grows with the square
of the number of teachers, and they need not know much."""
MOST_TEACHERS = 2000
MOST_REMEMBERED = 1000
MOST_NUMBERS = 2**28
"""In the images that the student remembers: a gibibyte."""


class PateGanSettings(Settings):
    """Teachers' counted votes on whether an image is real."""

    noise: Literal["gaussian", "laplace"] = "gaussian"
    """On the counts. The paper's is laplace, which costs as much as sqrt(2) times less noise."""
    scale: float | None = Field(default=None, gt=0)
    """Of the noise, in votes. Given: the budget decides the steps. None: the steps decide it."""
    verdict: Literal["share", "majority"] = "share"
    """What the student learns of an image: the noisy share of the votes, or who has the most."""

    n_teachers: int | None = Field(default=None, gt=0)
    discriminator: Literal["compact", "reference"] = "compact"
    teacher_updates: int = Field(default=1, ge=0, le=MOST_UPDATES)
    """Training updates of every teacher before each vote."""
    teacher_warm_up: int = Field(default=0, ge=0, le=MOST_UPDATES)
    """Updates before the first vote, against the generator as it starts."""
    teacher_learning_rate: float = Field(default=2e-4, gt=0, le=1)
    real_batch: int | None = Field(default=None, gt=0)
    """Records of its shard that a teacher sees in one update; None is at most 32."""
    block_size: int | None = Field(default=None, gt=0)
    """Teachers computed at once, and the least a rank can have. Part of the result, by rounding."""

    batch_size: int = Field(default=128, gt=0, le=MOST_IMAGES)
    """Images that are voted on in a step; each is paid for."""
    steps: int | None = Field(default=None, gt=0, le=MOST_STEPS)
    student_updates: int = Field(default=8, gt=0, le=MOST_UPDATES)
    """Of the student discriminator, after each vote; every other one on earlier votes."""
    soft: bool = True
    """Whether the student sees images through a blur."""
    student_learning_rate: float = Field(default=1e-3, gt=0, le=1)
    remembered: int = Field(default=10, gt=0, le=MOST_REMEMBERED)
    """Steps whose votes the student goes on learning from."""
    generator_updates: int = Field(default=4, gt=0, le=MOST_UPDATES)
    generator_learning_rate: float = Field(default=3e-4, gt=0, le=1)
    diversity: float = Field(default=0.03, ge=0, le=100)
    """Weight of keeping images of a class apart, of which votes say nothing."""
    latent: int = Field(default=64, gt=0, le=4096)
    moving_average: float = Field(default=0.9, ge=0, lt=1)
    """How much of the averaged generator stays at each step; 0 is the last generator."""


@dataclass(frozen=True, kw_only=True)
class PateGanPlan(Plan):
    """So many steps, of so many images each, all of them fixed before the first."""

    method: ClassVar[str] = "pategan"
    settings: PateGanSettings
    votes: RealVotes
    steps: int
    block_size: int
    real_batch: int

    def charges_after(self, steps: int) -> list[Charge]:
        """A step with a batch of m images makes m releases and pays for each."""
        if steps == 0:
            return self.first_charges
        count = steps * self.settings.batch_size
        return [*self.first_charges, Charge(event=self.votes.event, count=count)]

    @property
    def parameters(self) -> dict[str, dict[str, Any]]:
        return super().parameters | {"real-votes": {}}

    @property
    def facts(self) -> dict[str, Any]:
        return super().facts | {"steps": self.steps, "teachers": self.votes.n_teachers}

    @classmethod
    def resolve(cls, settings: PateGanSettings, public: PublicFacts) -> "PateGanPlan":
        usual = min(MOST_TEACHERS, max(2, public.n_records // SHARD))
        n_teachers = settings.n_teachers or usual
        shard = shard_size(public.n_records, n_teachers)  # refuses too many teachers
        real_batch = min(settings.real_batch or 32, shard)
        discriminator = make_discriminator(settings.discriminator, public.shape, public.n_classes)
        if min(settings.batch_size, real_batch) < discriminator.smallest_batch:
            raise DataLensError(
                f"A {discriminator.name} teacher needs batches of {discriminator.smallest_batch}"
                " records and images at least; raise batch_size or real_batch."
            )
        if settings.remembered * settings.batch_size * prod(public.shape) > MOST_NUMBERS:
            raise DataLensError(
                f"The student cannot keep {settings.remembered} batches of such images in memory;"
                " lower remembered or batch_size."
            )
        block_size = settings.block_size or default_block_size(discriminator, real_batch)
        counts, votes, steps = _bought(settings, public, n_teachers)
        decided = {
            "n_teachers": n_teachers,
            "scale": votes.scale,
            "steps": steps,
            "block_size": block_size,
            "real_batch": real_batch,
        }
        return cls(
            settings=within_limits(settings, decided),
            public=public,
            counts=counts,
            start=None,
            votes=votes,
            steps=steps,
            block_size=block_size,
            real_batch=real_batch,
        )


def _bought(
    settings: PateGanSettings, public: PublicFacts, n_teachers: int
) -> tuple[ClassCounts | None, RealVotes, int]:
    """The class histogram, if it is bought; the noise on votes and the steps: one from the other,
    or both checked."""
    epsilon, delta, by = settings.epsilon, settings.delta, settings.accountant
    rho, counts, beside = budget_rho(epsilon, delta, by), None, []
    if settings.label_prior == "bought":
        counts = ClassCounts(sigma=sigma_for(rho * PRIOR_SHARE, 1), n_classes=public.n_classes)
        beside = [Charge(event=counts.event, count=1)]
        rho -= rho_of(counts.event)
    scale, steps, batch = settings.scale, settings.steps, settings.batch_size
    if scale is None:
        steps = steps or STEPS
        scale = (
            sigma_for(rho / (steps * batch), 1)
            if settings.noise == "gaussian"
            else laplace_scale_for(
                epsilon, delta, sensitivity=1, count=steps * batch, accountant=by, beside=beside
            )
        )
    votes = RealVotes(n_teachers=n_teachers, shape=settings.noise, scale=scale)
    if steps is None:
        most = most_releases(epsilon, delta, votes.event, accountant=by, beside=beside)
        steps = min(most // batch, MOST_STEPS)
    if steps < 1 or not within(epsilon, delta, by, beside, votes.event, steps * batch):
        raise DataLensError(
            f"epsilon {epsilon:g} does not pay for {max(steps, 1)} steps of {batch} images at the"
            f" scale {scale:g}; raise scale or epsilon, or lower batch_size or steps."
        )
    return counts, votes, steps
