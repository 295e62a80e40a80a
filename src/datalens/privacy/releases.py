"""Spend first, release second: the one door through which anything leaves the private side."""

import io
import os
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import numpy as np

from datalens.data.documents import read_whole
from datalens.ensemble.ranks import ALONE, Ranks
from datalens.errors import DataLensError
from datalens.mechanism.events import Event
from datalens.mechanism.noise import Integers, Noise, Shape, check_sum
from datalens.privacy.ledger import Ledger


class Mechanism(Protocol):
    """A query's noise together with its cost."""

    @property
    def event(self) -> Event: ...

    def releases_in(self, value: Integers, /) -> int:
        """How many times `event` is to be paid for the release of this value."""

    def draw(self, shape: Shape, /, *, noise: Noise, key: str) -> Integers:
        """The noise of a value of this shape, which is public: it depends on no record."""


class Door(Protocol):
    """What a method has in hand on any rank."""

    def obtain(
        self,
        key: str,
        mechanism: Mechanism,
        query: Callable[[], Integers],
        *,
        shape: Shape | None = None,
    ) -> Integers | None:
        """The release named `key`: recalled if it was drawn before, else bought and drawn.

        `query` touches the records of this rank, and is called only if there is something left
        to draw. None is a release that a crash has lost. A stored one that is not of `shape`,
        where that is given, has been damaged.
        """


LARGEST_FILE = 2**31
"""Bytes of a stored release: one of 10,000 images of 64x64 in colour has half of that."""

STATE = ".safetensors"
"""What a state is stored as; a sum is an array."""

NEW, LOST = b"new", b"lost"
"""What rank 0 says of a release that it cannot simply hand out."""


@dataclass(frozen=True, kw_only=True)
class Releases:
    """Buys releases from the ledger and keeps each of them, so that none is drawn twice.

    Guarantee: noise, which depends on no record, is drawn into memory; then the charge is made
    durable; only then are value and noise added up, and the sum is stored durably before it is
    handed out. So nothing of a value leaves `obtain`, or reaches the disk, before it is charged,
    and what a crash can cost is the moment between charge and storage: the charge stays, the
    release is lost, `obtain` returns None and never forms the sum again. Noise of a charge that
    was refused, or that a crash forestalled, hides nothing and is forgotten with the call. Room
    for the release is taken on disk before the charge, so that a full disk or a read-only folder
    costs nothing. This holds for any number of ranks: their queries are added up here, on rank 0,
    and noise is drawn here.
    """

    ledger: Ledger
    run: str
    noise: Noise
    folder: Path
    ranks: Ranks = ALONE
    inside: Callable[[str, Integers], None] | None = None
    """Is shown each sum, which is private, once its release is stored. Nothing comes back."""

    def obtain(
        self,
        key: str,
        mechanism: Mechanism,
        query: Callable[[], Integers],
        *,
        shape: Shape | None = None,
    ) -> Integers | None:
        """The release named `key`: recalled if it was drawn before, else bought and drawn."""

        def buy(total: Integers) -> bytes:
            blank = _to_bytes(np.zeros(total.shape, dtype=np.int64))
            header = blank[: len(blank) - total.nbytes]
            with _room(self._stored(key), len(blank)) as store:
                noise = mechanism.draw(total.shape, noise=self.noise, key=key)
                check_sum(total, noise)
                count = mechanism.releases_in(total)
                self.ledger.spend(self.run, key, mechanism.event, count=count)
                release = np.ascontiguousarray(total + noise)
                store(header, release.data)  # no copy: a crash from the charge to here loses it
            if self.inside is not None:
                self.inside(key, total)
            return _to_bytes(release)

        known = self.ranks.tell(f"recall/{key}", self._recall(key))
        if known == LOST:
            return None
        if known == NEW:
            known = self.ranks.add(key, query(), buy)
        return _from_bytes(known, f"The stored release {self._stored(key)}", shape)

    def take_steps(
        self, key: str, event: Event, count: int, work: Callable[[], bytes], *, size: int
    ) -> bytes | None:
        """The public state after some noisy steps: recalled if it is stored, else paid and made.

        `work` takes the steps, `count` releases in all, each with noise of its own, and gives the
        state that follows, of at most `size` bytes. All are charged before the first. None is a
        state that a crash has lost, or that a later one has made superfluous: see `forget`.
        """
        if self.ranks.size > 1:
            raise DataLensError("Noisy steps are taken by one rank; run without others.")
        known = self._recall(key, STATE)
        if known == LOST:
            return None
        if known != NEW:
            return known
        with _room(self._stored(key, STATE), size) as store:
            self.ledger.spend(self.run, key, event, count=count)
            state = work()
            if len(state) > size:
                raise ValueError(f"a state of {len(state)} bytes, where {size} were announced")
            store(state)
        return state

    def forget(self, key: str) -> None:
        """Delete a state that a later one follows from: it can never be made again."""
        self._stored(key, STATE).unlink(missing_ok=True)

    def _stored(self, key: str, suffix: str = ".npy") -> Path:
        return self.folder / f"{key.replace('/', '-')}{suffix}"

    def _recall(self, key: str, suffix: str = ".npy") -> bytes:
        stored = self._stored(key, suffix)
        charged = self.ledger.has_spent(self.run, key)
        if stored.exists() and not charged:
            raise DataLensError(
                f"The release {key} was drawn, but {self.ledger.path} has no charge for it: this is"
                " not the ledger the run was started with."
            )
        if not stored.exists():
            return LOST if charged else NEW
        content = read_whole(stored, at_most=LARGEST_FILE)
        if suffix != STATE:
            _from_bytes(content, f"The stored release {stored}")
        return content


@dataclass(frozen=True, kw_only=True)
class Received:
    """The releases as every other rank gets them: from rank 0.

    Guarantee: it has no ledger and no noise, so nothing can be charged or drawn a second time.
    What it sends is its own records' share of a query, and what it gets is the release.
    """

    ranks: Ranks

    def obtain(
        self,
        key: str,
        mechanism: Mechanism,
        query: Callable[[], Integers],
        *,
        shape: Shape | None = None,
    ) -> Integers | None:
        """The release named `key`, recalled or drawn by rank 0."""
        known = self.ranks.tell(f"recall/{key}", b"")
        if known == LOST:
            return None
        if known == NEW:
            known = self.ranks.add(key, query(), lambda total: b"")
        return _from_bytes(known, f"The release {key}", shape)


def _to_bytes(release: Integers) -> bytes:
    """An NPY file: integers and their shape, nothing that could run."""
    file = io.BytesIO()
    np.save(file, release, allow_pickle=False)
    return file.getvalue()


def _from_bytes(content: bytes, name: str, shape: Shape | None = None) -> Integers:
    try:
        with warnings.catch_warnings(action="ignore"):  # of headers that old versions wrote
            release = np.load(io.BytesIO(content), allow_pickle=False)
    except Exception:  # of a damaged file, NumPy's readers say many things
        raise DataLensError(f"{name} cannot be read.") from None
    if not isinstance(release, np.ndarray) or release.dtype != np.int64:
        raise DataLensError(f"{name} does not hold 64-bit integers.")
    if shape is not None and release.shape != shape:
        raise DataLensError(f"{name} is of the shape {release.shape}, and should be of {shape}.")
    return release


@contextmanager
def _room(path: Path, size: int) -> Iterator[Callable[..., None]]:
    """Takes the room that a release of a known size will need, or refuses.

    What it hands out writes the release, given in parts, whole or not at all, and on disk when it
    returns.
    """
    part = path.with_suffix(".part")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        file = part.open("wb")
    except OSError as error:
        raise _no_room(path, error) from None

    def store(*parts: bytes | memoryview) -> None:
        file.seek(0)
        for each in parts:
            file.write(each)
        file.truncate()
        file.flush()
        os.fsync(file.fileno())
        part.replace(path)
        _sync(path.parent)

    try:
        try:
            file.write(bytes(size))  # zeros, not a hole: the blocks are ours from now on
            file.flush()
            os.fsync(file.fileno())
            _sync(path.parent)
        except OSError as error:
            raise _no_room(path, error) from None
        yield store
    finally:
        with suppress(OSError):  # a full disk refuses what is still buffered once more
            file.close()
        part.unlink(missing_ok=True)


def _sync(folder: Path) -> None:
    """So that names in it survive a crash too."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _no_room(path: Path, error: OSError) -> DataLensError:
    return DataLensError(
        f"The release {path} could not be stored ({error.strerror}), so it was neither charged nor"
        " drawn; make room or give the folder write access, and go on with --resume."
    )
