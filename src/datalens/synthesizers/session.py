"""What a fit needs besides the records: a ledger, noise, randomness, a place to keep things."""

import hashlib
import json
import re
import secrets
import shutil
import tempfile
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import NamedTuple, Protocol

import numpy as np

from datalens.data import Records
from datalens.data.documents import read_json, read_whole
from datalens.ensemble import ALONE, Ranks
from datalens.errors import DataLensError, DataLensWarning, NotAdmitted
from datalens.mechanism.noise import (
    ExactNoise,
    FloatNoise,
    FloatSecureNoise,
    Integers,
    Noise,
    NoiseKind,
    SeededFloatNoise,
    SeededNoise,
)
from datalens.privacy.calibration import refuse_large_delta
from datalens.privacy.known_records import Known, KnownRecords, Marks, marks_of
from datalens.privacy.ledger import Ledger, ledger_path
from datalens.privacy.releases import Door, Received, Releases
from datalens.privacy.signing import public_key
from datalens.synthesizers.cautions import cautions
from datalens.synthesizers.frozen import FrozenPlan

SEEDED = ".NOT-PRIVATE"
"""Ends the names of ledgers of runs that protect nobody, which are kept apart."""
OTHER_LEDGER = (
    "some of these records were used with the ledger {others} too, where what this run spends from"
    " the ledger {own} is not added up; name one ledger with --ledger (ledger=) for all runs on"
    " them."
)
MADE_ANEW = (
    "the ledger {own} is new, although runs were charged to a ledger of that name before. If it was"
    " deleted, what they spent is no longer counted: put it back."
)
OTHER_DATA = (
    "no run is known that charged the ledger {own} for these records. If they grew from those that"
    " it was charged for, it is the right one; if they are of other people, name another ledger"
    " with --ledger (ledger=)."
)


class Stopped(Exception):
    """The run was asked to stop, and has stopped at a checkpoint: it can be resumed."""


class Observer(Protocol):
    """Watches a fit from outside. It sees only what is public."""

    def progress(self, stage: str, done: int, total: int, *, spent: float | None = None) -> None:
        """`done` of `total` in `stage`; `spent` is the epsilon so far, when it has changed."""

    def stopping(self) -> bool:
        """Whether the fit should stop at the next checkpoint."""


class Silent:
    """An observer that says nothing and never stops."""

    def progress(self, stage: str, done: int, total: int, *, spent: float | None = None) -> None:
        return None

    def stopping(self) -> bool:
        return False


@dataclass(frozen=True, kw_only=True)
class Member:
    """One rank's part in a run, as ranks other than 0 have it: no ledger and no noise.

    Guarantee: such a rank can send the sum over its own records to rank 0, and get releases.
    """

    secret: bytes
    folder: Path
    """Private: checkpoints; on rank 0 also the secret and the stored releases."""
    observer: Observer = field(default_factory=Silent)
    ranks: Ranks = ALONE

    @property
    def releases(self) -> Door:
        return Received(ranks=self.ranks)

    @property
    def checkpoint(self) -> Path:
        return self.folder / "checkpoint"

    def recognise(self, records: Records) -> None:
        """Have rank 0 see that a run goes on with the records that it was started on."""
        self.ranks.add("the seal", records.seal(self.secret), self._recognise)

    def _recognise(self, seal: Integers) -> bytes:
        return b""

    def reserve(self, plan: FrozenPlan, records: Records) -> None:
        """Wait until rank 0 has set the plan's cost aside, and see that it is the same plan."""
        self._agree(plan)
        self._marks(records, b"")
        self.ranks.tell("reserved", b"")

    def _marks(self, records: Records, key: bytes) -> Marks | None:
        """Rank 0's key makes the marks of all ranks' records, which rank 0 gets.

        None on other ranks, and where rank 0 has no key, since its run protects nobody.
        """
        key = self.ranks.tell("the key of marks", key)
        if not key:
            return None
        found: list[Marks] = []

        def keep(total: Integers) -> bytes:
            found.append(total.view(np.uint64))
            return b""

        marks = np.zeros(len(records), dtype=np.int64)
        held = slice(None) if records.positions is None else records.positions
        marks[held] = marks_of(records.images, key).view(np.int64)
        self.ranks.add("marks of records", marks, keep)
        return found[0] if found else None

    def _agree(self, plan: FrozenPlan) -> None:
        """One plan and one secret: with two, a record could reach two teachers."""
        self.ranks.agree("the configuration", plan.sha256[:16])
        self.ranks.agree("the secret's checksum", hashlib.sha256(self.secret).hexdigest()[:16])

    def lost(self) -> DataLensError:
        """What to raise where the run cannot go on without a release that a crash has lost."""
        return DataLensError("A release that this run rests on is lost; rank 0 says what to do.")

    def stopping(self) -> bool:
        """Whether to stop: rank 0's observer decides for all."""
        return self.ranks.tell("stopping", b"yes" if self.observer.stopping() else b"") == b"yes"


@dataclass(frozen=True, kw_only=True)
class Session(Member):
    """One run on one data set; where it has several ranks, rank 0's part in it.

    Guarantee: `secret` comes from the operating system and never leaves `folder` and the links
    between ranks, unless a seed was given; then the noise comes from the seed too and the run is
    NOT PRIVATE.
    """

    run: str
    noise: Noise
    ledger: Ledger
    known: KnownRecords | None = None
    """Which ledgers were charged for which records; None for a run that protects nobody."""
    fresh: bool = False
    """Started just now: nothing of it is in the ledger yet."""
    named: bool = False
    """Whether the user named the ledger; else it has the data's name."""
    allow_large_delta: bool = False
    """Whether the user accepts a delta above 1/n."""
    files: bytes | None = None
    """Fingerprint of the files that the records come from, where there are any."""
    inside: Callable[[str, Integers], None] | None = None
    """A diagnostic that is shown private sums; see Releases."""

    @property
    def releases(self) -> Releases:
        return Releases(
            ledger=self.ledger,
            run=self.run,
            noise=self.noise,
            folder=self.folder / "releases",
            ranks=self.ranks,
            inside=self.inside,
        )

    @property
    def float_noise(self) -> FloatNoise:
        """For steps on floating-point sums: of the same origin as `noise`."""
        seeded = self.noise.kind == "seeded"
        return SeededFloatNoise(self.secret) if seeded else FloatSecureNoise()

    def kind(self, plan: FrozenPlan) -> NoiseKind:
        """What the run's certificate says of its noise."""
        seeded = self.noise.kind == "seeded" and plan.noise != "none"
        return "seeded" if seeded else plan.noise

    def lost(self) -> DataLensError:
        name = self.ledger.path.stem
        return DataLensError(
            "The process was killed between the charge for a measurement and its storage, and this"
            f" run rests on it. The charge stays spent on the ledger {name}. Free the rest with"
            f" datalens ledger {name} --end {self.run}, and start a new run."
        )

    def _recognise(self, seal: Integers) -> bytes:
        """Other records at the same positions would reach teachers that know those before."""
        file, found = self.folder / "records", seal.tobytes().hex().encode()
        if not file.exists() and not self.ledger.rows(self.run):
            file.write_bytes(found)
        elif read_whole(file, at_most=len(found)) != found:
            raise DataLensError(
                "This run was started on other records than these, or they lay in another order;"
                " give it those, or start a new run."
            )
        return b""

    def reserve(self, plan: FrozenPlan, records: Records) -> None:
        """Set the plan's whole cost aside; for a run that goes on, see that it is the same plan.

        Refuses a delta above 1/n, unless it was allowed, and to charge a ledger for records that
        another one was charged for, unless it was named: their costs would not be added up. Runs
        that protect nobody may do both. What is to be said against a run is raised as a warning
        in the caller of `fit`, before its cost is set aside.
        """
        self._agree(plan)
        public_key(self.ledger.path.parent)  # what could not be signed is not begun
        new = not self.ledger.rows(self.run)
        if new:
            if self.known is not None and not self.allow_large_delta:
                refuse_large_delta(plan.settings.delta, plan.public.n_records)
            for caution in cautions(plan):
                warnings.warn(str(caution), DataLensWarning, stacklevel=3)
        marks = self._marks(records, self.known.key() if self.known is not None else b"")
        if self.known is None or marks is None:
            self._reserve(plan)
        else:
            with self.known.charging(self.ledger.path.stem, marks, self.files) as known:
                for words in self._against(known) if new else []:
                    warnings.warn(words, DataLensWarning, stacklevel=3)
                self._reserve(plan)
        self.ranks.tell("reserved", b"")

    def _against(self, known: Known) -> list[str]:
        """What is to be said against charging this ledger for these records."""
        own, others = self.ledger.path.stem, ", ".join(known.others)
        if others and not self.named:
            raise NotAdmitted(
                f"Some of these records were used with the ledger {others}, and what this run"
                f" spends would be charged to the ledger {own} and not added up there. Choose with"
                f" --ledger (ledger=): {others} adds the costs up, {own} keeps them apart."
            )
        found = [OTHER_LEDGER] if others else []
        runs = self.ledger.started()
        if known.used and not runs:
            found.append(MADE_ANEW)
        elif runs and not known.familiar:
            found.append(OTHER_DATA)
        return [words.format(own=own, others=others) for words in found]

    def _reserve(self, plan: FrozenPlan) -> None:
        facts = {
            "method": plan.method,
            "noise": self.kind(plan),
            "config": plan.sha256,
            "data": plan.data,
            "budget": plan.settings.budget,
        }
        rows = self.ledger.rows(self.run)
        if not rows and not self.fresh and self._has_releases():
            raise DataLensError(
                f"{self.ledger.path} knows nothing of this run; set DATALENS_HOME to where its"
                " ledger is."
            )
        if not rows:
            self.ledger.reserve(self.run, plan.charges, facts=facts)
        elif any(rows[0].body.get(name) != value for name, value in facts.items()):
            raise DataLensError(
                "This run was reserved with another configuration, or on other data."
            )

    def _has_releases(self) -> bool:
        """Whether anything was ever drawn; if not, a run that never reserved may do so now."""
        return any(self.releases.folder.glob("*"))

    @classmethod
    def start(
        cls,
        *,
        ledger: str,
        folder: Path,
        seed: int | None = None,
        private: bool = True,
        observer: Observer | None = None,
        secret: bytes | None = None,
        ranks: Ranks = ALONE,
        named: bool = False,
        allow_large_delta: bool = False,
        files: bytes | None = None,
    ) -> "Session":
        """A new run. With a seed, or of a method that is not `private`, it is NOT PRIVATE, and
        kept out of the data's own ledger.

        `secret` is that of `new_secret(seed)`, where it was needed before. `named`,
        `allow_large_delta` and `files` are as the attributes of a session.
        """
        run = secrets.token_hex(6)
        secret = secret or new_secret(seed)
        private = private and seed is None
        if private and ledger.upper().endswith(SEEDED):
            raise DataLensError(f"{ledger} is the name of a ledger of seeded runs; name another.")
        if not private:
            ledger = f"{ledger}{SEEDED}"
        path = ledger_path(ledger)  # refuse a bad name before anything is made
        try:
            folder.mkdir(parents=True)
            folder.chmod(0o700)
        except OSError as error:
            raise DataLensError(f"{folder.parent} cannot be written ({error.strerror}).") from None
        try:
            Ledger(path)
        except DataLensError:
            shutil.rmtree(folder)
            with suppress(OSError):
                folder.parent.rmdir()
            raise
        facts = {
            "run": run,
            "secret": secret.hex(),
            "ledger": ledger,
            "seeded": seed is not None,
            "named": named,
            "allow_large_delta": allow_large_delta,
            "files": (files or b"").hex(),
        }
        (folder / "session.json").write_text(json.dumps(facts))
        session = cls.resume(folder=folder, observer=observer, ranks=ranks)
        return replace(session, fresh=True)

    @classmethod
    def resume(
        cls, *, folder: Path, observer: Observer | None = None, ranks: Ranks = ALONE
    ) -> "Session":
        """The run whose private folder this is."""
        facts = _Facts.read(folder)
        return cls(
            run=facts.run,
            secret=facts.secret,
            noise=SeededNoise(facts.secret) if facts.seeded else ExactNoise(),
            ledger=Ledger(ledger_path(facts.ledger), make=False, head=folder / "ledger-head"),
            known=None if facts.ledger.upper().endswith(SEEDED) else KnownRecords(),
            named=facts.named,
            allow_large_delta=facts.allow_large_delta,
            files=facts.files or None,
            folder=folder,
            observer=observer or Silent(),
            ranks=ranks,
        )


class _Facts(NamedTuple):
    """internal/session.json."""

    run: str
    secret: bytes
    ledger: str
    seeded: bool
    named: bool
    allow_large_delta: bool
    files: bytes

    @classmethod
    def read(cls, folder: Path) -> "_Facts":
        try:
            told = read_json(folder / "session.json")
            facts = cls(
                run=told["run"],
                secret=bytes.fromhex(told["secret"]),
                ledger=told["ledger"],
                seeded=told["seeded"],
                named=told["named"],
                allow_large_delta=told["allow_large_delta"],
                files=bytes.fromhex(told["files"]),
            )
            sound = len(facts.secret) == 32 and re.fullmatch("[0-9a-f]{12}", facts.run)
            switches = (facts.seeded, facts.named, facts.allow_large_delta)
            if not sound or not all(isinstance(switch, bool) for switch in switches):
                raise ValueError
            ledger_path(facts.ledger)
        except (ValueError, KeyError, TypeError):
            raise DataLensError(
                f"{folder.parent} cannot be resumed: internal/session.json is missing or damaged."
            ) from None
        return facts


def ledger_of(folder: Path) -> Path:
    """The ledger that the run with this private folder was started on."""
    return ledger_path(_Facts.read(folder).ledger)


def run_of(folder: Path) -> str:
    """The name that the run with this private folder has in its ledger."""
    return _Facts.read(folder).run


def ledger_of_run(run: Path) -> Path | None:
    """The ledger of a run whose private half is here, if it is here too."""
    folder = (run if run.is_dir() else run.parent) / "internal"
    if not (folder / "session.json").is_file():
        return None
    path = ledger_of(folder)
    if not path.is_file():
        return None
    with suppress(DataLensError):  # one that was altered is checked, and says so
        if not Ledger(path, make=False).rows(run_of(folder)):
            return None
    return path


def new_secret(seed: int | None) -> bytes:
    """Where a run's randomness begins: the operating system, or a seed."""
    if seed is None:
        return secrets.token_bytes(32)
    return hashlib.sha256(f"datalens seed {seed}".encode()).digest()


@contextmanager
def temporary_session(
    *,
    ledger: str,
    named: bool,
    seed: int | None,
    private: bool = True,
    allow_large_delta: bool = False,
) -> Iterator[Session]:
    """A run without a run folder: it cannot be resumed, so whatever ends it settles it."""
    with tempfile.TemporaryDirectory(prefix="datalens-") as folder:
        session = Session.start(
            ledger=ledger,
            folder=Path(folder) / "internal",
            seed=seed,
            private=private,
            named=named,
            allow_large_delta=allow_large_delta,
        )
        try:
            yield session
        finally:
            if session.ledger.rows(session.run):
                session.ledger.settle(session.run, {})
