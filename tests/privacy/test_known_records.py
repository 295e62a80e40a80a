"""Records are recognised whatever their container, and charged to the ledger that knows them."""

import sqlite3
import threading
import time
import tracemalloc
import warnings
from pathlib import Path

import numpy as np
import pytest

from datalens import DataLensWarning
from datalens.data import Records
from datalens.errors import DataLensError, NotAdmitted
from datalens.privacy import known_records
from datalens.privacy.known_records import Known, KnownRecords, marks_of
from datalens.privacy.ledger import Ledger, ledger_path
from datalens.synthesizers.class_gaussian import ClassGaussian

Images = np.ndarray


def images(seed: int = 0, n: int = 300) -> Images:
    return np.random.default_rng(seed).integers(0, 256, (n, 1, 8, 8), dtype=np.uint8)


def charge(known: KnownRecords, ledger: str, pixels: Images, files: bytes | None = None) -> Known:
    """Remember that this ledger is charged for these images."""
    with known.charging(ledger, marks_of(pixels, known.key()), files) as found:
        return found


class Asked(Exception):
    """Nothing is to be remembered."""


def seen(known: KnownRecords, pixels: Images, files: bytes | None = None) -> set[str]:
    """The ledgers that know these images, as one that knows none would be answered."""
    try:
        with known.charging("another", marks_of(pixels, known.key()), files) as found:
            raise Asked
    except Asked:
        return set(found.others)


@pytest.fixture
def known(tmp_path: Path) -> KnownRecords:
    found = KnownRecords(tmp_path / "known.sqlite")
    charge(found, "first", images(), b"files")
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
    assert seen(known, others) == ({"first"} if recognised else set())


def test_the_same_files_are_seen_whatever_is_made_of_them(known: KnownRecords) -> None:
    assert seen(known, images(1), b"files") == {"first"}
    assert seen(known, images(1), b"other files") == set()
    assert known.has_runs_of("first") and not known.has_runs_of("second")


def test_empty_scans_are_nobody_s(known: KnownRecords) -> None:
    blank = np.zeros((300, 1, 8, 8), dtype=np.uint8)
    charge(known, "scans", blank)
    assert seen(known, blank) == set()


def test_large_sets_are_known_by_a_sample(
    known: KnownRecords, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(known_records, "MOST_MARKS", 500)
    many = images(2, 20_000)
    charge(known, "many", many)
    with sqlite3.connect(known.path) as database:
        sizes = [len(row[0]) // 8 for row in database.execute("SELECT marks FROM known")]
    database.close()
    assert sizes == [300, 500]
    assert seen(known, many[:10_000]) == {"many"}


def test_a_small_part_of_a_very_large_set_is_known_too(
    known: KnownRecords, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Few of its records are in the sample that was kept; they are compared with their like."""
    monkeypatch.setattr(known_records, "MOST_MARKS", 400)
    many = np.arange(1, 400 * 400 + 1, dtype=np.uint64)  # marks, of which 400 are kept
    with known.charging("many", many):
        pass
    with known.charging("other", many[::400] + np.uint64(100)) as found:
        assert found.others == ("many",)


def test_hashes_are_keyed_and_nobody_else_can_read_them(known: KnownRecords) -> None:
    assert known.path.stat().st_mode & 0o077 == 0
    stranger = KnownRecords(known.path.with_name("other.sqlite"))
    charge(stranger, "first", images(), b"files")
    stored = []
    for path in (known.path, stranger.path):
        with sqlite3.connect(path) as database:
            stored.append(database.execute("SELECT files, marks FROM known").fetchone())
        database.close()
    assert stored[0][0] != stored[1][0] and stored[0][1] != stored[1][1]


def test_what_was_added_before_is_added_once(known: KnownRecords) -> None:
    before = known.path.read_bytes()
    charge(known, "first", images(), b"files")
    with sqlite3.connect(known.path) as database:
        assert database.execute("SELECT count(*) FROM known").fetchone() == (1,)
    database.close()
    assert len(known.path.read_bytes()) == len(before)


def test_records_that_only_another_ledger_was_charged_for_are_told_from_those_of_both(
    known: KnownRecords,
) -> None:
    charge(known, "second", images(1))
    mixed = np.concatenate([images(), images(1)])
    with known.charging("second", marks_of(mixed, known.key())) as found:
        assert found == Known(others=("first",), familiar=True, used=True)
    with known.charging("second", marks_of(mixed, known.key())) as found:
        assert found == Known(others=(), familiar=True, used=True)


def test_no_more_than_an_image_is_copied(known: KnownRecords) -> None:
    pixels = np.random.default_rng(0).integers(0, 256, (200, 1, 128, 128), dtype=np.uint8)
    key = known.key()
    tracemalloc.start()
    marks_of(pixels, key)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < pixels.nbytes / 20


def test_of_two_runs_that_begin_at_once_one_knows_the_other(tmp_path: Path) -> None:
    """The second is not answered before the first is remembered."""
    path, answers = tmp_path / "known.sqlite", list[Known]()
    marks = marks_of(images(), KnownRecords(path).key())

    def begin() -> None:
        with KnownRecords(path).charging("second", marks) as found:
            answers.append(found)

    second = threading.Thread(target=begin)
    with KnownRecords(path).charging("first", marks) as found:
        second.start()
        time.sleep(1)
        assert answers == [] and found.others == ()
    second.join()
    assert answers[0].others == ("first",)


@pytest.mark.parametrize(
    "damage",
    [
        "UPDATE known SET marks = x'00'",
        "UPDATE known SET marks = 'text'",
        "UPDATE known SET ledger = x'00'",
        "UPDATE secret SET key = x'00'",
        "UPDATE secret SET key = 7",
        "DROP TABLE known; CREATE TABLE known (other TEXT)",
        "not SQL: the file is overwritten",
    ],
)
def test_a_damaged_file_is_one_sentence(known: KnownRecords, damage: str) -> None:
    if damage.startswith("not SQL"):
        known.path.write_bytes(b"damaged" * 1000)
    else:
        with sqlite3.connect(known.path) as database:
            database.executescript(damage)
        database.close()
    with pytest.raises(DataLensError, match="which says what records the ledgers know"):
        seen(known, images())


def records(pixels: Images, name: str) -> Records:
    return Records.from_arrays(pixels, np.arange(len(pixels)) % 2, n_classes=2, name=name)


def fit(pixels: Images, name: str, **more: object) -> ClassGaussian:
    return ClassGaussian(epsilon=1.0).fit(records(pixels, name), **more)  # type: ignore[arg-type]


def test_known_records_are_charged_to_another_ledger_only_if_it_is_named() -> None:
    fit(images(), "scans")
    with pytest.raises(NotAdmitted, match="used with the ledger scans"):
        fit(changed_pixel(), "copy")
    assert Ledger(ledger_path("copy")).rows() == []
    with pytest.warns(DataLensWarning, match="used with the ledger scans too"):
        fit(images(), "copy", ledger="copy")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        fit(images(), "copy")  # which knows them by now
        fit(images(), "scans", ledger="scans")


def test_a_ledger_that_knows_some_records_is_not_charged_for_others_that_it_does_not() -> None:
    fit(images(), "scans")
    fit(images(1), "copy")
    with pytest.raises(NotAdmitted, match="used with the ledger scans"):
        fit(np.concatenate([images(1), images()]), "copy")


def test_runs_that_protect_nobody_leave_no_mark() -> None:
    fit(images(), "scans", seed=1)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        fit(images(), "other")


def test_a_ledger_used_with_other_records_is_said() -> None:
    fit(images(), "scans")
    with pytest.warns(DataLensWarning, match="no run is known that charged the ledger scans"):
        fit(images(1), "scans")


def test_a_ledger_whose_records_were_forgotten_is_said() -> None:
    fit(images(), "scans")
    KnownRecords().path.unlink()
    with pytest.warns(DataLensWarning, match="no run is known that charged the ledger scans"):
        fit(images(), "scans")


@pytest.mark.parametrize("cap", [False, True])
def test_a_deleted_ledger_is_not_made_anew_in_silence(cap: bool) -> None:
    """Nor where a cap has put a first row into the new one."""
    fit(images(), "scans")
    ledger_path("scans").unlink()
    if cap:
        Ledger(ledger_path("scans")).set_cap(5.0, 1e-5)
    with pytest.warns(DataLensWarning, match="the ledger scans is new, although"):
        fit(images(), "scans")


def test_a_run_that_is_not_let_in_leaves_no_mark() -> None:
    Ledger(ledger_path("scans")).set_cap(0.5, 1e-5)
    with pytest.raises(ValueError, match="has a cap"):
        fit(images(), "scans")
    fit(images(), "other")
