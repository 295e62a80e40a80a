"""Spend first, release second: the one door through which anything leaves the private side."""

import io
import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import numpy as np

from datalens.ensemble.ranks import ALONE, Ranks
from datalens.errors import DataLensError
from datalens.mechanism.events import GaussianRelease
from datalens.mechanism.noise import Integers, Noise
from datalens.privacy.ledger import Ledger


class Mechanism(Protocol):
    """A query's noise together with its cost."""

    @property
    def event(self) -> GaussianRelease: ...

    def release(self, value: Integers, /, *, noise: Noise, key: str) -> Integers: ...


class Door(Protocol):
    """What a method has in hand on any rank."""

    def obtain(
        self, key: str, mechanism: Mechanism, query: Callable[[], Integers], *, count: int = 1
    ) -> Integers | None:
        """The release named `key`: recalled if it was drawn before, else bought and drawn.

        `query` touches the records of this rank, and is called only if there is something left
        to draw. None is a release that a crash has lost.
        """


NEW, LOST = b"new", b"lost"
"""What rank 0 says of a release that it cannot simply hand out."""


@dataclass(frozen=True, kw_only=True)
class Releases:
    """Buys releases from the ledger and keeps each of them, so that none is drawn twice.

    Guarantee: the charge is durable before the noise is drawn, and the release is stored
    durably when drawn. After a crash between the two the charge stays and the release is
    lost: `obtain` then returns None, and never draws again. This holds for any number of
    ranks: their queries are added up here, on rank 0, and noise is drawn here, once.
    """

    ledger: Ledger
    run: str
    noise: Noise
    folder: Path
    ranks: Ranks = ALONE

    def obtain(
        self, key: str, mechanism: Mechanism, query: Callable[[], Integers], *, count: int = 1
    ) -> Integers | None:
        """The release named `key`: recalled if it was drawn before, else bought and drawn."""

        def buy(total: Integers) -> bytes:
            self.ledger.spend(self.run, key, mechanism.event, count=count)
            release = _to_bytes(mechanism.release(total, noise=self.noise, key=key))
            _write_durably(self._stored(key), release)
            return release

        known = self.ranks.tell(f"recall/{key}", self._recall(key))
        if known == LOST:
            return None
        if known == NEW:
            known = self.ranks.add(key, query(), buy)
        return _from_bytes(known, f"The stored release {self._stored(key)}")

    def _stored(self, key: str) -> Path:
        return self.folder / f"{key.replace('/', '-')}.npy"

    def _recall(self, key: str) -> bytes:
        stored = self._stored(key)
        charged = self.ledger.has_spent(self.run, key)
        if stored.exists() and not charged:
            raise DataLensError(
                f"The release {key} was drawn, but {self.ledger.path} has no charge for it: this is"
                " not the ledger the run was started with."
            )
        if not stored.exists():
            return LOST if charged else NEW
        return stored.read_bytes()


@dataclass(frozen=True, kw_only=True)
class Received:
    """The releases as every other rank gets them: from rank 0.

    Guarantee: it has no ledger and no noise, so nothing can be charged or drawn a second time.
    What it sends is its own records' share of a query, and what it gets is the release.
    """

    ranks: Ranks

    def obtain(
        self, key: str, mechanism: Mechanism, query: Callable[[], Integers], *, count: int = 1
    ) -> Integers | None:
        """The release named `key`, recalled or drawn by rank 0."""
        known = self.ranks.tell(f"recall/{key}", b"")
        if known == LOST:
            return None
        if known == NEW:
            known = self.ranks.add(key, query(), lambda total: b"")
        return _from_bytes(known, f"The release {key}")


def _to_bytes(release: Integers) -> bytes:
    """An NPY file: integers and their shape, nothing that could run."""
    file = io.BytesIO()
    np.save(file, release, allow_pickle=False)
    return file.getvalue()


def _from_bytes(content: bytes, name: str) -> Integers:
    try:
        release = np.load(io.BytesIO(content), allow_pickle=False)
    except Exception:  # of a damaged file, NumPy's readers say many things
        raise DataLensError(f"{name} cannot be read.") from None
    if not isinstance(release, np.ndarray) or release.dtype != np.int64:
        raise DataLensError(f"{name} does not hold 64-bit integers.")
    return release


def _write_durably(path: Path, release: bytes) -> None:
    """Whole or not at all, and on disk when this returns."""
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_suffix(".part")
    with part.open("wb") as file:
        file.write(release)
        file.flush()
        os.fsync(file.fileno())
    part.replace(path)
    folder = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)
