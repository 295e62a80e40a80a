"""DataLens: Algorithm 1 of the paper."""

from functools import partial
from hashlib import sha256
from typing import Any, ClassVar

import numpy as np
import torch
from numpy.typing import NDArray

from datalens.data import Positions, PublicFacts, Records
from datalens.ensemble import Ranks, Teachers, stream
from datalens.errors import DataLensError
from datalens.student import Generator, Student
from datalens.synthesizers.checkpoint import Checkpoints
from datalens.synthesizers.diagnosis import diagnosed
from datalens.synthesizers.moments import class_counts
from datalens.synthesizers.plan import DataLensPlan, Plan
from datalens.synthesizers.protocol import Synthesizer
from datalens.synthesizers.session import Member, Stopped
from datalens.synthesizers.settings import DataLensSettings, Settings
from datalens.synthesizers.voting import count_votes, hire, shards_of, teachers_of

STOP_EVERY = 10
"""Updates of the student's warm start, which are short, after which ranks ask whether to stop."""


class DataLens(Synthesizer):
    """Teachers vote on how each synthetic image should change; the student follows the count.

    Guarantee: a record reaches one teacher (data/shards.py), so it changes one ballot on each
    image, and every image's noisy tally is bought through the ledger (mechanism/topagg.py).
    The student sees the releases and nothing else of the records.
    """

    method: ClassVar[str] = "datalens"
    settings_type: ClassVar[type[Settings]] = DataLensSettings
    settings: DataLensSettings

    def resolve(self, public: PublicFacts) -> DataLensPlan:
        return DataLensPlan.resolve(self.settings, public)

    def _share(self, plan: DataLensPlan, ranks: Ranks, secret: bytes) -> Positions:  # type: ignore[override]
        return shards_of(plan, secret).held_by(teachers_of(plan, ranks))

    def _train(self, records: Records, plan: DataLensPlan, session: Member) -> None:  # type: ignore[override]
        session = diagnosed(session, plan)
        chosen, topagg, secret, ranks = plan.settings, plan.topagg, session.secret, session.ranks
        counts = class_counts(records, session.releases, plan.counts)
        self._prior = counts / counts.sum()
        self._student = student = new_student(plan, secret)
        teachers = hire(records, plan, secret, ranks)
        checkpoints = Checkpoints(
            session.checkpoint, student=student, teachers=teachers, ranks=ranks
        )

        first = checkpoints.resume()
        if first == 0:
            self._warm_start(records, counts, plan, session)
            self._warm_up(teachers, plan, session)
        for step in range(first, plan.steps):
            labels = self._step_labels(plan.batch_size, stream(secret, "labels", step))
            images = student.propose(labels, step=step)
            ranks.agree("the proposed images", _digest(images), remedy="use machines of one kind")
            teachers.train(images, labels, step=step, updates=chosen.teacher_updates)
            tally = partial(
                count_votes,
                teachers,
                images,
                labels,
                topagg=topagg,
                weigh_room=chosen.weigh_room,
                secret=secret,
                step=step,
            )
            release = session.releases.obtain(
                f"votes/{step}",
                topagg,
                tally,
                shape=(len(labels), images[0].numel()),
            )
            if release is not None:  # one that a crash has lost is passed over
                direction = torch.from_numpy(topagg.direction(release)).view_as(images)
                student.follow(
                    direction, step_size=chosen.step_size, updates=chosen.student_updates
                )
            done = step + 1
            session.observer.progress("votes", done, plan.steps, spent=plan.spent_after(done))
            checkpoints.after(step, stopping=session.observer.stopping())
        checkpoints.clear()

    def _warm_start(
        self, records: Records, counts: NDArray[np.float64], plan: DataLensPlan, session: Member
    ) -> None:
        """The student learns a class-gaussian model that is bought with a part of the budget."""
        if plan.moments is None:
            return
        model = plan.moments.buy(records, session.releases, counts)
        if model is not None:
            tell = partial(_tell, session, "warm-start", ask_every=STOP_EVERY)
            self._student.warm_start(model, updates=plan.settings.warm_start_updates, progress=tell)

    def _warm_up(self, teachers: Teachers, plan: DataLensPlan, session: Member) -> None:
        """Untrained teachers vote badly: let them see the student before they are asked. Free."""
        for update in range(plan.settings.teacher_warm_up):
            before = -1 - update  # steps before the first have numbers of their own
            chance = stream(session.secret, "labels", before)
            labels = self._step_labels(plan.batch_size, chance)
            images = self._student.propose(labels, step=before)
            teachers.train(images, labels, step=before)
            _tell(session, "teachers", update + 1, plan.settings.teacher_warm_up)

    def _step_labels(self, count: int, chance: torch.Generator) -> torch.Tensor:
        prior = torch.from_numpy(self._prior)
        return torch.multinomial(prior, count, replacement=True, generator=chance)

    def _draw(self, labels: NDArray[np.int64], seed: bytes) -> NDArray[np.float32]:
        images = self._student.sample(torch.from_numpy(labels), stream(seed, "sample"))
        return images.numpy()

    def _arrays(self) -> dict[str, NDArray[Any]]:
        return {name: weight.numpy() for name, weight in self._student.average.items()}

    def _take_arrays(self, arrays: dict[str, NDArray[Any]], plan: Plan) -> None:
        student = new_student(plan, b"loaded")  # type: ignore[arg-type]
        if {n: a.shape for n, a in arrays.items()} != {
            n: tuple(w.shape) for n, w in student.average.items()
        }:
            raise DataLensError("its weights do not fit the run's configuration.")
        student.average = {name: torch.from_numpy(array) for name, array in arrays.items()}
        self._student = student


def _digest(images: torch.Tensor) -> str:
    return sha256(images.numpy().tobytes()).hexdigest()[:16]


def _tell(session: Member, stage: str, done: int, total: int, *, ask_every: int = 1) -> None:
    """Before the first vote there is nothing to checkpoint: what was bought is stored already."""
    session.observer.progress(stage, done, total)
    if (done % ask_every == 0 or done == total) and session.stopping():
        raise Stopped


def new_student(plan: DataLensPlan, secret: bytes) -> Student:
    """A student that has seen nothing: public from birth."""
    chosen = plan.settings
    generator = Generator(
        plan.public.shape,
        plan.public.n_classes,
        chosen.latent,
        stream=stream(secret, "student", "initial", 0),
    )
    return Student(
        generator,
        secret=secret,
        learning_rate=chosen.student_learning_rate,
        moving_average=chosen.moving_average,
    )
