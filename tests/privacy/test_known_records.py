"""Records are recognised whatever their container, and charged to the ledger that knows them."""

import sqlite3
import warnings
from pathlib import Path

import numpy as np
import pytest

from datalens.data import Records
from datalens.privacy import known_records
from datalens.privacy.known_records import KnownRecords
from datalens.privacy.ledger import Ledger, ledger_path
from datalens.synthesizers.class_gaussian import ClassGaussian
from datalens.synthesizers.session import OtherLedger

Images = np.ndarray


def images(seed: int = 0, n: int = 300) -> Images:
    return np.random.default_rng(seed).integers(0, 256, (n, 1, 8, 8), dtype=np.uint8)


@pytest.fixture
def known(tmp_path: Path) -> KnownRecords:
    found = KnownRecords(tmp_path / "known.sqlite")
    found.add("first", images(), b"files")
    return found


def changed_pixel() -> Images:
    other = images()
    other[0, 0, 0, 0] ^= 1
    return other


@pytest.mark.parametrize(
    "others, recognised",
    [
        (images(), True),
        (changed_pixel(), True),
        (images()[::-1], True),
        (images()[:20], True),
        (np.concatenate([images(), images(1, 20_000)]), True),
        (np.concatenate([images()[:4], images(1, 200)]), True),
        (np.concatenate([images()[:4], images(1, 20_000)]), True),
        (np.concatenate([images()[:1], images(1, 200)]), False),  # below a hundredth: by chance
        (images(1), False),
        (255 - images(), False),
        (images().reshape(300, 1, 4, 16), False),
    ],
    ids=[
        "the same", "one pixel", "another order", "a part", "and many more", "one in fifty",
        "a part, and many more", "one in two hundred", "others", "negatives", "another shape",
    ],
)  # fmt: skip
def test_an_overlap_is_seen(known: KnownRecords, others: Images, recognised: bool) -> None:
    assert known.ledgers_with(others, None) == ({"first"} if recognised else set())


def test_the_same_files_are_seen_whatever_is_made_of_them(known: KnownRecords) -> None:
    assert known.ledgers_with(images(1), b"files") == {"first"}
    assert known.ledgers_with(images(1), b"other files") == set()
    assert known.has_runs_of("first") and not known.has_runs_of("second")


def test_empty_scans_are_nobody_s(known: KnownRecords) -> None:
    blank = np.zeros((300, 1, 8, 8), dtype=np.uint8)
    known.add("scans", blank, None)
    assert known.ledgers_with(blank, None) == set()


def test_large_sets_are_known_by_a_sample(
    known: KnownRecords, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(known_records, "MOST_MARKS", 500)
    many = images(2, 20_000)
    known.add("many", many, None)
    with sqlite3.connect(known.path) as database:
        sizes = [len(row[0]) // 8 for row in database.execute("SELECT marks FROM known")]
    database.close()
    assert sizes == [300, 500]
    assert known.ledgers_with(many[:10_000], None) == {"many"}


def test_hashes_are_keyed_and_nobody_else_can_read_them(known: KnownRecords) -> None:
    assert known.path.stat().st_mode & 0o077 == 0
    stranger = KnownRecords(known.path.with_name("other.sqlite"))
    stranger.add("first", images(), b"files")
    stored = []
    for path in (known.path, stranger.path):
        with sqlite3.connect(path) as database:
            stored.append(database.execute("SELECT files, marks FROM known").fetchone())
        database.close()
    assert stored[0][0] != stored[1][0] and stored[0][1] != stored[1][1]


def test_what_was_added_before_is_added_once(known: KnownRecords) -> None:
    before = known.path.read_bytes()
    known.add("first", images(), b"files")
    with sqlite3.connect(known.path) as database:
        assert database.execute("SELECT count(*) FROM known").fetchone() == (1,)
    database.close()
    assert len(known.path.read_bytes()) == len(before)


def records(pixels: Images, name: str) -> Records:
    return Records.from_arrays(pixels, np.arange(len(pixels)) % 2, n_classes=2, name=name)


def fit(pixels: Images, name: str, **more: object) -> ClassGaussian:
    return ClassGaussian(epsilon=1.0).fit(records(pixels, name), **more)  # type: ignore[arg-type]


def test_known_records_are_charged_to_another_ledger_only_if_it_is_named() -> None:
    fit(images(), "scans")
    with pytest.raises(OtherLedger, match="used with the ledger scans"):
        fit(changed_pixel(), "copy")
    assert Ledger(ledger_path("copy")).rows() == []
    with pytest.warns(UserWarning, match="used with the ledger scans too"):
        fit(images(), "copy", ledger="copy")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        fit(images(), "copy")  # which knows them by now
        fit(images(), "scans", ledger="scans")


def test_runs_that_protect_nobody_leave_no_mark() -> None:
    fit(images(), "scans", seed=1)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        fit(images(), "other")


def test_a_ledger_used_with_other_records_is_said() -> None:
    fit(images(), "scans")
    with pytest.warns(UserWarning, match="used with other data so far"):
        fit(images(1), "scans")


def test_a_deleted_ledger_is_not_made_anew_in_silence() -> None:
    fit(images(), "scans")
    ledger_path("scans").unlink()
    with pytest.warns(UserWarning, match="The ledger scans is new, although"):
        fit(images(), "scans")


def test_a_run_that_is_not_let_in_leaves_no_mark() -> None:
    Ledger(ledger_path("scans")).set_cap(0.5, 1e-5)
    with pytest.raises(ValueError, match="has a cap"):
        fit(images(), "scans")
    fit(images(), "other")
