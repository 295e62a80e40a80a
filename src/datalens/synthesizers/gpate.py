"""G-PATE: teachers put a few random projections of their gradients into bins, and the student
follows the bins that win (Long et al., NeurIPS 2021).
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache, partial
from hashlib import sha256
from math import prod
from typing import Any, ClassVar

import numpy as np
import torch
from numpy.typing import NDArray
from pydantic import Field
from torch import Tensor

from datalens.data import Positions, PublicFacts, Records
from datalens.ensemble import Ranks, Teachers, stream
from datalens.errors import DataLensError
from datalens.mechanism.bins import BinnedVotes, BinRule, VoteChecks, random_projections
from datalens.mechanism.noise import Integers
from datalens.privacy.accountants import Charge, epsilon, rho_of
from datalens.privacy.calibration import affordable, budget_rho, sigma_for
from datalens.student import Generator, Student
from datalens.student.developing import developed, negative
from datalens.synthesizers.auto import ensemble
from datalens.synthesizers.checkpoint import Checkpoints
from datalens.synthesizers.moments import class_counts
from datalens.synthesizers.plan import Plan, class_prior, given
from datalens.synthesizers.protocol import Drawn, Synthesizer
from datalens.synthesizers.session import Member
from datalens.synthesizers.settings import (
    MOST_IMAGES,
    MOST_STEPS,
    MOST_UPDATES,
    Settings,
    TeacherSettings,
)
from datalens.synthesizers.voting import hire, shards_of, teachers_of

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

    @property
    def charges(self) -> list[Charge]:
        return self._charges_after(self.steps)

    def _charges_after(self, steps: int) -> list[Charge]:
        """A step with a batch of m images makes m releases of each kind and pays for each."""
        count = steps * self.settings.batch_size
        bought = [Charge(event=each.event, count=count) for each in (self.checks, self.votes)]
        return [*self.first_charges, *bought]

    def spent_after(self, steps: int) -> float:
        """Epsilon after so many steps, by the accountant that sizes the run."""
        return epsilon(self._charges_after(steps), self.settings.delta, self.settings.accountant)

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


class GPate(Synthesizer):
    """Teachers vote on a few projections of how each synthetic image should change.

    Guarantee: a record reaches one teacher (data/shards.py), so it changes one ballot on each
    image. Of each image two things are bought through the ledger, answered or not: the largest
    counts and the histograms (mechanism/bins.py). The student sees the bins that win where the
    check is passed, which is computed from the two releases, and nothing else of the records.
    """

    method: ClassVar[str] = "gpate"
    settings_type: ClassVar[type[Settings]] = GPateSettings
    about: ClassVar[str] = "teachers' votes on random projections of their gradients"
    source: ClassVar[str] = "Long et al., G-PATE, NeurIPS 2021"
    settings: GPateSettings

    _prior: NDArray[np.float64]
    _student: Student

    def resolve(self, public: PublicFacts) -> GPatePlan:
        return GPatePlan.resolve(self.settings, public)

    def _share(self, plan: GPatePlan, ranks: Ranks, secret: bytes) -> Positions:  # type: ignore[override]
        return shards_of(plan, secret).held_by(teachers_of(plan, ranks))

    def _train(self, records: Records, plan: GPatePlan, session: Member) -> None:  # type: ignore[override]
        counts = class_counts(records, session.releases, plan.counts)
        self._prior = counts / counts.sum()
        self._student = student = _new_student(plan, session.secret)
        teachers = hire(records, plan, session.secret, session.ranks)
        checkpoints = Checkpoints(
            session.checkpoint, student=student, teachers=teachers, ranks=session.ranks
        )
        first = checkpoints.resume()
        before = -plan.settings.teacher_warm_up if first == 0 else 0  # free: nobody is asked
        for step in range(before, 0):
            self._teach(teachers, plan, session, step)
            session.observer.progress("teachers", step - before + 1, -before)
        for step in range(first, plan.steps):
            painted, labels = self._teach(teachers, plan, session, step)
            images = developed(painted)
            direction = _direction(teachers, images, labels, plan, session, step)
            if direction is not None:  # a step that a crash has lost is passed over
                chosen = plan.settings
                wanted = negative((images + chosen.step_size * direction).clamp(0, 1))
                student.follow(wanted - painted, step_size=1.0, updates=chosen.student_updates)
            done = step + 1
            session.observer.progress("votes", done, plan.steps, spent=plan.spent_after(done))
            checkpoints.after(step, stopping=session.observer.stopping())
        checkpoints.clear()

    def _teach(
        self, teachers: Teachers, plan: GPatePlan, session: Member, step: int
    ) -> tuple[Tensor, Tensor]:
        """Teachers learn to tell their shards from what the student paints, which is returned."""
        chosen, prior = plan.settings, torch.from_numpy(self._prior)
        chance = stream(session.secret, "labels", step)
        labels = torch.multinomial(prior, chosen.batch_size, replacement=True, generator=chance)
        painted = self._student.propose(labels, step=step)
        digest = sha256(painted.numpy().tobytes()).hexdigest()[:16]
        session.ranks.agree("the proposed images", digest, remedy="use machines of one kind")
        updates = chosen.teacher_updates if step >= 0 else 1
        teachers.train(developed(painted), labels, step=step, updates=updates)
        return painted, labels

    def _draw(self, labels: NDArray[np.int64], seed: bytes, *, exact: bool) -> Drawn:
        images = self._student.sample(torch.from_numpy(labels), stream(seed, "sample"))
        return Drawn(developed(images).numpy(), labels)

    def _arrays(self) -> dict[str, NDArray[Any]]:
        return {name: weight.numpy() for name, weight in self._student.average.items()}

    def _take_arrays(self, arrays: dict[str, NDArray[Any]], plan: GPatePlan) -> None:  # type: ignore[override]
        self._student = _new_student(plan, b"loaded")
        self._student.take_average(arrays)


def _direction(
    teachers: Teachers,
    images: Tensor,
    labels: Tensor,
    plan: GPatePlan,
    session: Member,
    step: int,
) -> Tensor | None:
    """Confident GNMax on every projected coordinate of every image; 0 where it is not answered."""
    rule, m = plan.rule, len(labels)
    projection = random_projections(
        images,
        rule.projected,
        smooth=plan.settings.smooth,
        weigh_room=plan.settings.weigh_room,
        chance=stream(session.secret, "projection", step),
    )
    tally = cache(partial(_count, teachers, images, labels, rule, projection))  # asked for twice
    counts = session.releases.obtain(
        f"vote-checks/{step}", plan.checks, tally, shape=(m, rule.projected)
    )
    histograms = session.releases.obtain(
        f"binned-votes/{step}", plan.votes, tally, shape=(m, rule.projected, rule.bins)
    )
    if counts is None or histograms is None:
        return None
    centres = rule.centres(plan.votes.winners(histograms))
    answers = torch.from_numpy(np.where(plan.checks.passed(counts), centres, np.float32(0)))
    return torch.einsum("mp,mpd->md", answers, projection).view_as(images)


def _count(
    teachers: Teachers, images: Tensor, labels: Tensor, rule: BinRule, projection: Tensor
) -> Integers:
    """The tally of each image (m, projected, bins)."""

    def count(asked: Iterator[tuple[range, Tensor]]) -> Tensor:
        tally = rule.empty_tally(len(images))
        for _, gradients in asked:
            rule.count(gradients, projection.to(gradients.device), into=tally)
        return tally

    return torch.stack(teachers.ask(images, labels, count)).sum(0).numpy()


def _new_student(plan: GPatePlan, secret: bytes) -> Student:
    chosen = plan.settings
    chance = stream(secret, "student", "initial", 0)
    generator = Generator(plan.public.shape, plan.public.n_classes, chosen.latent, stream=chance)
    return Student(
        generator,
        secret=secret,
        learning_rate=chosen.student_learning_rate,
        moving_average=chosen.moving_average,
    )
