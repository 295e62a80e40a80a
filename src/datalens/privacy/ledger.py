"""The privacy ledger: a small database that belongs to one private data set.

It is append-only, lives outside the runs, and every run on the data writes to it. A run first
reserves its whole plan, or is refused; each charge is then durable before its release exists; at
the end it settles, and what it did not use returns.
"""

import json
import os
import re
import secrets
import sqlite3
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from urllib.parse import quote

from datalens.data.records import NO_NAMES, UNNAMED
from datalens.errors import DataLensError, NotAdmitted, brief
from datalens.files import replace_file
from datalens.mechanism.events import Event
from datalens.privacy.accountants import Charge
from datalens.privacy.accountants import epsilon as cost
from datalens.privacy.cap import Cap
from datalens.privacy.chain import START, Head, Row, digest, follow, link
from datalens.privacy.rounding import rounded_down, rounded_up
from datalens.privacy.standing import RunStanding, Standing

VERSION = 3
"""Of the file's schema. Another one is refused, never guessed at."""

_TABLES = (
    """CREATE TABLE entries (
    row INTEGER PRIMARY KEY,
    run TEXT NOT NULL,
    key TEXT NOT NULL,
    body TEXT NOT NULL,
    hash TEXT NOT NULL,
    at TEXT NOT NULL,
    UNIQUE (run, key)
)""",
)

_ROWS = "SELECT row, run, key, body, hash FROM entries"

OWNER = "owner"
"""Stands where a run's name would, in rows that the data's owner has written."""


LONGEST_NAME = 100
"""Letters of a ledger's name, which is that of a file."""


class BudgetExceeded(DataLensError):
    """The charge does not fit into what was reserved, or under the cap. Nothing was written."""


class OverTheCap(BudgetExceeded, NotAdmitted):
    """The plan does not fit under the cap: the run was not let in, and has no row."""


class AlreadySpent(DataLensError):
    """This very charge is in the ledger: its noise has been or may have been drawn."""


def ledger_path(name: str, home: Path | None = None) -> Path:
    """Where the ledger of a data set lies: DATALENS_HOME, else the user's data folder."""
    if len(name) > LONGEST_NAME or not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]*", name):
        raise DataLensError(
            f"{name!r:.120} is no name for a ledger; use letters, digits, dots, dashes, underscores"
            f" (that of data called so is {ledger_name_for(name)})."
        )
    return (home or default_home()) / "ledgers" / f"{name}.sqlite"


def ledger_name_for(data_name: str) -> str:
    """The ledger a data set has by default: its name, made fit for a file name.

    Names that are made alike share a ledger, where costs add up: never too little is counted. What
    every folder may be called is refused.
    """
    if data_name != UNNAMED and data_name.lower() in NO_NAMES:
        raise DataLensError(
            f"These data are called {data_name}, as many others are: name their ledger with"
            " --ledger (ledger=)."
        )
    fit = re.sub(r"[^A-Za-z0-9._-]+", "-", data_name).strip("-._")
    return (fit if len(fit) <= LONGEST_NAME else fit[:80]) or UNNAMED  # -test goes behind it


def default_home() -> Path:
    """DATALENS_HOME, else the platform's place for a user's data."""
    if os.environ.get("DATALENS_HOME"):
        return Path(os.environ["DATALENS_HOME"])
    if os.environ.get("XDG_DATA_HOME"):
        return Path(os.environ["XDG_DATA_HOME"]) / "datalens"
    return Path.home() / ".local" / "share" / "datalens"


def _now() -> datetime:
    return datetime.now(UTC)


class Ledger:
    """Reserve, spend, settle.

    Guarantee: when `spend` returns, the charge is on disk. (When it raises, nothing was charged;
    only an interruption just after the write can leave a charge without its release.) The charges
    of a run never exceed what it reserved, no charge is made twice, and what is spent or set aside
    never exceeds the cap, also when several processes write at once (each write is one immediate
    transaction). An altered or rolled-back file is refused: the whole chain is followed again
    whenever the file is not as this object left it.
    """

    def __init__(
        self,
        path: Path,
        *,
        make: bool = True,
        head: Path | None = None,
        clock: Callable[[], datetime] = _now,
    ) -> None:
        """The ledger in this file, which is made if need be; later it must not disappear.

        `head` is a file of the caller's that remembers the end of the chain from one process to
        the next, so that a ledger that was rolled back in between is noticed.
        """
        self.path, self._clock, self._head_file = Path(path), clock, head
        self._head = _read_head(head) if head is not None and head.exists() else START
        self._state: tuple[int, ...] | None = None
        """Of the file, when its chain was last followed or added to."""
        self._last: dict[str, tuple[int, str, RunStanding]] = {}
        """The last row of each run that was followed, its hash, and where the run stood then."""
        if self.path.exists() and not self.path.is_file():
            raise DataLensError(f"The ledger {self.path} is no plain file.")
        if not make and not self.path.exists():
            raise DataLensError(
                f"The ledger {self.path} is missing; set DATALENS_HOME to where it is."
            )
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise DataLensError(
                f"The ledger {self.path} cannot be opened ({error}); set DATALENS_HOME to a"
                " folder you may write to."
            ) from None
        with self._transaction(make=make):
            pass  # make it, or see that it is one

    def reserve(self, run: str, plan: Sequence[Charge], *, facts: dict[str, Any]) -> None:
        """Set the run's whole frozen plan aside, before any record is touched, or refuse."""
        body = {**facts, "kind": "reserve", "plan": [charge.to_json() for charge in plan]}
        with self._transaction() as database:
            self._refuse_over_cap(self._standing(database), plan)
            self._append(database, run, "reserve", body)

    def spend(self, run: str, key: str, event: Event, *, count: int) -> None:
        """Charge `count` releases of `event`, durably. `key` names the charge within the run."""
        charge = Charge(event=event, count=count)
        if count < 1:
            raise DataLensError(f"A release is charged at least once, got {count}.")
        with self._transaction() as database:
            known = self._followed(database, run)
            if known is None:
                raise BudgetExceeded(f"Run {run} has reserved nothing in the ledger.")
            if known.state == "ended":
                raise BudgetExceeded(
                    f"Run {run} has been settled and can spend no more; start a new one."
                )
            reserved = sum(c.count for c in known.reserved if c.event == event)
            spent = sum(c.count for c in known.spent if c.event == event)
            if spent + count > reserved:
                raise BudgetExceeded(
                    f"Run {run} has reserved {reserved} releases of {event.what} and used"
                    f" {spent}; {count} more would exceed its budget."
                )
            self._append(
                database, run, f"spend/{key}", {"kind": "spend", "charge": charge.to_json()}
            )

    def settle(self, run: str, result: dict[str, Any]) -> None:
        """End the run: what it did not spend returns to the data set.

        `result` is what the run made, as the certificate will state it: hashes of its files. It
        can be settled once, and again only with the same result. Empty, the run was given up.
        """
        with self._transaction() as database:
            known = self._standing(database, run).runs.get(run)
            if known is None:
                raise DataLensError(f"The ledger {self.path} has no run {run}.")
            if known.state != "ended":
                self._append(database, run, "settle", {"kind": "settle", **result})
            elif result and known.result != result:
                raise DataLensError(
                    f"Run {run} was settled in the ledger {self.path.stem} with another result:"
                    " restore its files as they were then, or start a new run."
                )

    def set_cap(self, epsilon: float, delta: float) -> Cap:
        """From now on no run is let in that could take the total over epsilon at delta."""
        cap = Cap.of(epsilon, delta)
        with self._transaction() as database:
            committed = self._standing(database).committed
            if not cap.holds(committed):
                most = rounded_up(cost(committed, delta))
                raise DataLensError(
                    f"A cap of epsilon {epsilon:g} at delta {delta:g} comes too late for the ledger"
                    f" {self.path.stem}: {most} is spent or set aside."
                )
            self._append(database, OWNER, None, {"kind": "cap", **cap.to_json()})
        return cap

    def has_spent(self, run: str, key: str) -> bool:
        """Whether this charge has been made."""
        with self._transaction() as database:
            found = database.execute(
                "SELECT 1 FROM entries WHERE run = ? AND key = ?", (run, f"spend/{key}")
            )
            return found.fetchone() is not None

    def charges(self, run: str) -> list[Charge]:
        """What the run has spent so far, in order."""
        with self._transaction() as database:
            known = self._standing(database, run).runs.get(run)
        return known.spent if known else []

    def standing(self) -> Standing:
        """Every run and the cap, once it is clear that nobody has altered a row."""
        with self._transaction() as database:
            return self._standing(database)

    def rows(self, run: str | None = None) -> list[Row]:
        """The rows of one run; or all of them, once it is clear that nobody has altered them."""
        with self._transaction() as database:
            return self._read(database, run)

    def extract(self, run: str) -> list[dict[str, Any]]:
        """What goes beside the run's certificate: its own rows, and digests of all others up to
        its last, so that anyone can follow the chain and nobody learns of other runs."""
        rows = self.rows()
        last = max(row.row for row in rows if row.run == run)
        return [row.for_extract(run) for row in rows[:last]]

    def started(self) -> dict[str, str]:
        """When each run was reserved: for the owner's eyes, and no part of the chain."""
        with self._transaction() as database:
            return dict(database.execute("SELECT run, at FROM entries WHERE key = 'reserve'"))

    @contextmanager
    def _transaction(self, *, make: bool = False) -> Iterator[sqlite3.Connection]:
        address = f"file:{quote(str(self.path))}?mode={'rwc' if make else 'rw'}"
        try:
            database = sqlite3.connect(address, uri=True, timeout=60, isolation_level=None)
        except sqlite3.Error as error:
            raise DataLensError(f"The ledger {self.path} cannot be used ({error}).") from None
        try:
            database.execute("PRAGMA synchronous = EXTRA")  # on disk when COMMIT returns
            database.execute("PRAGMA fullfsync = ON")  # macOS: through the drive's cache too
            database.execute("BEGIN IMMEDIATE")
            before = self._head
            try:
                self._prepare(database)
                if self._state != _state(self.path):
                    before = self._follow(self._read(database))
                yield database
                database.execute("COMMIT")
                self._state = _state(self.path)
                if self._head_file is not None and self._head != before:
                    with suppress(OSError):  # an older end of the chain does as well
                        replace_file(self._head_file, json.dumps(self._head).encode())
            except BaseException:
                self._head = before
                if database.in_transaction:
                    database.execute("ROLLBACK")
                raise
        except (sqlite3.Error, UnicodeDecodeError) as error:  # also of a damaged schema's text
            raise DataLensError(
                f"The ledger {self.path} cannot be used ({brief(error)}); it must be a ledger in"
                " a folder you may write to, with room on its disk."
            ) from None
        finally:
            database.close()

    def _prepare(self, database: sqlite3.Connection) -> None:
        """Make the tables of a new file; refuse a file that has others, or views, or triggers."""
        (version,) = database.execute("PRAGMA user_version").fetchone()
        found = database.execute("SELECT sql FROM sqlite_master WHERE sql IS NOT NULL")
        tables = sorted(row[0] for row in found)
        if version == VERSION and tables == sorted(_TABLES):
            return
        if version or tables:
            raise DataLensError(
                f"{self.path} is no ledger of this version of datalens; leave it as it is, and"
                " name another with --ledger."
            )
        for statement in _TABLES:
            database.execute(statement)
        database.execute(f"PRAGMA user_version = {VERSION}")
        self.path.chmod(0o600)

    def _read(
        self, database: sqlite3.Connection, run: str | None = None, *, after: int = 0
    ) -> list[Row]:
        """Rows in order, of one run or of all."""
        if run is None:
            found = database.execute(f"{_ROWS} ORDER BY row")
        else:
            found = database.execute(
                f"{_ROWS} WHERE run = ? AND row > ? ORDER BY row", (run, after)
            )
        names = ("row", "run", "key", "text", "hash")
        return [Row(**dict(zip(names, row, strict=True))) for row in found]

    def _follow(self, rows: list[Row]) -> Head:
        self._head = follow(rows, str(self.path), known=self._head)
        return self._head

    def _followed(self, database: sqlite3.Connection, run: str) -> RunStanding | None:
        """Where the run stands, reading only the rows that it has got since this was last asked.

        All of them, where the last one is no longer what it was: another file lies in its place.
        """
        row, hash_, known = self._last.pop(run, (0, "", None))
        found = database.execute("SELECT hash FROM entries WHERE row = ?", (row,)).fetchone()
        if found != (hash_,):
            row, known = 0, None
        new = self._read(database, run, after=row)
        known = self._told(new, {run: known} if known else {}).runs.get(run)
        if known is not None:
            row, hash_ = (new[-1].row, new[-1].hash) if new else (row, hash_)
            self._last[run] = row, hash_, known
        return known

    def _standing(self, database: sqlite3.Connection, run: str | None = None) -> Standing:
        return self._told(self._read(database, run), {})

    def _told(self, rows: list[Row], known: dict[str, RunStanding]) -> Standing:
        try:
            return Standing.of(rows, known)
        except (ValueError, LookupError, TypeError, AttributeError, RecursionError) as error:
            raise DataLensError(
                f"The ledger {self.path} holds a row that datalens did not write"
                f" ({type(error).__name__}); put back the file as it was."
            ) from None

    def _append(
        self, database: sqlite3.Connection, run: str, key: str | None, body: dict[str, Any]
    ) -> None:
        last = database.execute("SELECT row, hash FROM entries ORDER BY row DESC LIMIT 1")
        row, previous = last.fetchone() or START
        same = database.execute("SELECT count(*) FROM entries WHERE run = ?", (run,))
        (number,) = same.fetchone()  # within the run, so that a gap shows
        key = key or f"{body['kind']}/{number}"
        salt = secrets.token_hex(16)  # so that nobody can guess what a digest is of
        text = json.dumps({**body, "number": number, "salt": salt}, sort_keys=True)
        at = self._clock().isoformat(timespec="seconds")
        head = Head(row + 1, link(previous, digest(run, key, text)))
        values = (head.rows, run, key, text, head.hash, at)
        try:
            database.execute("INSERT INTO entries VALUES (?, ?, ?, ?, ?, ?)", values)
        except sqlite3.IntegrityError:
            raise AlreadySpent(f"Run {run} already has the ledger entry {key!r}.") from None
        self._head = head

    def _refuse_over_cap(self, standing: Standing, plan: Sequence[Charge]) -> None:
        cap = standing.cap
        if cap is None or cap.holds([*standing.committed, *plan]):
            return
        waiting = sum(run.state == "under way" for run in standing.runs.values())
        asked = cost(plan, cap.delta)
        raise OverTheCap(
            f"The ledger {self.path.stem} has a cap of epsilon {cap.epsilon:g} at delta"
            f" {cap.delta:g}, of which {rounded_down(cap.left(standing.committed))} is left"
            + (f" ({waiting} runs under way have set theirs aside)" if waiting else "")
            + f"; this run would cost {rounded_up(asked)}: ask for less, or see datalens ledger"
            f" {self.path.stem}."
        )


def _state(path: Path) -> tuple[int, ...]:
    """What changes when anybody writes to the file. It is not opened: closing it again would end
    SQLite's locks on it."""
    now = path.stat()
    return now.st_ino, now.st_size, now.st_mtime_ns, now.st_ctime_ns


def _read_head(file: Path) -> Head:
    try:
        rows, hash_ = json.loads(file.read_bytes())
        if type(rows) is not int or type(hash_) is not str:
            raise ValueError
    except (OSError, ValueError, TypeError):
        raise DataLensError(f"{file} is damaged: it must hold the end of the ledger.") from None
    return Head(rows, hash_)
