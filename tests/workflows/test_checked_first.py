"""Nothing is drawn from, reported of or published from a run whose certificate does not hold."""

import json
import re
import shutil
import sqlite3
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

from datalens import DataLens, DataLensError
from datalens.synthesizers.private_classifier import CLASSIFIERS
from datalens.workflows.report import page

CLASSIFY = ("classify", "digits", "--epsilon", 5, "--method", "scatter", "--steps", 2)
FIT = ("fit", "digits", "--epsilon", 5, "--set", "clusters=2", "--set", "label_steps=2")


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run and the ledgers' home, made once."""
    return tmp_path_factory.mktemp("made")


@pytest.fixture
def fitted(run: Any, made: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("DATALENS_HOME", str(made / "home"))
    if not (made / "run").exists():
        assert run(*FIT, "--out", made / "run").code == 0
    shutil.copytree(made / "run", tmp_path / "run")
    return tmp_path / "run"


def smaller_epsilon(folder: Path) -> None:
    certificate = json.loads((folder / "certificate.json").read_text())
    certificate["epsilon"]["certified"] = 1.0
    (folder / "certificate.json").write_text(json.dumps(certificate))


COMMANDS = [
    ("sample", "run", "--count", 5, "--out", "drawn.npz"),
    ("export", "run", "--out", "public"),
    ("report", "run", "--out", "page.html"),
]


@pytest.mark.parametrize("words", COMMANDS, ids=lambda words: words[0])
def test_a_certificate_that_does_not_hold_is_refused(
    run: Any, fitted: Path, words: tuple[object, ...]
) -> None:
    target = fitted.parent / str(words[-1])
    smaller_epsilon(fitted)
    refused = run(*words)
    assert refused.code == 2 and "does not hold" in refused.err and not target.exists()


@pytest.mark.parametrize("words", COMMANDS, ids=lambda words: words[0])
def test_one_that_holds_is_not(run: Any, fitted: Path, words: tuple[object, ...]) -> None:
    assert run(*words).code == 0
    assert (fitted.parent / str(words[-1])).exists()


def test_another_generator_is_neither_drawn_from_nor_published(run: Any, fitted: Path) -> None:
    """Also where the ledger is at hand and the certificate names the other one."""
    weights = load_file(fitted / "generator.safetensors")
    darker = weights | {"model.means": weights["model.means"] * np.float32(0.5)}
    save_file(darker, fitted / "generator.safetensors")
    for words in COMMANDS:
        refused = run(*words)
        assert refused.code == 2 and "generator.safetensors" in refused.err


def test_python_does_not_load_one_either(fitted: Path) -> None:
    assert len(DataLens.load(fitted).sample(3).labels) == 3
    smaller_epsilon(fitted)
    with pytest.raises(DataLensError, match=r"does not hold: .* datalens verify"):
        DataLens.load(fitted)


def test_nor_where_the_ledger_was_altered(fitted: Path, made: Path) -> None:
    ledger = made / "home" / "ledgers" / "digits.sqlite"
    before = ledger.read_bytes()
    with sqlite3.connect(ledger) as database:
        found = database.execute(
            "UPDATE entries SET body = replace(body, '\"count\": 1', '\"count\": 2')"
        )
        assert found.rowcount > 0
    database.close()
    try:
        with pytest.raises(DataLensError, match=r"does not hold: .*ledger"):
            DataLens.load(fitted)
    finally:
        ledger.write_bytes(before)


def test_a_classifier_is_checked_before_it_predicts(run: Any, tmp_path: Path) -> None:
    assert run(*CLASSIFY, "--out", "run").code == 0
    predict = ("predict", "run", "digits", "--out")
    assert run(*predict, "first.csv").code == 0
    smaller_epsilon(tmp_path / "run")
    refused = run(*predict, "second.csv")
    assert refused.code == 2 and "does not hold" in refused.err
    assert not (tmp_path / "second.csv").exists()
    with pytest.raises(DataLensError, match="does not hold"):
        CLASSIFIERS["scatter"].load(tmp_path / "run")


@pytest.mark.parametrize(
    "way", ["link/public", "run/log.d/../internal/public", "other/internal/public", "internal/x"]
)
def test_no_way_round_leads_into_the_private_half(
    run: Any, fitted: Path, monkeypatch: pytest.MonkeyPatch, way: str
) -> None:
    (fitted.parent / "link").symlink_to(fitted / "internal")
    (fitted.parent / "other").symlink_to(fitted)
    if way == "internal/x":
        monkeypatch.chdir(fitted)
    refused = run("export", fitted, "--out", way)
    assert refused.code == 2 and "private half" in refused.err
    assert not list((fitted / "internal").rglob("certificate.json"))


@pytest.mark.parametrize("inside", ["internal", "internal/x", "internal/x/y"])
def test_the_private_half_is_no_place_to_publish_in(run: Any, fitted: Path, inside: str) -> None:
    refused = run("export", "run", "--out", f"run/{inside}/public")
    assert refused.code == 2 and "private half" in refused.err
    assert not (fitted / inside / "public").exists()


def test_the_key_that_the_ledger_shows_checks_the_signature(run: Any, fitted: Path) -> None:
    assert run("export", "run", "--out", "public").code == 0
    (key,) = re.findall(r"verify --key (\S+)", run("ledger", "digits").out)
    assert run("ledger", "digits", "--json").json["public_key"] == key
    alone = run("verify", "public")
    assert alone.code == 0 and "Not checked: who issued the certificate" in alone.out
    signed = run("verify", "public", "--key", key)
    assert signed.code == 0 and "signed by the owner of this public key" in signed.out
    assert "who issued" not in signed.out
    other = run("verify", "public", "--key", f"{'A' * 43}=")
    assert other.code == 1 and "not signed by the owner" in other.out


def test_the_report_that_the_ledger_vouches_for_stays(
    run: Any, fitted: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is written again to the byte, and by another version of the program somewhere else."""
    before = (fitted / "report.html").read_bytes()
    assert run("report", "run").code == 0
    assert (fitted / "report.html").read_bytes() == before
    monkeypatch.setitem(page._FILTERS, "count", lambda number: f"{number} (written otherwise)")
    refused = run("report", "run")
    assert refused.code == 2 and "--out FILE.html" in refused.err
    assert (fitted / "report.html").read_bytes() == before
    assert run("report", "run", "--out", "other.html").code == 0
    assert run("verify", "run").code == 0


def test_one_epsilon_is_said_and_the_others_stand_in_a_table(run: Any, tmp_path: Path) -> None:
    said = run(*FIT, "--out", "again").out
    first, *rest = said.splitlines()
    assert re.fullmatch(r"epsilon 5 spent, at delta 1e-05\.", first)
    assert [line for line in rest if line.startswith("epsilon")] == []
    for words in ("if a record is replaced", "the paper's Theorem 3", "no bound"):
        assert words in said


def test_a_tiny_epsilon_is_shown_as_it_is(run: Any, tmp_path: Path) -> None:
    tiny = ("fit", "digits", "--epsilon", "1e-9", "--method", "class-gaussian", "--out", "tiny")
    shown = run(*tiny)
    assert re.search(r"epsilon [1-9]\.\d+e-10 spent", shown.out)
    assert "0.001 of" not in shown.err
