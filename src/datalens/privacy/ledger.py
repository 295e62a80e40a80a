"""The privacy ledger: a small database that belongs to one private data set.

It is append-only, lives outside the runs, and every run on the data writes to it. A run first
reserves its whole plan; each charge is then durable before its noise is drawn; at the end it
settles. Each row carries the hash of the row before it.
"""

import hashlib
import json
import os
import re
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from datalens.errors import DataLensError
from datalens.mechanism.events import GaussianRelease
from datalens.privacy.accountants import Charge

FORMAT = "datalens-ledger-1"
GENESIS = hashlib.sha256(FORMAT.encode()).hexdigest()

_SCHEMA = """
CREATE TABLE IF NOT EXISTS entries (
    row INTEGER PRIMARY KEY AUTOINCREMENT,
    run TEXT NOT NULL,
    key TEXT NOT NULL,
    body TEXT NOT NULL,
    previous TEXT NOT NULL,
    hash TEXT NOT NULL,
    UNIQUE (run, key)
)
"""


class BudgetExceeded(DataLensError):
    """The charge does not fit into what the run has reserved. Nothing was written."""


class AlreadySpent(DataLensError):
    """This very charge is in the ledger: its noise has been or may have been drawn."""


def ledger_path(name: str, home: Path | None = None) -> Path:
    """Where the ledger of a data set lies: DATALENS_HOME, else the user's data folder."""
    if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}", name):
        raise DataLensError(
            f"{name!r} is no name for a ledger; use letters, digits, dots, dashes, underscores."
        )
    return (home or default_home()) / "ledgers" / f"{name}.sqlite"


def default_home() -> Path:
    """DATALENS_HOME, else the platform's place for a user's data."""
    if os.environ.get("DATALENS_HOME"):
        return Path(os.environ["DATALENS_HOME"])
    if os.environ.get("XDG_DATA_HOME"):
        return Path(os.environ["XDG_DATA_HOME"]) / "datalens"
    return Path.home() / ".local" / "share" / "datalens"


class Ledger:
    """Reserve, spend, settle.

    Guarantee: when `spend` returns, the charge is on disk; when it raises, nothing was
    charged. The charges of a run never exceed what it reserved, and no charge is made twice,
    also when several processes write at once (each write is one immediate transaction).
    """

    def __init__(self, path: Path) -> None:
        self.path = Path(path)
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            with self._transaction() as database:
                database.execute(_SCHEMA)
        except (OSError, sqlite3.Error) as error:
            raise DataLensError(
                f"The ledger {self.path} cannot be opened ({error}); set DATALENS_HOME to a"
                " folder you may write to."
            ) from None

    def reserve(self, run: str, plan: Sequence[Charge], *, facts: dict[str, Any]) -> None:
        """Set the run's whole frozen plan aside, before any record is touched."""
        body = {"kind": "reserve", "plan": [charge.to_json() for charge in plan], **facts}
        with self._transaction() as database:
            self._append(database, run, "reserve", body)

    def spend(self, run: str, key: str, event: GaussianRelease, *, count: int) -> None:
        """Charge `count` releases of `event`, durably. `key` names the charge within the run."""
        charge = Charge(event=event, count=count)
        with self._transaction() as database:
            rows = _rows_of(database, run)
            bodies = {row["key"]: row["body"] for row in rows}
            if "reserve" not in bodies:
                raise BudgetExceeded(f"Run {run} has reserved nothing in the ledger.")
            if "settle" in bodies:
                raise BudgetExceeded(f"Run {run} has been settled and can spend no more.")
            plan = [Charge.from_json(body) for body in bodies["reserve"]["plan"]]
            reserved = sum(c.count for c in plan if c.event == event)
            spent = sum(
                body["charge"]["count"]
                for body in bodies.values()
                if body["kind"] == "spend" and _event_of(body) == event
            )
            if spent + count > reserved:
                raise BudgetExceeded(
                    f"Run {run} has reserved {reserved} releases of {event.what} and used"
                    f" {spent}; {count} more would exceed its budget."
                )
            body = {"kind": "spend", "charge": charge.to_json()}
            self._append(database, run, f"spend/{key}", body)

    def settle(self, run: str) -> None:
        """End the run: what it did not spend returns to the data set. Settling twice is once."""
        with self._transaction() as database:
            if not any(row["key"] == "settle" for row in _rows_of(database, run)):
                self._append(database, run, "settle", {"kind": "settle"})

    def has_spent(self, run: str, key: str) -> bool:
        """Whether this charge has been made."""
        with self._transaction() as database:
            found = database.execute(
                "SELECT 1 FROM entries WHERE run = ? AND key = ?", (run, f"spend/{key}")
            )
            return found.fetchone() is not None

    def charges(self, run: str) -> list[Charge]:
        """What the run has spent so far, in order."""
        bodies = [row["body"] for row in self.rows(run)]
        return [Charge.from_json(body["charge"]) for body in bodies if body["kind"] == "spend"]

    def rows(self, run: str) -> list[dict[str, Any]]:
        """The run's rows, as they go into the extract beside its certificate."""
        with self._transaction() as database:
            return _rows_of(database, run)

    @contextmanager
    def _transaction(self) -> Iterator[sqlite3.Connection]:
        try:
            database = sqlite3.connect(self.path, timeout=60, isolation_level=None)
        except sqlite3.Error as error:
            raise DataLensError(f"The ledger {self.path} cannot be opened ({error}).") from None
        try:
            database.execute("PRAGMA synchronous = EXTRA")  # on disk when COMMIT returns
            database.execute("BEGIN IMMEDIATE")
            try:
                yield database
            except BaseException:
                database.execute("ROLLBACK")
                raise
            database.execute("COMMIT")
        except (sqlite3.Error, UnicodeDecodeError) as error:  # also of a damaged schema's text
            raise DataLensError(f"The ledger {self.path} refused a write ({error}).") from None
        finally:
            database.close()

    def _append(
        self, database: sqlite3.Connection, run: str, key: str, body: dict[str, Any]
    ) -> None:
        last = database.execute("SELECT hash FROM entries ORDER BY row DESC LIMIT 1").fetchone()
        previous = last[0] if last else GENESIS
        number = len(_rows_of(database, run))  # within the run, so that a gap shows
        text = json.dumps({**body, "number": number}, sort_keys=True)
        values = (run, key, text, previous, row_hash(previous, run, key, text))
        try:
            database.execute(
                "INSERT INTO entries (run, key, body, previous, hash) VALUES (?, ?, ?, ?, ?)",
                values,
            )
        except sqlite3.IntegrityError:
            raise AlreadySpent(f"Run {run} already has the ledger entry {key!r}.") from None


def row_hash(previous: str, run: str, key: str, body: str) -> str:
    """SHA-256 over the previous hash and the row, as a JSON list."""
    return hashlib.sha256(json.dumps([previous, run, key, body]).encode()).hexdigest()


def _rows_of(database: sqlite3.Connection, run: str) -> list[dict[str, Any]]:
    found = database.execute(
        "SELECT row, run, key, body, previous, hash FROM entries WHERE run = ? ORDER BY row", (run,)
    )
    names = ("row", "run", "key", "body", "previous", "hash")
    rows = [dict(zip(names, values, strict=True)) for values in found]
    return [{**row, "body": json.loads(row["body"])} for row in rows]


def _event_of(body: dict[str, Any]) -> GaussianRelease:
    return Charge.from_json(body["charge"]).event
