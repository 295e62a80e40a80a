"""The verifier against the owner's whole ledger: edits, deletions and cuts made later are seen."""

import json
import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from datalens.data import Records
from datalens.errors import DataLensError
from datalens.privacy.chain import digest, link
from datalens.privacy.ledger import Ledger, ledger_path
from datalens.privacy.verify import verify
from datalens.synthesizers.class_gaussian import ClassGaussian


def fitted(folder: Path, epsilon: float = 1.0, delta: float = 1e-5) -> Path:
    chance = np.random.default_rng(0)
    images = chance.integers(0, 256, (40, 1, 8, 8), dtype=np.uint8)
    records = Records.from_arrays(images, np.arange(40) % 2, n_classes=2)
    method = ClassGaussian(epsilon=epsilon, delta=delta)
    method.fit(records, ledger="owned", allow_large_delta=True).save(folder)
    return folder


@pytest.fixture
def run(tmp_path: Path, own_home: Path) -> Path:
    """The second of three runs on one ledger."""
    fitted(tmp_path / "before")
    run = fitted(tmp_path / "run")
    fitted(tmp_path / "after")
    return run


def change(run: Path, edit: Callable[[sqlite3.Connection], object]) -> list[str]:
    path = ledger_path("owned")
    with sqlite3.connect(path) as database:
        edit(database)
    database.close()
    return verify(run, ledger=path)


def test_an_untouched_ledger_holds(run: Path) -> None:
    assert change(run, lambda database: None) == []


def rehash(database: sqlite3.Connection, start: int) -> None:
    """What a careful forger does after an edit: make the chain fit again."""
    rows = database.execute("SELECT row, run, key, body, hash FROM entries ORDER BY row").fetchall()
    previous = rows[start - 2][4]
    for row, name, key, body, _ in rows[start - 1 :]:
        previous = link(previous, digest(name, key, body))
        database.execute("UPDATE entries SET hash = ? WHERE row = ?", (previous, row))


def less_spent(database: sqlite3.Connection, row: int) -> None:
    (body,) = database.execute("SELECT body FROM entries WHERE row = ?", (row,)).fetchone()
    told = json.loads(body)
    told["charge"]["sigma"] *= 10
    text = json.dumps(told, sort_keys=True)
    database.execute("UPDATE entries SET body = ? WHERE row = ?", (text, row))


def delete_and_renumber(database: sqlite3.Connection) -> None:
    database.execute("DELETE FROM entries WHERE row <= 4")
    database.execute("UPDATE entries SET row = row - 4")
    database.execute("UPDATE entries SET hash = '' WHERE row = 1")


EDITS: dict[str, Callable[[sqlite3.Connection], Any]] = {
    "a row edited": lambda d: less_spent(d, 2),
    "a row of this run edited": lambda d: less_spent(d, 6),
    "a row edited and the chain made to fit": lambda d: (less_spent(d, 2), rehash(d, 2)),
    "a row deleted": lambda d: d.execute("DELETE FROM entries WHERE row = 3"),
    "the last rows cut off": lambda d: d.execute("DELETE FROM entries WHERE row >= 7"),
    "a whole earlier run deleted": delete_and_renumber,
    "everything deleted": lambda d: d.execute("DELETE FROM entries"),
    "two rows swapped": lambda d: (
        d.execute("UPDATE entries SET row = 99 WHERE row = 2"),
        d.execute("UPDATE entries SET row = 2 WHERE row = 3"),
        d.execute("UPDATE entries SET row = 3 WHERE row = 99"),
    ),
}


@pytest.mark.parametrize("edit", EDITS.values(), ids=EDITS.keys())
def test_every_later_change_is_seen(
    run: Path, edit: Callable[[sqlite3.Connection], object]
) -> None:
    assert change(run, edit)


def test_rows_cut_off_after_the_certificate_are_seen_by_a_later_one(
    run: Path, tmp_path: Path
) -> None:
    """An early certificate cannot know of them: it still holds. The last one sees the cut."""
    cut = "DELETE FROM entries WHERE row >= 10"
    assert change(run, lambda d: d.execute(cut)) == []
    assert verify(tmp_path / "after", ledger=ledger_path("owned"))


def test_the_writer_refuses_an_altered_ledger_too(run: Path) -> None:
    ledger = Ledger(ledger_path("owned"))
    change(run, lambda d: less_spent(d, 2))
    for refused in (lambda: ledger.reserve("next", [], facts={}), lambda: Ledger(ledger.path)):
        with pytest.raises(DataLensError, match="altered: row 2"):
            refused()


def test_the_extract_tells_nothing_of_other_runs(run: Path) -> None:
    text = (run / "ledger.json").read_text()
    rows = json.loads(text)["rows"]
    own = json.loads((run / "certificate.json").read_text())["run"]
    others = [row for row in rows if row.get("run") != own]
    assert [set(row) for row in others] == [{"row", "digest"}] * 4
    for other in {row.run for row in Ledger(ledger_path("owned")).rows()} - {own}:
        assert other not in text


def test_a_charge_cannot_hide_among_the_digests(run: Path) -> None:
    """Rows of a run are numbered, so showing one of them as a digest leaves a gap."""
    extract = json.loads((run / "ledger.json").read_text())
    row = extract["rows"][5]
    body = json.dumps(row["body"], sort_keys=True)
    extract["rows"][5] = {"row": 6, "digest": digest(row["run"], row["key"], body)}
    (run / "ledger.json").write_text(json.dumps(extract))
    wrong = verify(run)
    assert any("Rows of this run are missing" in sentence for sentence in wrong)
    assert not any("does not end in the hash" in sentence for sentence in wrong)


def test_a_row_cannot_say_one_thing_and_prove_another(run: Path) -> None:
    """With the true digest beside a forged body, the chain's head would still be right."""
    extract = json.loads((run / "ledger.json").read_text())
    certificate = json.loads((run / "certificate.json").read_text())
    for row in extract["rows"]:
        if "body" in row:
            body = json.dumps(row["body"], sort_keys=True)
            row["digest"] = digest(row["run"], row["key"], body)
    for charge in [
        *(row["body"]["charge"] for row in extract["rows"] if "charge" in row.get("body", {})),
        *(c for row in extract["rows"] for c in row.get("body", {}).get("plan", [])),
        *certificate["mechanisms"],
    ]:
        charge["sigma"] *= 100
    (run / "ledger.json").write_text(json.dumps(extract))
    (run / "certificate.json").write_text(json.dumps(certificate))
    assert any("a field 'digest' that DataLens does not write" in said for said in verify(run))


@pytest.mark.parametrize("epsilon, delta", [(9000.0, 1e-5), (3000.0, 0.5), (1e-4, 0.3)])
def test_honest_certificates_far_from_the_usual_hold(
    tmp_path: Path, epsilon: float, delta: float
) -> None:
    assert verify(fitted(tmp_path / "run", epsilon, delta)) == []


def test_the_verifier_shares_no_code_with_the_ledger() -> None:
    """It may import the file format's sentences, errors, and libraries: nothing that writes."""
    import ast

    import datalens.privacy.verify as module

    root = Path(str(module.__file__)).parents[1]

    def shared(file: str) -> set[str]:
        nodes = ast.walk(ast.parse((root / file).read_text()))
        imported = [str(node.module) for node in nodes if isinstance(node, ast.ImportFrom)]
        return {name for name in imported if name.startswith("datalens")}

    names = {"fields", "rechain", "recompute", "recost", "reloss", "replan", "signing", "wording"}
    own = {f"datalens.privacy.{name}" for name in names}
    bare = {"datalens.data.documents", "datalens.errors"}
    assert shared("privacy/verify.py") <= bare | own
    for file in ("data/documents", *(f"privacy/{name}" for name in names)):
        words = {"datalens.privacy.rounding"} if file.endswith("wording") else set()
        assert shared(f"{file}.py") <= {"datalens.errors"} | own | words
    assert shared("privacy/rounding.py") == set()  # how figures in those words are written
