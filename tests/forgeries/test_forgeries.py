"""Every honest run holds, and no forgery does; see table.py for what is forged."""

import json
import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from datalens.errors import DataLensError
from datalens.privacy.fields import SETTINGS
from datalens.privacy.ledger import ledger_path
from datalens.privacy.signing import SIGNATURE, is_signed, public_key
from datalens.privacy.verify import said_by, unchecked, verify
from datalens.synthesizers import METHODS
from datalens.synthesizers.private_classifier import CLASSIFIERS
from datalens.utility.validation import ValidationSettings

from . import honest
from .forger import Forger
from .table import BELIEVED, CHAIN, FORGERIES, SUMS, VOTES, Forgery

Runs = Callable[[str], Path]


@pytest.fixture(scope="session")
def made(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Runs]:
    """Each honest run, made when it is first asked for."""
    folder, found = tmp_path_factory.mktemp("honest"), dict[str, Path]()

    def run(name: str) -> Path:
        if name not in found:
            with pytest.MonkeyPatch.context() as patch:
                patch.setitem(os.environ, "DATALENS_HOME", str(folder / "home"))
                found[name] = honest.make(name, folder / f"run-{len(found)}")
        return found[name]

    yield run


@pytest.fixture
def runs(made: Runs, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Runs:
    """A copy of what such a run publishes, and its owner's home."""

    def copy(name: str) -> Path:
        run = made(name)
        monkeypatch.setenv("DATALENS_HOME", str(run.parent / "home"))
        target = tmp_path / run.name
        return shutil.copytree(run, target, ignore=lambda *_: ["internal"], dirs_exist_ok=True)

    return copy


def ledger_of(name: str) -> Path:
    seeded = name in (honest.SEEDED, "dcgan")
    return ledger_path(f"{honest.LEDGER}.NOT-PRIVATE" if seeded else honest.LEDGER)


def own_key() -> str:
    return public_key(ledger_path(honest.LEDGER).parent)


@pytest.mark.parametrize("name", honest.NAMES)
def test_every_honest_run_holds(name: str, runs: Runs) -> None:
    run = runs(name)
    ledger, key = ledger_of(name), own_key()
    assert verify(run) == verify(run, ledger=ledger, key=key) == []
    logged = ["log.jsonl (no hash covers it)"] if (run / "log.jsonl").exists() else []
    marked = ["NOT-PRIVATE.txt (no hash covers it)"] if "NOT" in said_by(run) else []
    assert unchecked(run, ledger=ledger, key=key) == [*marked, *logged]
    (run / "config.toml").unlink()
    (said,) = verify(run, ledger=ledger, key=key)
    assert "config.toml is not here" in said


@pytest.mark.parametrize("forgery", FORGERIES, ids=[forgery.name for forgery in FORGERIES])
def test_no_forgery_holds(forgery: Forgery, runs: Runs) -> None:
    run = runs(forgery.run)
    forger = Forger(run)
    forgery.change(forger)
    (forger.rechain if forgery.how is CHAIN else forger.write)()
    wrong = verify(run)
    if forgery.said is BELIEVED:
        assert wrong == []
        assert {"who issued the certificate", "whether the ledger still has these rows"} <= {
            words.split(" (")[0] for words in unchecked(run)
        }
    else:
        assert any(forgery.said in said for said in wrong), wrong
    assert all(said.isprintable() for said in wrong)
    assert verify(run, key=own_key())
    if forgery.how is CHAIN:
        content, signature = (run / "certificate.json").read_bytes(), (run / SIGNATURE).read_text()
        assert not is_signed(content, signature, own_key())
        assert verify(run, ledger=ledger_of(forgery.run))


def in_text(name: str, old: str, new: str) -> Callable[[Path], object]:
    def edit(run: Path) -> None:
        text = (run / name).read_text()
        assert old in text
        (run / name).write_text(text.replace(old, new, 1))

    return edit


def link(name: str, target: str) -> Callable[[Path], object]:
    def edit(run: Path) -> None:
        (run / name).unlink()
        (run / name).symlink_to(target)

    return edit


def fifo(name: str) -> Callable[[Path], object]:
    return lambda run: ((run / name).unlink(), os.mkfifo(run / name))


def folder(name: str) -> Callable[[Path], object]:
    return lambda run: ((run / name).unlink(), (run / name).mkdir())


def huge(name: str) -> Callable[[Path], object]:
    return lambda run: os.truncate(run / name, 2**40)


def many(run: Path) -> None:
    """So many mechanisms that it would take hours to try every kind for each."""
    body = json.loads((run / "certificate.json").read_text())
    body["mechanisms"] = [{}] * 2_000_000
    (run / "certificate.json").write_text(json.dumps(body))


def certified(old: str, new: str) -> Callable[[Path], object]:
    return in_text("certificate.json", old, new)


FILES: dict[str, tuple[Callable[[Path], object], str]] = {
    "a key twice": (certified('"delta":', '"delta": 0.5, "delta":'), "twice"),
    "a key twice in a row": (in_text("ledger.json", '"row":', '"row": 0, "row":'), "twice"),
    "epsilon 1e400": (certified('"paper": ', '"paper": 1e400, "a": '), "does not write"),
    "epsilon of 5000 digits": (certified('"paper":', f'"a": {"9" * 5000}, "paper":'), "is no JSON"),
    "a comment": (in_text("config.toml", "[data]", "# Audited.\n[data]"), "as DataLens writes it"),
    "a link to no generator": (link("generator.safetensors", "nothing"), "leads nowhere"),
    "a link to no configuration": (link("config.toml", "nothing"), "leads nowhere"),
    "a picture without end": (link("samples.png", "/dev/zero"), "no plain file"),
    "a report that waits": (fifo("report.html"), "no plain file"),
    "a configuration that waits": (fifo("config.toml"), "no plain file"),
    "an extract that is a folder": (folder("ledger.json"), "no plain file"),
    "a certificate in a circle": (link("certificate.json", "certificate.json"), "does not exist"),
    "a huge generator": (huge("generator.safetensors"), "too large"),
    "a huge certificate": (huge("certificate.json"), "too large"),
    "millions of mechanisms": (many, "lacks the field"),
    "no extract": (lambda run: (run / "ledger.json").unlink(), "ledger.json is missing"),
}


@pytest.mark.parametrize("change, said", FILES.values(), ids=FILES.keys())
def test_files_that_cannot_be_read_are_refused(
    change: Callable[[Path], object], said: str, runs: Runs
) -> None:
    run = runs(SUMS)
    change(run)
    try:
        wrong = verify(run)
    except DataLensError as error:
        wrong = [str(error)]
    assert any(said in sentence for sentence in wrong), wrong


def of_another(name: str) -> Callable[[Path, Path], object]:
    return lambda run, other: shutil.copyfile(other / name, run / name)


MIXED: dict[str, tuple[str, str]] = {
    "ledger.json": (VOTES, "rows of another run"),
    "certificate.json": (VOTES, "rows of another run"),
    "config.toml": (VOTES, "is not the file"),
    "generator.safetensors": (VOTES, "is not the file"),
    "samples.png": (VOTES, "is not the file"),
    "report.html": (VOTES, "is not the file"),
}


@pytest.mark.parametrize("name", MIXED)
def test_files_of_two_runs_do_not_fit(name: str, runs: Runs) -> None:
    other, said = MIXED[name]
    shutil.copyfile(runs(other) / name, (run := runs(SUMS)) / name)
    wrong = verify(run)
    assert any(said in sentence or "does not write" in sentence for sentence in wrong), wrong


SIGNATURES: dict[str, Callable[[Path, Path], object]] = {
    "none": lambda run, other: (run / SIGNATURE).unlink(),
    "another run's": of_another(SIGNATURE),
    "no text": lambda run, other: (run / SIGNATURE).write_bytes(b"\xff\xfe\x00"),
    "empty": lambda run, other: (run / SIGNATURE).write_text(""),
    "cut": lambda run, other: (run / SIGNATURE).write_text((run / SIGNATURE).read_text()[:-9]),
    "twice": lambda run, other: (run / SIGNATURE).write_text((run / SIGNATURE).read_text() * 2),
    "zeros": lambda run, other: (run / SIGNATURE).write_text("A" * 86 + "=="),
}


@pytest.mark.parametrize("change", SIGNATURES.values(), ids=SIGNATURES.keys())
def test_only_the_owner_s_signature_over_these_bytes_counts(
    change: Callable[[Path, Path], object], runs: Runs, tmp_path: Path
) -> None:
    other, run = runs(VOTES), runs(SUMS)
    assert verify(run, key=own_key()) == []
    stranger = public_key(tmp_path / "stranger")
    assert any("not signed by the owner" in said for said in verify(run, key=stranger))
    change(run, other)
    (said,) = verify(run, key=own_key())
    assert "signed" in said or "is not here" in said
    assert verify(run) == []


def test_what_is_not_checked_is_said(runs: Runs) -> None:
    run = runs(SUMS)
    for name in ("log.jsonl", "AUDIT\x1b[2J.txt"):
        (run / name).write_text("epsilon 0.01")
    (run / "samples.png").unlink()
    (run / "generator.safetensors").unlink()
    assert verify(run) == []
    assert unchecked(run) == [
        "generator.safetensors (it is not here)",
        "samples.png (it is not here)",
        "AUDIT\N{REPLACEMENT CHARACTER}[2J.txt (no hash covers it)",
        "log.jsonl (no hash covers it)",
        "who issued the certificate (give the owner's public key with --key)",
        "whether the ledger still has these rows (its owner names it with --ledger)",
    ]


def test_releases_that_a_crash_has_lost_are_said(runs: Runs) -> None:
    (lost,) = (forgery for forgery in FORGERIES if "as by a crash" in forgery.name)
    run = runs(lost.run)
    assert not any("reserved" in words for words in unchecked(run))
    forger = Forger(run)
    lost.change(forger)
    forger.rechain()
    (said,) = (words for words in unchecked(run) if "reserved" in words)
    assert "second-moments" in said and "cluster-sums" in said and "votes" not in said


def test_a_delta_that_protects_nobody_is_said(runs: Runs) -> None:
    (loose,) = (forgery for forgery in FORGERIES if forgery.name == "delta of votes raised")
    run = runs(loose.run)
    assert "whole records" not in said_by(run)
    forger = Forger(run)
    loose.change(forger)
    forger.rechain()
    assert "whole records" in said_by(run)


def test_the_settings_that_verify_knows_are_those_that_there_are() -> None:
    kinds: dict[str, Any] = {
        **{name: kind.settings_type for name, kind in {**METHODS, **CLASSIFIERS}.items()},
        "validation": ValidationSettings,
    }
    assert {name: set(kind.model_fields) for name, kind in kinds.items()} == SETTINGS
