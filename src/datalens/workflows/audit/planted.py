"""Attack the whole pipeline: was one planted record in the data of this run, or was it blanked?

The adversary knows everything but that record and the noise: all other records, the run's secret,
and every release. It replays the method, with the record and without, on the very releases it saw,
and so knows what each query gave in either world. Against Gaussian noise, discrete or not, no test
is better than the likelihood ratio of the two.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from datalens.data import Records
from datalens.mechanism.events import GaussianRelease
from datalens.mechanism.noise import ExactNoise, Integers, Shape
from datalens.privacy.audit import Transcript, share_moved
from datalens.privacy.ledger import Ledger
from datalens.privacy.releases import Door, Mechanism
from datalens.synthesizers import METHODS, ClassGaussian, Synthesizer
from datalens.synthesizers.plan import Plan
from datalens.synthesizers.session import Member, Session, new_secret
from datalens.workflows.audit.trials import World, scratch

RECORDS, SHAPE, CLASSES = 8, (1, 8, 8), 2
BUDGET = {"epsilon": 2.042, "delta": 0.05}
"""Certified, a whole run of mu = 1."""
SETTINGS: dict[str, dict[str, Any]] = {
    "class-gaussian": {},
    # Few and eager teachers, whose ballots are all signs: the record turns its teacher's round.
    "datalens": {
        "n_teachers": 4,
        "steps": 2,
        "batch_size": 4,
        "keep_all": True,
        "clip": 1e-6,
        "weigh_room": False,
        "warm_start": False,
        "teacher_warm_up": 10,
        "teacher_learning_rate": 0.1,
        "student_updates": 1,
        "latent": 4,
    },
}


class Worlds(NamedTuple):
    blanked: Records
    present: Records


def worlds(method: str) -> Worlds:
    """All records grey, but for the first of them, which is white and the only one of its class.

    Blanked means, for sums, that a record adds nothing to them: there it is left out, n being
    public. A teacher has to be shown something in its place: a black image. (Any image would do,
    since the price of votes is the same if a record is replaced.)
    """
    labels = np.array([1] + [0] * (RECORDS - 1))
    images = np.full((RECORDS, *SHAPE), 128, dtype=np.uint8)
    images[0] = 255
    present = Records.from_arrays(images, labels, n_classes=CLASSES)
    if method == "class-gaussian":
        return Worlds(present.only(np.arange(1, RECORDS)), present)
    images = images.copy()
    images[0] = 0
    return Worlds(Records.from_arrays(images, labels, n_classes=CLASSES), present)


class ClassGaussianOfAnyRecords(ClassGaussian):
    """The same method, which does not insist on having all records: one may be blanked."""

    def _own(self, records: Records, plan: Plan, session: Member) -> Records:
        return records


class Exchange(NamedTuple):
    """One release, what it hides, and how."""

    mechanism: Mechanism
    value: Integers
    release: Integers

    @property
    def sigma(self) -> float:
        event = self.mechanism.event
        if not isinstance(event, GaussianRelease):
            raise TypeError(f"the likelihood of {event.what} is not known here")
        return event.sigma


@dataclass(frozen=True, kw_only=True)
class Tap:
    """A door at which the adversary listens. It has a real door behind it, or old releases."""

    behind: Door | None = None
    replayed: Sequence[Exchange] = ()
    heard: list[Exchange] = field(default_factory=list)

    def obtain(
        self,
        key: str,
        mechanism: Mechanism,
        query: Callable[[], Integers],
        *,
        shape: Shape | None = None,
    ) -> Integers | None:
        value = query()
        if self.behind is None:
            release = self.replayed[len(self.heard)].release
        else:
            found = self.behind.obtain(key, mechanism, lambda: value)
            if found is None:
                raise RuntimeError(f"the release {key} of a run that never crashed is lost")
            release = found
        self.heard.append(Exchange(mechanism, value, release))
        return release


@dataclass(frozen=True, kw_only=True)
class Tapped(Session):
    """A real run with an ear at its door."""

    heard: list[Exchange] = field(default_factory=list)

    @property
    def releases(self) -> Door:  # type: ignore[override]
        return Tap(behind=super().releases, heard=self.heard)


@dataclass(frozen=True, kw_only=True)
class Replayed(Member):
    """The adversary's own run: the same secret, and the releases of another run for its own."""

    tap: Tap

    @property
    def releases(self) -> Door:
        return self.tap


def attack(method: str, world: World, trials: int) -> Transcript:
    """Runs in one world; a run's score is the log-likelihood ratio of all its releases."""
    with scratch() as folder:
        runs = [_one_run(method, world, folder / str(trial)) for trial in range(trials)]
    scores, nothing = np.concatenate([run.blanked for run in runs]), np.empty(0)
    return Transcript(
        blanked=scores if world == "blanked" else nothing,
        present=scores if world == "present" else nothing,
        charges=runs[0].charges,
        moved=max(run.moved for run in runs),
    )


def _one_run(method: str, world: World, folder: Path) -> Transcript:
    """Fit for real in one world; then replay it in the other, as the adversary would."""
    both = worlds(method)
    here, there = (both.present, both.blanked) if world == "present" else both
    real = listen(method, here, folder)
    charges = real.ledger.charges(real.run)
    score = moved = 0.0
    for own, other, charge in zip(real.heard, replay(method, there, real), charges, strict=True):
        blanked, present = (
            (other.value, own.value) if world == "present" else (own.value, other.value)
        )
        score += _log_ratio(own, blanked, present)
        moved = max(moved, share_moved(blanked, present, charge))
    return Transcript(
        blanked=np.array([score]), present=np.empty(0), charges=tuple(charges), moved=moved
    )


def listen(method: str, records: Records, folder: Path) -> Tapped:
    """A real run, with exact noise and a ledger of its own."""
    (folder / "internal").mkdir(parents=True)
    session = Tapped(
        run="audit",
        secret=new_secret(None),
        noise=ExactNoise(),
        ledger=Ledger(folder / "audit.sqlite"),
        folder=folder / "internal",
        fresh=True,
    )
    _synthesizer(method).fit(records, session=session)
    return session


def replay(method: str, records: Records, real: Tapped) -> list[Exchange]:
    """What each query of a real run would have given on these records."""
    tap = Tap(replayed=real.heard)
    member = Replayed(secret=real.secret, folder=real.folder, tap=tap)
    _synthesizer(method).fit(records, session=member)
    return tap.heard


def _log_ratio(seen: Exchange, blanked: Integers, present: Integers) -> float:
    """How much likelier the release is if the record was there: normalisers cancel."""
    away = (seen.release - blanked).astype(np.float64)
    near = (seen.release - present).astype(np.float64)
    return float((away**2 - near**2).sum() / (2 * seen.sigma**2))


def _synthesizer(method: str) -> Synthesizer:
    kind = ClassGaussianOfAnyRecords if method == "class-gaussian" else METHODS[method]
    return kind(**BUDGET, **SETTINGS[method])
