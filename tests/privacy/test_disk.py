"""A full disk or a read-only folder stops a run before the release, and costs nothing."""

import multiprocessing
import os
import resource
import shutil
import sqlite3
import tempfile
from collections.abc import Callable, Iterator
from multiprocessing.connection import Connection
from pathlib import Path

import numpy as np
import pytest

from datalens.errors import DataLensError
from datalens.mechanism.moments import ClassCounts
from datalens.privacy.accountants import Charge
from datalens.privacy.ledger import Ledger
from datalens.privacy.releases import Releases

from .spender import Quick, noted

COUNTS = ClassCounts(sigma=10.0, n_classes=3)
LARGE = 100_000
NOBODY = 65534


@pytest.fixture
def place() -> Iterator[Path]:
    """A folder that other users can reach, with a run that has reserved."""
    folder = Path(tempfile.mkdtemp())
    folder.chmod(0o755)
    ledger = Ledger(folder / "ledgers" / "data.sqlite")
    ledger.reserve("run", [Charge(event=COUNTS.event, count=5)], facts={})
    (folder / "run").mkdir()
    yield folder
    for path in (folder, *folder.rglob("*")):
        path.chmod(0o755)
    shutil.rmtree(folder)


def _child(limit: Callable[[Path], None], place: Path, said: Connection) -> None:
    Quick.draw = noted(Quick.draw, place / "sums")  # type: ignore[method-assign]
    ledger = Ledger(place / "ledgers" / "data.sqlite")
    limit(place)
    desk = Releases(ledger=ledger, run="run", noise=Quick(), folder=place / "run" / "releases")  # type: ignore[arg-type]
    try:
        desk.obtain("a", COUNTS, lambda: np.ones(LARGE, dtype=np.int64))
        said.send("released")
    except DataLensError as error:
        said.send(str(error))


def outcome(limit: Callable[[Path], None], place: Path) -> str:
    """What comes of one release in a process that lives under the limit."""
    here, there = multiprocessing.Pipe()
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["tests.privacy.spender"])
    process = context.Process(target=_child, args=(limit, place, there))
    process.start()
    assert here.poll(60)
    said: str = here.recv()
    process.join(60)
    return said


def no_limit(place: Path) -> None:
    return None


def room_for_the_ledger_only(place: Path) -> None:
    """No file can grow beyond this: the ledger's need not, the release's must."""
    resource.setrlimit(resource.RLIMIT_FSIZE, (4 * LARGE, 4 * LARGE))


def no_room_at_all(place: Path) -> None:
    resource.setrlimit(resource.RLIMIT_FSIZE, (512, 512))


class ReadOnly:
    """As another user, if need be: the permissions of root know no read-only folder."""

    def __init__(self, names: tuple[str, ...]) -> None:
        self.names = names

    def __call__(self, place: Path) -> None:
        for path in (place, *place.rglob("*")):
            if os.getuid() == 0:
                os.chown(path, NOBODY, NOBODY)
        for name in self.names:
            for path in (place / name, *(place / name).rglob("*")):
                path.chmod(0o500 if path.is_dir() else 0o400)
        if os.getuid() == 0:
            os.setgid(NOBODY)
            os.setuid(NOBODY)


def books(place: Path) -> tuple[int, bool]:
    """Releases charged, and whether value and noise were added up."""
    for path in (place, *place.rglob("*")):
        path.chmod(0o755)
    charges = Ledger(place / "ledgers" / "data.sqlite").charges("run")
    return sum(charge.count for charge in charges), (place / "sums").exists()


def test_without_a_limit_it_is_charged_and_drawn(place: Path) -> None:
    """The control: the tests below see the difference."""
    assert outcome(no_limit, place) == "released"
    assert books(place) == (1, True)


@pytest.mark.parametrize(
    "limit", [room_for_the_ledger_only, no_room_at_all], ids=lambda f: f.__name__
)
def test_a_full_disk_stops_before_the_charge(place: Path, limit: Callable[[Path], None]) -> None:
    assert "neither charged nor drawn" in outcome(limit, place)
    assert books(place) == (0, False)


@pytest.mark.parametrize("names", [("run",), ("ledgers",), ("run", "ledgers")], ids="-".join)
def test_a_read_only_folder_stops_before_the_release(place: Path, names: tuple[str, ...]) -> None:
    said = outcome(ReadOnly(names), place)
    assert "cannot be used" in said or "neither charged nor drawn" in said
    assert books(place) == (0, False)


def test_after_room_was_made_the_run_goes_on(place: Path) -> None:
    outcome(room_for_the_ledger_only, place)
    assert outcome(no_limit, place) == "released"
    assert books(place) == (1, True)


def test_a_ledger_that_cannot_grow_charges_nothing(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """SQLite's own word for a full disk."""
    ledger = Ledger(place / "ledgers" / "data.sqlite")
    grow = Ledger._prepare

    def cramped(self: Ledger, database: sqlite3.Connection) -> None:
        grow(self, database)
        (pages,) = database.execute("PRAGMA page_count").fetchone()
        database.execute(f"PRAGMA max_page_count = {pages}")

    monkeypatch.setattr(Ledger, "_prepare", cramped)
    with pytest.raises(DataLensError, match=r"cannot be used \(database or disk is full\)"):
        ledger.spend("run", "k" * 20_000, COUNTS.event, count=1)  # a row that needs new pages
    monkeypatch.undo()
    assert ledger.charges("run") == []
    ledger.spend("run", "a", COUNTS.event, count=1)
    assert len(ledger.charges("run")) == 1
