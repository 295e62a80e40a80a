"""Which records were used with which ledger, so that one set of records has one budget.

Names and containers of files change; the same images in another archive, or all of them but one,
are recognised by keyed hashes of the decoded images. They lie in one file beside the ledgers.
"""

import hashlib
import secrets
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

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

_TABLES = """
CREATE TABLE IF NOT EXISTS secret (key BLOB NOT NULL);
CREATE TABLE IF NOT EXISTS known (ledger TEXT NOT NULL, files BLOB, marks BLOB NOT NULL);
"""


class KnownRecords:
    """Keyed hashes of the records of all runs that protect somebody.

    Guarantee: nothing of it is ever published. Whoever has the file can find out whether an image
    that he has was used, and with which ledger; without the key in it, hashes tell nothing.
    """

    def __init__(self, path: Path | None = None) -> None:
        self.path = path or default_home() / "known-records.sqlite"

    def ledgers_with(self, images: NDArray[np.uint8], files: bytes | None) -> set[str]:
        """The ledgers that were charged for some of these images, or for these very files."""
        with self._transaction() as database:
            own, stamp = _marked(database, images, files)
            rows = database.execute("SELECT ledger, files, marks FROM known").fetchall()
        return {
            ledger
            for ledger, of_files, marks in rows
            if (stamp is not None and of_files == stamp) or _overlap(own, _unpacked(marks))
        }

    def has_runs_of(self, ledger: str) -> bool:
        """Whether any records were used with this ledger."""
        with self._transaction() as database:
            found = database.execute("SELECT 1 FROM known WHERE ledger = ?", (ledger,))
            return found.fetchone() is not None

    def add(self, ledger: str, images: NDArray[np.uint8], files: bytes | None) -> None:
        """Remember that this ledger is charged for these images."""
        with self._transaction() as database:
            marks, stamp = _marked(database, images, files)
            entry = (ledger, stamp, marks.astype("<u8").tobytes())
            same = "SELECT 1 FROM known WHERE ledger = ? AND files IS ? AND marks = ?"
            if database.execute(same, entry).fetchone() is None:
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
                database.execute("INSERT INTO secret VALUES (?)", (secrets.token_bytes(32),))
            yield database
            database.execute("COMMIT")
        except sqlite3.Error as error:
            raise self._unusable(error) from None
        finally:
            database.close()  # an open transaction is rolled back

    def _unusable(self, error: Exception) -> DataLensError:
        return DataLensError(
            f"{self.path}, which says what records the ledgers know, cannot be used"
            f" ({brief(error)}); it must lie in a folder you may write to, with room on its disk."
        )


def _marked(
    database: sqlite3.Connection, images: NDArray[np.uint8], files: bytes | None
) -> tuple[Marks, bytes | None]:
    """The sorted marks of these images, and one of the files that they come from.

    Images of one brightness all over, such as empty scans, are in many sets and say nothing.
    """
    (key,) = database.execute("SELECT key FROM secret").fetchone()
    shape = repr(images.shape[1:]).encode()
    rows = np.ascontiguousarray(images).reshape(len(images), -1)
    telling = rows[(rows != rows[:, :1]).any(axis=1)]
    digests = b"".join(
        hashlib.blake2b(shape + row.tobytes(), key=key, digest_size=8).digest() for row in telling
    )
    stamp = None if files is None else hashlib.blake2b(files, key=key, digest_size=16).digest()
    return np.unique(_unpacked(digests))[:MOST_MARKS], stamp


def _unpacked(marks: bytes) -> Marks:
    return np.frombuffer(marks, dtype="<u8").astype(np.uint64)


def _overlap(one: Marks, other: Marks) -> bool:
    common = len(np.intersect1d(one, other, assume_unique=True))
    return common > 0 and common >= OVERLAP * min(len(one), len(other))
