"""Spend first, release second: the one door through which anything leaves the private side."""

import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import numpy as np

from datalens.errors import DataLensError
from datalens.mechanism.events import GaussianRelease
from datalens.mechanism.noise import Integers, Noise
from datalens.privacy.ledger import Ledger


class Mechanism(Protocol):
    """A query's noise together with its cost."""

    @property
    def event(self) -> GaussianRelease: ...

    def release(self, value: Integers, /, *, noise: Noise, key: str) -> Integers: ...


@dataclass(frozen=True, kw_only=True)
class Releases:
    """Buys releases from the ledger and keeps each of them, so that none is drawn twice.

    Guarantee: the charge is durable before the noise is drawn, and the release is stored
    durably when drawn. After a crash between the two the charge stays and the release is
    lost: `obtain` then returns None, and never draws again.
    """

    ledger: Ledger
    run: str
    noise: Noise
    folder: Path

    def obtain(
        self, key: str, mechanism: Mechanism, query: Callable[[], Integers], *, count: int = 1
    ) -> Integers | None:
        """The release named `key`: recalled if it was drawn before, else bought and drawn.

        `query` touches the records, and is called only if there is something left to draw.
        """
        stored = self.folder / f"{key.replace('/', '-')}.npy"
        charged = self.ledger.has_spent(self.run, key)
        if stored.exists() and not charged:
            raise DataLensError(
                f"The release {key} was drawn, but {self.ledger.path} has no charge for it: this is"
                " not the ledger the run was started with."
            )
        if charged:
            return _read(stored) if stored.exists() else None
        value = query()
        self.ledger.spend(self.run, key, mechanism.event, count=count)
        release = mechanism.release(value, noise=self.noise, key=key)
        _write_durably(stored, release)
        return release


def _read(path: Path) -> Integers:
    try:
        release = np.load(path, allow_pickle=False)
    except (OSError, ValueError, EOFError):
        raise DataLensError(f"The stored release {path} cannot be read.") from None
    if not isinstance(release, np.ndarray) or release.dtype != np.int64:
        raise DataLensError(f"The stored release {path} does not hold 64-bit integers.")
    return release


def _write_durably(path: Path, release: Integers) -> None:
    """Whole or not at all, and on disk when this returns."""
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_suffix(".part")
    with part.open("wb") as file:
        np.save(file, release, allow_pickle=False)
        file.flush()
        os.fsync(file.fileno())
    part.replace(path)
    folder = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)
