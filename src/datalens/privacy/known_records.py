"""Which records were used with which ledger, so that one set of records has one budget.

Names and containers of files change; the same images in another archive, or all of them but one,
are recognised by keyed hashes of the decoded images. They lie in one file beside the ledgers.
"""

import hashlib
import secrets
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from datalens.errors import DataLensError, brief
from datalens.privacy.ledger import default_home

Marks = NDArray[np.uint64]

MOST_MARKS = 2**16
"""Marks kept of a set of records: the smallest ones, which are a random sample."""
OVERLAP = 0.01
"""Share of the smaller set that two sets have in common, from which on they count as overlapping:
a few images may be in both by chance."""
KEY_BYTES = 32

_TABLES = """
CREATE TABLE IF NOT EXISTS secret (key BLOB NOT NULL);
CREATE TABLE IF NOT EXISTS known (ledger TEXT NOT NULL, files BLOB, marks BLOB NOT NULL);
"""


@dataclass(frozen=True, kw_only=True)
class Known:
    """What is known of a set of records, and of the ledger that is to be charged for them."""

    others: tuple[str, ...]
    """Other ledgers that were charged for some of the records, where this one was not."""
    familiar: bool
    """Whether this ledger was charged for some of the records."""
    used: bool
    """Whether this ledger was charged for any records at all."""


class KnownRecords:
    """Keyed hashes of the records of all runs that protect somebody.

    Guarantee: nothing of it is ever published. Whoever has the file can find out whether an image
    that he has was used, and with which ledger; without the key in it, hashes reveal nothing.
    """

    def __init__(self, path: Path | None = None) -> None:
        self.path = path or default_home() / "known-records.sqlite"

    def key(self) -> bytes:
        """What marks are made with: drawn once, and kept in the file."""
        with self._transaction() as database:
            return _key(database)

    def has_runs_of(self, ledger: str) -> bool:
        """Whether any records were used with this ledger."""
        with self._transaction() as database:
            return any(name == ledger for name, _, _ in _rows(database))

    @contextmanager
    def charging(self, ledger: str, marks: Marks, files: bytes | None = None) -> Iterator[Known]:
        """What is known of these records, which are remembered when the block ends well.

        Nobody else asks or adds meanwhile: of two runs that begin at once, one knows the other.
        `marks` are those of `marks_of`, in any order. `files` is a fingerprint of the files that
        the records come from.
        """
        own = _sampled(marks)
        with self._transaction() as database:
            stamp = None
            if files is not None:
                stamp = hashlib.blake2b(files, key=_key(database), digest_size=16).digest()
            here = [(of, theirs) for name, of, theirs in _rows(database) if name == ledger]
            new, new_stamp = own, stamp  # to this ledger
            for of, theirs in here:
                new = np.setdiff1d(new, theirs, assume_unique=True)
                new_stamp = None if of == stamp else new_stamp
            others = {
                name
                for name, of, theirs in _rows(database)
                if name != ledger and (_same(of, new_stamp) or _overlap(new, own, theirs))
            }
            yield Known(
                others=tuple(sorted(others)),
                familiar=any(_same(of, stamp) or _overlap(own, own, m) for of, m in here),
                used=bool(here),
            )
            if not any(of == stamp and np.array_equal(theirs, own) for of, theirs in here):
                entry = (ledger, stamp, own.astype("<u8").tobytes())
                database.execute("INSERT INTO known VALUES (?, ?, ?)", entry)

    @contextmanager
    def _transaction(self) -> Iterator[sqlite3.Connection]:
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            self.path.touch(mode=0o600)
            database = sqlite3.connect(self.path, timeout=60, isolation_level=None)
        except (OSError, sqlite3.Error) as error:
            raise self._unusable(error) from None
        try:
            database.executescript(_TABLES)
            database.execute("BEGIN IMMEDIATE")
            if database.execute("SELECT 1 FROM secret").fetchone() is None:
                database.execute("INSERT INTO secret VALUES (?)", (secrets.token_bytes(KEY_BYTES),))
            yield database
            database.execute("COMMIT")
        except sqlite3.Error as error:
            raise self._unusable(error) from None
        finally:
            database.close()  # an open transaction is rolled back

    def _unusable(self, error: Exception) -> DataLensError:
        return DataLensError(
            f"{self.path}, which says what records the ledgers know, cannot be used"
            f" ({brief(error)}). Put back a copy of it, in a folder you may write to, with room on"
            " its disk; without it, no records of earlier runs are recognised."
        )


def marks_of(images: NDArray[np.uint8], key: bytes) -> Marks:
    """A keyed hash of each image, in their order.

    It is 0 for images of one brightness all over, such as empty scans: they are in many sets.
    """
    shape = repr(images.shape[1:]).encode()
    found = np.zeros(len(images), dtype=np.uint64)
    for position, image in enumerate(images):  # one at a time, for all of them may fill the memory
        pixels = image.tobytes()
        if pixels.count(pixels[:1]) < len(pixels):
            digest = hashlib.blake2b(shape + pixels, key=key, digest_size=8).digest()
            found[position] = int.from_bytes(digest, "little")
    return found


def _key(database: sqlite3.Connection) -> bytes:
    (key,) = database.execute("SELECT key FROM secret").fetchone()
    if not isinstance(key, bytes) or len(key) != KEY_BYTES:
        raise sqlite3.DatabaseError("its key is damaged")
    return key


def _rows(database: sqlite3.Connection) -> Iterator[tuple[str, Any, Marks]]:
    for ledger, files, marks in database.execute("SELECT ledger, files, marks FROM known"):
        if not isinstance(ledger, str) or not isinstance(marks, bytes) or len(marks) % 8:
            raise sqlite3.DatabaseError("a row of it is damaged")
        yield ledger, files, np.frombuffer(marks, dtype="<u8").astype(np.uint64)


def _sampled(marks: Marks) -> Marks:
    return np.unique(marks[marks > 0])[:MOST_MARKS]


def _same(files: bytes | None, others: bytes | None) -> bool:
    return files is not None and files == others


def _overlap(some: Marks, whole: Marks, other: Marks) -> bool:
    """Whether those of `some`, a part of `whole`, are a share of `other`.

    Large sets are known by their smallest marks alone, so sets are compared up to where both are
    known.
    """
    ends = [marks[-1] for marks in (whole, other) if len(marks) == MOST_MARKS]
    if ends:
        some, whole, other = (marks[marks <= min(ends)] for marks in (some, whole, other))
    common = len(np.intersect1d(some, other, assume_unique=True))
    return common > 0 and common >= OVERLAP * min(len(whole), len(other))
