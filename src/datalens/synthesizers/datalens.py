"""DataLens: what may be bought at once, and then Algorithm 1 of the paper."""

from functools import partial
from hashlib import sha256
from typing import Any, ClassVar

import numpy as np
import torch
from numpy.typing import NDArray

from datalens.classifiers.labeller import Labeller
from datalens.data import Positions, PublicFacts, Records
from datalens.ensemble import Ranks, Teachers, stream
from datalens.errors import DataLensError
from datalens.student import (
    DcganGenerator,
    GaussianModel,
    Generator,
    Grain,
    MixtureModel,
    Student,
)
from datalens.synthesizers.checkpoint import Checkpoints
from datalens.synthesizers.diagnosis import diagnosed
from datalens.synthesizers.moments import block_side, class_counts
from datalens.synthesizers.plan import DataLensPlan, Plan, VotingPlan
from datalens.synthesizers.protocol import Drawn, Synthesizer
from datalens.synthesizers.session import Member, Stopped
from datalens.synthesizers.settings import DataLensSettings, Settings
from datalens.synthesizers.voting import count_votes, hire, shards_of, teachers_of

REMEDY = "use machines of one kind"
ATTEMPTS = 20
"""How often an image is drawn again that should show a given class and does not."""


class DataLens(Synthesizer):
    """A mixture of Gaussians and a labeller are bought; then, if asked to, teachers vote on how
    each synthetic image should change, and the student follows the count.

    Guarantee: the records are touched by the releases of the warm start, each with its own stated
    sensitivity, and by votes. A record reaches one teacher (data/shards.py), so it changes one
    ballot on each image, and every image's noisy tally is bought through the ledger
    (mechanism/topagg.py). The student sees the releases and nothing else of the records.
    """

    method: ClassVar[str] = "datalens"
    settings_type: ClassVar[type[Settings]] = DataLensSettings
    about: ClassVar[str] = "a bought mixture and labeller, and teachers' votes where asked for"
    source: ClassVar[str] = "Wang et al., CCS 2021 (preset paper); the rest is ours"
    settings: DataLensSettings

    _prior: NDArray[np.float64]
    _model: MixtureModel | None = None
    _labeller: Labeller | None = None
    _student: Student | None = None

    def resolve(self, public: PublicFacts) -> DataLensPlan:
        return DataLensPlan.resolve(self.settings, public)

    def _share(self, plan: Plan, ranks: Ranks, secret: bytes) -> Positions:
        if not isinstance(plan, VotingPlan):
            return super()._share(plan, ranks, secret)
        return shards_of(plan, secret).held_by(teachers_of(plan, ranks))

    def _train(self, records: Records, plan: DataLensPlan, session: Member) -> None:  # type: ignore[override]
        if isinstance(plan, VotingPlan):
            session = diagnosed(session, plan)
        self._model = self._labeller = self._student = None  # of an earlier fit
        counts = class_counts(records, session.releases, plan.counts)
        self._prior = counts / counts.sum()
        self._warm_start(records, counts, plan, session)
        if isinstance(plan, VotingPlan):
            self._vote(records, plan, session)

    def _warm_start(
        self, records: Records, counts: NDArray[np.float64], plan: DataLensPlan, session: Member
    ) -> None:
        """Buy the model and the labeller; one who resumes finds them bought."""
        start = plan.start
        if start is None:
            return

        def tell(done: int) -> None:
            spent = plan.spent_in_start(done) or None
            _tell(session, "warm-start", done, start.steps, spent=spent)

        def agree(model: GaussianModel) -> None:
            digest = _digest(*model.arrays().values())
            session.ranks.agree("the bought directions", digest, remedy=REMEDY)

        tell(0)
        self._model = start.buy_model(
            records,
            session.releases,
            counts,
            stream(session.secret, "clusters"),
            progress=tell,
            agree=agree,
        )
        if self._model is None and not isinstance(plan, VotingPlan):
            raise session.lost()
        self._labeller = start.buy_labeller(records, session.releases, progress=tell)

    def _vote(self, records: Records, plan: VotingPlan, session: Member) -> None:
        chosen, topagg, secret, ranks = plan.settings, plan.topagg, session.secret, session.ranks
        self._student = student = new_student(plan, secret, self._model)
        teachers = hire(records, plan, secret, ranks)
        checkpoints = Checkpoints(
            session.checkpoint, student=student, teachers=teachers, ranks=ranks
        )
        first = checkpoints.resume()
        if first == 0:
            self._warm_up(teachers, student, plan, session)
        for step in range(first, plan.steps):
            labels, images, by_class = self._propose(student, plan, secret, step)
            ranks.agree("the proposed images", _digest(images.numpy()), remedy=REMEDY)
            teachers.train(
                images, labels, step=step, updates=chosen.teacher_updates, by_class=by_class
            )
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
                shape=(len(labels), topagg.ballot.width(images[0].numel())),
            )
            if release is not None:  # one that a crash has lost is passed over
                direction = torch.from_numpy(topagg.direction(release)).view_as(images)
                student.follow(
                    direction,
                    step_size=chosen.step_size,
                    updates=chosen.student_updates,
                    cut=chosen.cut_targets,
                )
            done = step + 1
            session.observer.progress("votes", done, plan.steps, spent=plan.spent_after(done))
            checkpoints.after(step, stopping=session.observer.stopping())
        checkpoints.clear()

    def _warm_up(
        self, teachers: Teachers, student: Student, plan: VotingPlan, session: Member
    ) -> None:
        """Untrained teachers vote badly: they learn from the first step's images before. Free."""
        labels, images, by_class = self._propose(student, plan, session.secret, 0)
        for update in range(plan.settings.teacher_warm_up):
            before = -1 - update  # steps before the first have numbers of their own
            teachers.train(images, labels, step=before, by_class=by_class)
            _tell(session, "teachers", update + 1, plan.settings.teacher_warm_up)

    def _propose(
        self, student: Student, plan: VotingPlan, secret: bytes, step: int
    ) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor | None]:
        """Labels and images to vote on, and by class what teachers learn from instead of these."""
        labels = self._step_labels(plan, stream(secret, "labels", step))
        own = plan.settings.fakes == "own-labels"
        proposed = student.propose(labels, step=step, every_class=own)
        by_class = proposed.made.unflatten(0, (len(labels), -1)) if own else None
        return labels, proposed.images, by_class

    def _step_labels(self, plan: VotingPlan, chance: torch.Generator) -> torch.Tensor:
        prior, count = torch.from_numpy(self._prior), plan.batch_size
        if not plan.settings.balanced_labels:
            return torch.multinomial(prior, count, replacement=True, generator=chance)
        classes = torch.randperm(len(prior), generator=chance)
        ends = prior[classes].cumsum(0) * count
        places = torch.arange(count) + torch.rand((), dtype=ends.dtype, generator=chance)
        return classes[torch.searchsorted(ends, places).clamp(max=len(prior) - 1)]

    def _draw(self, labels: NDArray[np.int64], seed: bytes, *, exact: bool) -> Drawn:
        chance = stream(seed, "sample")
        images = self._show(torch.from_numpy(labels), chance)
        found = self._named(images, labels)
        for _ in range(ATTEMPTS if exact else 0):
            other = np.flatnonzero(found != labels)
            if not len(other):
                break
            images[other] = self._show(torch.from_numpy(labels[other]), chance)
            found[other] = self._named(images[other], labels[other])
        return Drawn(images.numpy(), labels if exact else found)

    def _grain(self) -> Grain | None:
        if self._model is None:
            return None
        block = block_side(self.shape)
        return Grain(deviation=self._model.grain, block=block, uneven=True)

    def _show(self, labels: torch.Tensor, chance: torch.Generator) -> torch.Tensor:
        if self._student is not None:
            return self._student.sample(labels, chance)
        if self._model is None:
            raise DataLensError("This run has neither votes nor a warm start.")
        places = self._model.places(labels, chance, spread=self._fitted().settings.spread)  # type: ignore[attr-defined]
        return self._model.images(places, labels)

    def _named(self, images: torch.Tensor, labels: NDArray[np.int64]) -> NDArray[np.int64]:
        """What the images show, in the labeller's eyes, if there is one."""
        if self._labeller is None:
            return labels.copy()
        pixels = (images * 255).round().to(torch.uint8).numpy()
        return self._labeller.label(pixels, labels, weight=self._fitted().settings.own_label)  # type: ignore[attr-defined]

    def _arrays(self) -> dict[str, NDArray[Any]]:
        found: dict[str, NDArray[Any]] = {}
        if self._student is not None:
            found |= {f"student.{n}": w.numpy() for n, w in self._student.average.items()}
        if self._model is not None:
            found |= {f"model.{name}": array for name, array in self._model.arrays().items()}
        if self._labeller is not None:
            found["labeller.weights"] = self._labeller.weights.astype(np.float32)
        return found

    def _take_arrays(self, arrays: dict[str, NDArray[Any]], plan: DataLensPlan) -> None:  # type: ignore[override]
        parts: dict[str, dict[str, NDArray[Any]]] = {"student": {}, "model": {}, "labeller": {}}
        for name, array in arrays.items():
            part, _, rest = name.partition(".")
            if part not in parts:
                raise DataLensError(f"it should not have {name!r}.")
            parts[part][rest] = array
        public, start, voting = plan.public, plan.start, isinstance(plan, VotingPlan)
        called_for = {
            "student": voting,
            "model": start is not None,
            "labeller": start is not None and start.labeller is not None,
        }
        for part, wanted in called_for.items():
            lost = part == "model" and voting  # by a crash, which votes can go on without
            if bool(parts[part]) is not wanted and not (wanted and lost):
                raise DataLensError(f"its configuration and its {part} do not go together.")
        if start is not None and parts["model"]:
            self._model = MixtureModel.from_arrays(
                parts["model"],
                shape=public.shape,
                n_classes=public.n_classes,
                clusters=start.decided["clusters"],
            )
        if parts["labeller"]:
            self._labeller = Labeller.from_arrays(
                parts["labeller"], channels=public.shape[0], n_classes=public.n_classes
            )
        if isinstance(plan, VotingPlan):
            self._student = new_student(plan, b"loaded", self._model)
            self._student.take_average(parts["student"])


def _digest(*arrays: NDArray[Any]) -> str:
    return sha256(b"".join(array.tobytes() for array in arrays)).hexdigest()[:16]


def _tell(
    session: Member, stage: str, done: int, total: int, *, spent: float | None = None
) -> None:
    """Before the first vote there is nothing to checkpoint: what was bought is stored already."""
    session.observer.progress(stage, done, total, spent=spent)
    if session.stopping():
        raise Stopped


GENERATORS: dict[str, type[Generator] | type[DcganGenerator]] = {
    "small": Generator,
    "dcgan": DcganGenerator,
}


def new_student(plan: VotingPlan, secret: bytes, model: MixtureModel | None) -> Student:
    """A student that knows the model, where there is one, and nothing else."""
    chosen = plan.settings
    generator = GENERATORS[chosen.generator](
        plan.public.shape,
        plan.public.n_classes,
        chosen.latent,
        stream=stream(secret, "student", "initial", 0),
    )
    student = Student(
        generator,
        secret=secret,
        learning_rate=chosen.student_learning_rate,
        beta1=chosen.student_beta1,
        moving_average=chosen.moving_average,
    )
    if model is not None:
        student.start_from(model, spread=chosen.spread)
    return student
