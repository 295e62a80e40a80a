"""The ledger refuses what would exceed, and a charge is on disk before anything is released."""

import json
import multiprocessing
import os
import secrets
import shutil
import sqlite3
import warnings
from collections.abc import Callable
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from datalens import ClassGaussian, Records
from datalens.errors import DataLensError
from datalens.mechanism.ballots import BallotRule
from datalens.mechanism.moments import ClassCounts
from datalens.mechanism.noise import LARGEST, ExactNoise, Integers, Noise
from datalens.mechanism.topagg import TopAgg
from datalens.privacy.accountants import Charge
from datalens.privacy.chain import GENESIS, Row, digest, link
from datalens.privacy.ledger import (
    AlreadySpent,
    BudgetExceeded,
    Ledger,
    ledger_name_for,
    ledger_path,
)
from datalens.privacy.releases import Releases

from .spender import Watched

COUNTS = ClassCounts(sigma=10.0, n_classes=3)
EVENT = COUNTS.event


@pytest.fixture
def ledger(tmp_path: Path) -> Ledger:
    ledger = Ledger(tmp_path / "data.sqlite")
    ledger.reserve("run", [Charge(event=EVENT, count=5)], facts={"noise": "exact"})
    return ledger


def test_it_refuses_the_release_that_would_exceed(ledger: Ledger) -> None:
    ledger.spend("run", "a", EVENT, count=3)
    before = ledger.rows("run")
    with pytest.raises(BudgetExceeded, match="3 more would exceed"):
        ledger.spend("run", "b", EVENT, count=3)
    assert ledger.rows("run") == before
    ledger.spend("run", "b", EVENT, count=2)
    with pytest.raises(BudgetExceeded):
        ledger.spend("run", "c", EVENT, count=1)
    assert sum(charge.count for charge in ledger.charges("run")) == 5


def test_two_handles_see_each_others_charges(ledger: Ledger) -> None:
    other = Ledger(ledger.path)
    for key, at in enumerate((ledger, other, ledger, other)):
        at.spend("run", f"{key}", EVENT, count=1)
    other.spend("run", "last", EVENT, count=1)
    with pytest.raises(BudgetExceeded, match="used 5"):
        ledger.spend("run", "more", EVENT, count=1)
    other.settle("run", {})
    with pytest.raises(BudgetExceeded, match="settled"):
        ledger.spend("run", "more", EVENT, count=1)


def test_a_ledger_that_is_put_back_as_it_was_is_refused(ledger: Ledger, tmp_path: Path) -> None:
    """By the object that has charged it, and by a later process that remembers the chain's end."""
    head = tmp_path / "ledger-head"
    Ledger(ledger.path, head=head)
    copy = ledger.path.with_suffix(".copy")
    shutil.copy(ledger.path, copy)
    first = Ledger(ledger.path, head=head)
    first.spend("run", "here", EVENT, count=1)
    Ledger(copy).spend("run", "there", EVENT, count=4)  # as many rows, and others
    for other in (copy, _copied(copy, rows=1)):
        shutil.copy(other, ledger.path)
        with pytest.raises(DataLensError, match="no longer the same"):
            first.spend("run", "more", EVENT, count=1)
        with pytest.raises(DataLensError, match="no longer the same"):
            Ledger(ledger.path, head=head)
    assert len(Ledger(ledger.path).rows()) == 1  # who does not remember cannot see it


@pytest.mark.parametrize("link", [Path.symlink_to, Path.hardlink_to])
def test_links_to_a_ledger_share_its_budget(
    ledger: Ledger, link: Callable[[Path, Path], None]
) -> None:
    link(other := ledger.path.with_name("other.sqlite"), ledger.path)
    for key, path in enumerate((ledger.path, other, ledger.path, other, other)):
        Ledger(path).spend("run", f"{key}", EVENT, count=1)
    for path in (ledger.path, other):
        with pytest.raises(BudgetExceeded, match="used 5"):
            Ledger(path).spend("run", "more", EVENT, count=1)


@pytest.mark.parametrize(
    "kind, sentence",
    [
        ("pipe", "is no plain file"),
        ("device", "is no plain file"),
        ("folder", "is no plain file"),
        ("circle", "cannot be used"),
    ],
)
def test_what_is_no_plain_file_is_refused(kind: str, sentence: str, tmp_path: Path) -> None:
    path = tmp_path / "data.sqlite"
    if kind == "pipe":
        os.mkfifo(path)
    elif kind == "folder":
        path.mkdir()
    else:
        path.symlink_to({"device": Path("/dev/null"), "circle": path}[kind])
    with pytest.raises(DataLensError, match=sentence):
        Ledger(path)


def test_a_ledger_that_was_made_anew_during_a_run_is_refused(ledger: Ledger) -> None:
    """Also where it has the same run and as many rows."""
    ledger.spend("run", "a", EVENT, count=1)
    ledger.path.unlink()
    other = Ledger(ledger.path)
    with pytest.raises(DataLensError, match="no longer the same"):
        ledger.spend("run", "b", EVENT, count=1)
    other.reserve("run", [Charge(event=EVENT, count=5)], facts={})
    other.spend("run", "a", EVENT, count=1)
    with pytest.raises(DataLensError, match="no longer the same"):
        ledger.spend("run", "b", EVENT, count=1)


def test_an_edit_is_noticed_whatever_the_journal_and_the_clock_say(tmp_path: Path) -> None:
    """Whoever edits may hold the file open, and keep its changes in a journal of another kind."""
    path = tmp_path / "data.sqlite"
    ledger = Ledger(path, clock=lambda: datetime(1, 1, 1, tzinfo=UTC))
    ledger.reserve("run", [Charge(event=EVENT, count=5)], facts={})
    ledger.spend("run", "a", EVENT, count=1)
    editor = sqlite3.connect(path)
    editor.execute("PRAGMA journal_mode = WAL")
    editor.execute("UPDATE entries SET body = replace(body, 'count', 'tnuoc')")
    editor.commit()
    with pytest.raises(DataLensError, match="altered: row 1"):
        ledger.spend("run", "b", EVENT, count=1)
    editor.close()
    with pytest.raises(DataLensError, match="altered: row 1"):
        ledger.spend("run", "b", EVENT, count=1)


def _copied(ledger: Path, *, rows: int) -> Path:
    """A ledger that ends earlier."""
    shorter = ledger.with_suffix(".shorter")
    shutil.copy(ledger, shorter)
    with sqlite3.connect(shorter) as database:
        database.execute("DELETE FROM entries WHERE row > ?", (rows,))
    database.close()
    return shorter


@pytest.mark.parametrize(
    "edit",
    [
        """UPDATE entries SET body = replace(body, '"count": 1', '"count": 2') WHERE row = 2""",
        "DELETE FROM entries WHERE row = 2",
    ],
    ids=["a row edited", "a row deleted"],
)
def test_nothing_is_charged_to_an_altered_ledger(ledger: Ledger, edit: str) -> None:
    for key in "ab":
        ledger.spend("run", key, EVENT, count=1)
    with sqlite3.connect(ledger.path) as database:
        database.execute(edit)
    database.close()
    for refused in (
        lambda: ledger.spend("run", "c", EVENT, count=1),
        lambda: ledger.settle("run", {}),
        lambda: ledger.charges("run"),
        lambda: ledger.extract("run"),
        lambda: ledger.reserve("other", [], facts={}),
    ):
        with pytest.raises(DataLensError, match="altered: row 2"):
            refused()


def test_a_run_is_settled_with_one_result(ledger: Ledger) -> None:
    ledger.settle("run", {"files": {"a": "1"}})
    ledger.settle("run", {"files": {"a": "1"}})
    with pytest.raises(DataLensError, match="with another result"):
        ledger.settle("run", {"files": {"a": "2"}})
    assert len(ledger.rows("run")) == 2


def test_a_long_run_is_not_read_again_at_each_charge(
    ledger: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    read = []
    monkeypatch.setattr(
        Row, "body", property(lambda row: read.append(row.row) or json.loads(row.text))
    )
    for key in range(5):
        ledger.spend("run", f"{key}", EVENT, count=1)
    assert read == [1, 2, 3, 4, 5]  # the reservation, and each charge but the last, once


def test_it_refuses_what_was_not_reserved(ledger: Ledger) -> None:
    other = ClassCounts(sigma=9.0, n_classes=3).event
    with pytest.raises(BudgetExceeded):
        ledger.spend("run", "a", other, count=1)
    with pytest.raises(BudgetExceeded, match="reserved nothing"):
        ledger.spend("stranger", "a", EVENT, count=1)


def test_nothing_can_be_had_for_nothing(ledger: Ledger) -> None:
    for count in (0, -1):
        with pytest.raises(DataLensError):
            ledger.spend("run", "a", EVENT, count=count)
    assert ledger.charges("run") == []


def test_a_step_of_m_images_is_charged_m_times(ledger: Ledger) -> None:
    topagg = TopAgg(ballot=BallotRule(top_k=2, clip=1.0), n_teachers=3, sigma=9.0, quorum=None)
    ledger.reserve("votes", [Charge(event=topagg.event, count=4)], facts={})
    door = Releases(ledger=ledger, run="votes", noise=ExactNoise(), folder=ledger.path.parent)
    tally = np.zeros((4, 8), dtype=np.int64)
    door.obtain("votes/0", topagg, lambda: tally)
    assert ledger.charges("votes") == [Charge(event=topagg.event, count=4)]


def test_a_ledger_that_disappears_is_missed_and_not_made_anew(ledger: Ledger) -> None:
    away = ledger.path.rename(ledger.path.with_suffix(".away"))
    with pytest.raises(DataLensError, match="cannot be used"):
        ledger.spend("run", "a", EVENT, count=1)
    assert not ledger.path.exists()
    with pytest.raises(DataLensError, match="is missing"):
        Ledger(ledger.path, make=False)
    away.rename(ledger.path)
    ledger.spend("run", "a", EVENT, count=1)


def test_the_same_charge_is_made_once(ledger: Ledger) -> None:
    ledger.spend("run", "a", EVENT, count=1)
    with pytest.raises(AlreadySpent):
        ledger.spend("run", "a", EVENT, count=1)
    with pytest.raises(AlreadySpent):
        ledger.reserve("run", [], facts={})


def test_a_settled_run_spends_no_more(ledger: Ledger) -> None:
    ledger.settle("run", {})
    ledger.settle("run", {})
    with pytest.raises(BudgetExceeded, match="settled"):
        ledger.spend("run", "a", EVENT, count=1)


def test_rows_form_a_chain(ledger: Ledger) -> None:
    ledger.spend("run", "a", EVENT, count=1)
    first, second = ledger.rows("run")
    assert first.hash == link(GENESIS, digest("run", "reserve", first.text))
    assert second.hash == link(first.hash, digest("run", "spend/a", second.text))


def test_rows_are_on_disk_when_they_are_committed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A kill loses nothing that was written, so only these words tell what a power cut would."""
    found = []

    class Seen(sqlite3.Connection):
        def execute(self, statement: str, *given: Any) -> sqlite3.Cursor:
            execute = super().execute
            if statement == "COMMIT":
                names = ("synchronous", "fullfsync", "journal_mode")
                modes = [execute(f"PRAGMA {name}").fetchone()[0] for name in names]
                found.append((self.total_changes, *modes))
            return execute(statement, *given)

    monkeypatch.setattr(sqlite3, "connect", partial(sqlite3.connect, factory=Seen))
    ledger = Ledger(tmp_path / "new.sqlite")
    ledger.reserve("run", [Charge(event=EVENT, count=1)], facts={})
    ledger.spend("run", "a", EVENT, count=1)
    ledger.settle("run", {})
    writing = [modes for changes, *modes in found if changes]
    assert writing == [[3, 1, "delete"]] * 3  # of each row; 3 is EXTRA


def test_rows_are_salted_by_the_operating_system(
    ledger: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else the digests of other runs' rows in a published extract could be guessed."""
    given = []

    def token_hex(count: int) -> str:
        given.append(os.urandom(count).hex())
        return given[-1]

    monkeypatch.setattr(secrets, "token_hex", token_hex)
    for key in "abc":
        ledger.spend("run", key, EVENT, count=1)
    salts = [row.body["salt"] for row in ledger.rows("run")]
    assert salts[1:] == given and len(set(salts)) == 4
    assert all(len(bytes.fromhex(salt)) == 16 for salt in salts)


def test_nobody_else_can_read_a_ledger(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        ledger = Ledger(tmp_path / "data.sqlite", head=tmp_path / "head")
        ledger.reserve("run", [], facts={})
    finally:
        os.umask(before)
    assert ledger.path.stat().st_mode & 0o077 == 0


def test_names_are_checked() -> None:
    for bad in ("", "../etc", "a/b", ".hidden", "x" * 200):
        with pytest.raises(DataLensError, match="no name for a ledger"):
            ledger_path(bad)


@pytest.mark.parametrize(
    "data, ledger",
    [
        ("x rays", "x-rays"),
        ("mnist", "mnist"),
        ("山", "records"),
        ("a" * 100, "a" * 100),
        ("a" * 101, "a" * 80),
    ],
)
def test_data_of_any_name_have_a_ledger(data: str, ledger: str) -> None:
    assert ledger_name_for(data) == ledger
    assert ledger_path(ledger_name_for(data)).stem == ledger
    if data != ledger:
        with pytest.raises(DataLensError, match=rf"that of data called so is {ledger}\)"):
            ledger_path(data)


@pytest.mark.parametrize("data", ["train", "Test", "data", "images"])
def test_no_ledger_is_named_after_what_every_folder_may_be_called(data: str) -> None:
    """As those of data in /data, whose folder is all that names them."""
    with pytest.raises(DataLensError, match=rf"are called {data}, .*name their ledger"):
        ledger_name_for(data)
    records = Records.from_arrays(np.zeros((6, 8, 8)), np.arange(6) % 2, n_classes=2, name=data)
    with pytest.raises(DataLensError, match="name their ledger"):
        ClassGaussian(epsilon=5, delta=0.1).fit(records)
    with warnings.catch_warnings(action="ignore"):  # six records are few
        fitted = ClassGaussian(epsilon=5, delta=0.1).fit(records, ledger="mine")
    assert fitted.certificate["data"]["name"] == data and ledger_path("mine").exists()


def test_a_place_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(DataLensError, match="DATALENS_HOME"):
        Ledger(tmp_path / "file" / "x.sqlite")
    (tmp_path / "no.sqlite").write_text("this is no database, it is far too long a sentence" * 50)
    with pytest.raises(DataLensError, match=r"no\.sqlite"):
        Ledger(tmp_path / "no.sqlite")


def _spend_all(path: Path, who: int) -> None:
    ledger = Ledger(path)
    for number in range(5):
        try:
            ledger.spend("run", f"{who}-{number}", EVENT, count=1)
        except BudgetExceeded:
            return


def test_two_processes_never_exceed_the_reservation_together(ledger: Ledger) -> None:
    context = multiprocessing.get_context("forkserver")
    workers = [context.Process(target=_spend_all, args=(ledger.path, w)) for w in range(2)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join(60)
    assert [worker.exitcode for worker in workers] == [0, 0]
    assert sum(charge.count for charge in ledger.charges("run")) == 5


def _spend_one_key(path: Path, gate: Any, made: Any) -> None:
    ledger = Ledger(path)
    gate.wait()
    for key in "abc":
        try:
            ledger.spend("run", key, EVENT, count=1)
        except AlreadySpent:
            continue
        made.put(key)


def test_of_six_processes_one_makes_a_charge(ledger: Ledger) -> None:
    """Else each of them would draw noise for the same release."""
    context = multiprocessing.get_context("forkserver")
    gate, made = context.Barrier(6), context.Queue()
    words = (ledger.path, gate, made)
    workers = [context.Process(target=_spend_one_key, args=words) for _ in range(6)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join(60)
    assert [worker.exitcode for worker in workers] == [0] * 6
    assert sorted(made.get(timeout=10) for _ in "abc") == ["a", "b", "c"] and made.empty()
    assert sum(charge.count for charge in ledger.charges("run")) == 3


class Witness:
    """Noise that looks, at the moment it is added to a value, whether that charge is on disk."""

    kind = "exact"

    def __init__(self, path: Path) -> None:
        self.path = path
        self.drawn: list[Integers] = []
        self.seen: list[tuple[list[int], bool]] = []
        """Each value, and whether it was charged."""

    def draw(self, shape: tuple[int, ...], *, sigma: float, key: str) -> Integers:
        def used(value: Integers) -> None:
            with sqlite3.connect(self.path) as database:
                keys = [row[0] for row in database.execute("SELECT key FROM entries")]
            self.seen.append((value.tolist(), f"spend/{key}" in keys))

        self.drawn.append(ExactNoise().draw(shape, sigma=sigma, key=key))
        return Watched.of(self.drawn[-1], used)


def desk(ledger: Ledger, noise: Noise) -> Releases:
    return Releases(ledger=ledger, run="run", noise=noise, folder=ledger.path.parent / "releases")


def ones() -> Integers:
    return np.ones(3, dtype=np.int64)


def test_the_charge_is_durable_before_value_and_noise_are_added_up(ledger: Ledger) -> None:
    witness = Witness(ledger.path)
    release = desk(ledger, witness).obtain("a", COUNTS, ones)  # type: ignore[arg-type]
    assert witness.seen == [([1, 1, 1], True)]
    assert release is not None and (release == witness.drawn[0].view(np.ndarray) + 1).all()


def test_a_charge_after_the_release_would_be_seen(ledger: Ledger) -> None:
    """The mutant: release first, spend second."""
    witness = Witness(ledger.path)
    ones() + COUNTS.draw((3,), noise=witness, key="a")  # type: ignore[arg-type]
    ledger.spend("run", "a", EVENT, count=1)
    assert witness.seen == [([1, 1, 1], False)]


def test_a_stored_release_is_recalled_and_never_drawn_again(ledger: Ledger) -> None:
    releases = desk(ledger, ExactNoise())
    first = releases.obtain("a", COUNTS, ones)

    def not_again() -> Integers:
        raise AssertionError("the records were touched again")

    assert first is not None
    assert (releases.obtain("a", COUNTS, not_again) == first).all()
    assert len(ledger.charges("run")) == 1


def test_a_crash_between_charge_and_release_loses_the_release_not_the_charge(
    ledger: Ledger,
) -> None:
    class Crash:
        kind = "exact"

        def draw(self, shape: tuple[int, ...], *, sigma: float, key: str) -> Integers:
            def used(value: Integers) -> None:
                raise KeyboardInterrupt

            return Watched.of(np.zeros(shape, dtype=np.int64), used)

    with pytest.raises(KeyboardInterrupt):
        desk(ledger, Crash()).obtain("a", COUNTS, ones)  # type: ignore[arg-type]
    assert desk(ledger, ExactNoise()).obtain("a", COUNTS, ones) is None
    assert len(ledger.charges("run")) == 1


def test_a_crash_while_noise_is_drawn_costs_nothing(
    ledger: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    """That takes most of a run's time."""

    def crash(*given: object) -> Integers:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr("datalens.mechanism.noise._in_parts", crash)
        desk(ledger, ExactNoise()).obtain("a", COUNTS, ones)
    assert ledger.charges("run") == []
    assert desk(ledger, ExactNoise()).obtain("a", COUNTS, ones) is not None
    assert len(ledger.charges("run")) == 1


def test_nothing_is_released_when_the_budget_is_gone(ledger: Ledger) -> None:
    """Noise that was drawn for a refused charge is neither stored nor used later."""
    witness = Witness(ledger.path)
    releases = desk(ledger, witness)  # type: ignore[arg-type]
    ledger.spend("run", "all", EVENT, count=5)
    for _ in range(2):
        with pytest.raises(BudgetExceeded):
            releases.obtain("one more", COUNTS, ones)
    assert witness.seen == [] and not list(releases.folder.iterdir())
    assert len({tuple(noise) for noise in witness.drawn}) == 2


@pytest.mark.parametrize(
    "value", [np.array([0, LARGEST, 0]), np.ones((2, 3), dtype=np.int64), np.zeros(3)], ids=repr
)
def test_what_noise_cannot_hide_is_refused_before_the_charge(
    ledger: Ledger, value: np.ndarray, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Too large, under one draw for several entries, or not of integers."""
    noise = ExactNoise()
    monkeypatch.setattr(
        ClassCounts, "draw", lambda self, *given, **named: noise.draw((3,), sigma=10.0, key="")
    )
    with pytest.raises((DataLensError, ValueError, TypeError)):
        desk(ledger, noise).obtain("a", COUNTS, lambda: value)
    assert ledger.charges("run") == []


def test_a_release_that_the_ledger_does_not_know_is_not_handed_out(ledger: Ledger) -> None:
    """As after its ledger was put back: the same noise would be charged to nobody."""
    desk(ledger, ExactNoise()).obtain("a", COUNTS, ones)
    other = Ledger(ledger.path.with_name("other.sqlite"))
    other.reserve("run", [Charge(event=EVENT, count=5)], facts={})
    with pytest.raises(DataLensError, match="has no charge for it"):
        desk(other, ExactNoise()).obtain("a", COUNTS, ones)


def test_a_damaged_release_is_reported(ledger: Ledger) -> None:
    releases = desk(ledger, ExactNoise())
    releases.obtain("a", COUNTS, ones)
    (releases.folder / "a.npy").write_bytes(b"\x93NUMPY nonsense")
    with pytest.raises(DataLensError, match="cannot be read"):
        releases.obtain("a", COUNTS, ones)


def test_the_extract_survives_json(ledger: Ledger) -> None:
    ledger.spend("run", "a", EVENT, count=2)
    rows = json.loads(json.dumps(ledger.extract("run")))
    assert Charge.from_json(rows[1]["body"]["charge"]) == Charge(event=EVENT, count=2)
