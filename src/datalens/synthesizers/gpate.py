"""G-PATE: teachers put a few random projections of their gradients into bins, and the student
follows the bins that win (Long et al., NeurIPS 2021).
"""

from collections.abc import Iterator
from functools import cache, partial
from typing import ClassVar

import torch
from torch import Tensor

from datalens.data import PublicFacts, Records
from datalens.ensemble import stream
from datalens.ensemble.critics import Critics
from datalens.mechanism.bins import BinRule, random_projections
from datalens.mechanism.noise import Integers
from datalens.synthesizers.checkpoint import Checkpoints
from datalens.synthesizers.gan import GanSynthesizer
from datalens.synthesizers.gpate_plan import GPatePlan, GPateSettings
from datalens.synthesizers.moments import class_counts
from datalens.synthesizers.session import Member, Stopped
from datalens.synthesizers.settings import Settings
from datalens.synthesizers.wasserstein import Follower, hire


class GPate(GanSynthesizer):
    """Teachers vote on a few projections of how each synthetic image should change.

    Guarantee: a record reaches one teacher (data/shards.py), so it changes one ballot on each
    image. Of each image two things are bought through the ledger, answered or not: the largest
    counts, unless nothing is checked, and the histograms (mechanism/bins.py). The student sees the
    bins that win where the check is passed, which follows from the releases, and nothing else of
    the records.
    """

    method: ClassVar[str] = "gpate"
    settings_type: ClassVar[type[Settings]] = GPateSettings
    about: ClassVar[str] = "teachers' votes on random projections of their gradients"
    source: ClassVar[str] = "Long et al., G-PATE, NeurIPS 2021"
    many_ranks: ClassVar[bool] = False
    settings: GPateSettings

    def resolve(self, public: PublicFacts) -> GPatePlan:
        return GPatePlan.resolve(self.settings, public)

    def _train(self, records: Records, plan: GPatePlan, session: Member) -> None:  # type: ignore[override]
        counts = class_counts(records, session.releases, plan.counts)
        self._prior = counts / counts.sum()
        prior = torch.from_numpy(self._prior)
        student = Follower(plan, steps=plan.steps, secret=session.secret, prior=prior)
        critics = hire(records, plan, session.secret)
        checkpoints = Checkpoints(session.checkpoint, student=student.trainee, teachers=critics)
        self._publish(student.generator, student.average)  # which votes go on to change
        for step in range(checkpoints.resume(), plan.steps):
            if step % plan.settings.refresh_every == 0:
                _refresh(critics, student, plan, session, step)
            images, labels = student.propose(step)
            direction = _direction(critics, images.detach(), labels, plan, session, step)
            if direction is not None:  # a step that a crash has lost is passed over
                student.follow(images, direction, step)
            done = step + 1
            session.observer.progress("votes", done, plan.steps, spent=plan.spent_after(done))
            checkpoints.after(step, stopping=session.observer.stopping())
        checkpoints.clear()


def _refresh(
    critics: Critics, student: Follower, plan: GPatePlan, session: Member, step: int
) -> None:
    """All teachers learn to tell the generator as it is from their records: nobody is asked."""
    for update in student.updates(step // plan.settings.refresh_every):
        student.teach(critics, update)
        if step == 0:
            session.observer.progress("teachers", update + 1, plan.settings.warm_up)
            if session.observer.stopping():
                raise Stopped


def _direction(
    critics: Critics,
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
    tally = cache(partial(_count, critics, images, labels, rule, projection))  # asked for twice
    obtain, checks = session.releases.obtain, plan.checks
    counts = None
    if checks is not None:
        counts = obtain(
            f"vote-checks/{step}",
            checks,
            lambda: checks.query(tally()),
            shape=(m, rule.projected),
        )
    histograms = obtain(
        f"binned-votes/{step}", plan.votes, tally, shape=(m, rule.projected, rule.bins)
    )
    if histograms is None or (checks is not None and counts is None):
        return None
    answers = rule.centres(plan.votes.winners(histograms))
    if checks is not None and counts is not None:
        answers[~checks.passed(counts)] = 0
    return torch.einsum("mp,mpd->md", torch.from_numpy(answers), projection).view_as(images)


def _count(
    critics: Critics, images: Tensor, labels: Tensor, rule: BinRule, projection: Tensor
) -> Integers:
    """The tally of each image (m, projected, bins)."""

    def count(asked: Iterator[tuple[range, Tensor]]) -> Tensor:
        tally = rule.empty_tally(len(images))
        for _, gradients in asked:
            rule.count(gradients, projection, into=tally)
        return tally

    return torch.stack(critics.ask_all(images, labels, count)).sum(0).numpy()
