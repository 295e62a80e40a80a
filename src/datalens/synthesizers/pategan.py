"""PATE-GAN (Jordon, Yoon and van der Schaar, ICLR 2019), for images of given classes."""

from functools import partial
from hashlib import sha256
from typing import Any, ClassVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from datalens.data import Positions, PublicFacts, Records, Shards, deal
from datalens.ensemble import Ranks, Teachers, make_discriminator, own_teachers, stream
from datalens.mechanism.noise import Integers
from datalens.mechanism.real_votes import RealVotes
from datalens.student.adversary import Adversary, Lesson
from datalens.student.dense_critic import DenseCritic
from datalens.student.generator import Generator
from datalens.synthesizers.checkpoint import Checkpoints
from datalens.synthesizers.moments import class_counts
from datalens.synthesizers.pategan_plan import PateGanPlan, PateGanSettings
from datalens.synthesizers.protocol import Drawn, Synthesizer
from datalens.synthesizers.session import Member, Stopped
from datalens.synthesizers.settings import Settings


class PateGan(Synthesizer):
    """Teachers tell generated images from their records; how many take an image for real is
    released with noise; a student discriminator learns that, and the generator from the student.

    Guarantee: a record reaches one teacher (data/shards.py) for the whole run, so it changes one
    vote on each image, and every image's noisy count is bought through the ledger
    (mechanism/real_votes.py). Student and generator see generated images and releases, and
    nothing else of the records.
    """

    method: ClassVar[str] = "pategan"
    settings_type: ClassVar[type[Settings]] = PateGanSettings
    about: ClassVar[str] = "a GAN whose discriminator learns from teachers' noisy real/fake counts"
    source: ClassVar[str] = "Jordon, Yoon and van der Schaar, ICLR 2019"
    accounting: ClassVar[str] = "Renyi, exact discrete Gaussian (or Laplace) noise"
    settings: PateGanSettings

    _prior: NDArray[np.float64]
    _student: Adversary

    def resolve(self, public: PublicFacts) -> PateGanPlan:
        return PateGanPlan.resolve(self.settings, public)

    def _share(self, plan: PateGanPlan, ranks: Ranks, secret: bytes) -> Positions:  # type: ignore[override]
        return _shards(plan, secret).held_by(_teachers_of(plan, ranks))

    def _train(self, records: Records, plan: PateGanPlan, session: Member) -> None:  # type: ignore[override]
        secret, ranks = session.secret, session.ranks
        counts = class_counts(records, session.releases, plan.counts)
        self._prior = counts / counts.sum()
        self._student = student = _new_student(plan, secret)
        teachers = _hire(records, plan, secret, ranks)
        checkpoints = Checkpoints(
            session.checkpoint, student=student, teachers=teachers, ranks=ranks
        )
        first = checkpoints.resume()
        if first == 0:
            self._warm_up(teachers, plan, session)
        for step in range(first, plan.steps):
            images, labels = self._proposed(plan, secret, step)
            digest = sha256(images.numpy().tobytes()).hexdigest()[:16]
            ranks.agree("the proposed images", digest, remedy="use machines of one kind")
            teachers.train(images, labels, step=step, updates=plan.settings.teacher_updates)
            release = session.releases.obtain(
                f"votes/{step}",
                plan.votes,
                partial(_count, plan.votes, teachers, images, labels),
                shape=(len(labels),),
            )
            if release is not None:  # one that a crash has lost is passed over
                verdicts = torch.from_numpy(_verdicts(release, plan))
                student.learn(images, labels, verdicts, step=step)
            done = step + 1
            session.observer.progress("votes", done, plan.steps, spent=plan.spent_after(done))
            checkpoints.after(step, stopping=session.observer.stopping())
        checkpoints.clear()

    def _warm_up(self, teachers: Teachers, plan: PateGanPlan, session: Member) -> None:
        """Before the first vote there is nothing to checkpoint."""
        for update in range(plan.settings.teacher_warm_up):
            before = -1 - update  # steps before the first have numbers of their own
            teachers.train(*self._proposed(plan, session.secret, before), step=before)
            session.observer.progress("teachers", update + 1, plan.settings.teacher_warm_up)
            if session.stopping():
                raise Stopped

    def _proposed(self, plan: PateGanPlan, secret: bytes, step: int) -> tuple[Tensor, Tensor]:
        """Generated images and their labels, for the teachers to vote on."""
        labels = torch.multinomial(
            torch.from_numpy(self._prior),
            plan.settings.batch_size,
            replacement=True,
            generator=stream(secret, "labels", step),
        )
        return self._student.propose(labels, step=step).images, labels

    def _draw(self, labels: NDArray[np.int64], seed: bytes, *, exact: bool) -> Drawn:
        images = self._student.sample(torch.from_numpy(labels), stream(seed, "sample"))
        return Drawn(images.numpy(), labels)

    def _arrays(self) -> dict[str, NDArray[Any]]:
        return {name: weight.numpy() for name, weight in self._student.average.items()}

    def _take_arrays(self, arrays: dict[str, NDArray[Any]], plan: PateGanPlan) -> None:  # type: ignore[override]
        self._student = _new_student(plan, b"loaded")
        self._student.take_average(arrays)


def _count(votes: RealVotes, teachers: Teachers, images: Tensor, labels: Tensor) -> Integers:
    """How many of this rank's teachers take each image for real: the last private thing."""
    return votes.count(teachers.logits(images, labels))


def _verdicts(release: Integers, plan: PateGanPlan) -> NDArray[np.float32]:
    """How real each image is held to be, from 0 to 1: public, computed from the release alone."""
    if plan.settings.verdict == "majority":
        return plan.votes.majority(release).astype(np.float32)
    return plan.votes.share(release)


def _shards(plan: PateGanPlan, secret: bytes) -> Shards:
    """Dealt once and for all: a record reaches one teacher, or nobody if it is left over."""
    return deal(plan.public.n_records, plan.votes.n_teachers, seed=secret + b"shards")


def _teachers_of(plan: PateGanPlan, ranks: Ranks) -> range:
    """The teachers that this rank has."""
    return own_teachers(
        ranks.rank, ranks.size, n_teachers=plan.votes.n_teachers, block_size=plan.block_size
    )


def _hire(records: Records, plan: PateGanPlan, secret: bytes, ranks: Ranks) -> Teachers:
    """This rank's teachers, each with its shard."""
    chosen, public = plan.settings, plan.public
    own = _teachers_of(plan, ranks)
    rows = records.rows(_shards(plan, secret).positions[own.start : own.stop])
    return Teachers(
        discriminator=make_discriminator(chosen.discriminator, public.shape, public.n_classes),
        images=torch.from_numpy(records.images[rows]),
        labels=torch.from_numpy(records.labels[rows]),
        secret=secret,
        first_teacher=own.start,
        block_size=plan.block_size,
        learning_rate=chosen.teacher_learning_rate,
        real_batch=plan.real_batch,
        device=ranks.device,
    )


def _new_student(plan: PateGanPlan, secret: bytes) -> Adversary:
    chosen, shape, classes = plan.settings, plan.public.shape, plan.public.n_classes
    first = stream(secret, "student", "initial", 0)
    return Adversary(
        Generator(shape, classes, chosen.latent, stream=first),
        DenseCritic(
            shape,
            classes,
            stream=stream(secret, "student", "critic", 0),
            soft=chosen.soft,
        ),
        secret=secret,
        learning_rate=chosen.generator_learning_rate,
        critic_learning_rate=chosen.student_learning_rate,
        moving_average=chosen.moving_average,
        lesson=Lesson(
            steps=plan.steps,
            critic_updates=chosen.student_updates,
            generator_updates=chosen.generator_updates,
            batch_size=chosen.batch_size,
            remembered=chosen.remembered,
            diversity=chosen.diversity,
        ),
    )
