"""G-PATE: teachers put a few random projections of their gradients into bins, and the student
follows the bins that win (Long et al., NeurIPS 2021).
"""

from collections.abc import Iterator
from functools import cache, partial
from hashlib import sha256
from typing import Any, ClassVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from datalens.data import Positions, PublicFacts, Records
from datalens.ensemble import Ranks, Teachers, stream
from datalens.mechanism.bins import BinRule, random_projections
from datalens.mechanism.noise import Integers
from datalens.student import Generator, Student
from datalens.student.developing import developed, negative
from datalens.synthesizers.checkpoint import Checkpoints
from datalens.synthesizers.gpate_plan import GPatePlan, GPateSettings
from datalens.synthesizers.moments import class_counts
from datalens.synthesizers.protocol import Drawn, Synthesizer
from datalens.synthesizers.session import Member
from datalens.synthesizers.settings import (
    Settings,
)
from datalens.synthesizers.voting import hire, shards_of, teachers_of


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
