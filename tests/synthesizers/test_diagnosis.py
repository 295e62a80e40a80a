"""The data-dependent bound of a run: written inside, seen by nobody outside, changing nothing."""

import ast
import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import datalens
from datalens import DataLens, Records
from datalens.privacy.data_dependent import least_passing, peaks
from datalens.synthesizers import diagnosis
from datalens.synthesizers.diagnosis import FILE, MIXED, NEAR_ONE, NO_THRESHOLD, NOT_SEEN
from datalens.synthesizers.session import Session, Silent, Stopped
from datalens.workflows.fitting import Source, fit_run
from datalens.workflows.publishing import export

SMALL: dict[str, Any] = {
    "epsilon": 10.0,
    "n_teachers": 6,
    "steps": 4,
    "batch_size": 5,
    "latent": 8,
    "teacher_warm_up": 1,
    "label_steps": 2,
    "quorum": 0.5,
}


def records() -> Records:
    chance = np.random.default_rng(0)
    images = chance.integers(0, 256, (60, 1, 8, 8), dtype=np.uint8)
    return Records.from_arrays(images, np.arange(60) % 3, n_classes=3, name="stripes")


def fit(folder: Path, *, observer: Silent | None = None, **changes: Any) -> DataLens:
    session = (
        Session.resume(folder=folder, observer=observer)
        if folder.exists()
        else Session.start(ledger="x", folder=folder, seed=4, observer=observer)
    )
    return DataLens(**{**SMALL, **changes}).fit(records(), session=session)


def lines(folder: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (folder / FILE).read_text().splitlines()]


class StopAfter(Silent):
    def __init__(self, votes: int) -> None:
        self.votes, self.seen = votes, 0

    def progress(self, stage: str, done: int, total: int, *, spent: float | None = None) -> None:
        self.seen = done if stage == "votes" else 0

    def stopping(self) -> bool:
        return self.seen >= self.votes


def test_every_step_has_a_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tallies = []

    class Witness(diagnosis.Diagnosis):
        def __call__(self, key: str, tally: Any) -> None:
            if key.startswith("votes/"):
                tallies.append(tally.copy())
            super().__call__(key, tally)

    monkeypatch.setattr(diagnosis, "Diagnosis", Witness)
    fitted = fit(tmp_path / "internal")
    found = lines(tmp_path / "internal")
    assert [line["step"] for line in found] == [0, 1, 2, 3]
    assert "Private" in found[0]["about"]
    topagg = fitted.plan.topagg  # type: ignore[union-attr]
    for line, tally in zip(found, tallies, strict=True):
        right = peaks(tally, sigma=topagg.sigma, passing=least_passing(0.5, 6))
        assert line["log_q"] == right.log_q.tolist() and len(line["log_q"]) == 5
        assert line["log_peak"] == right.log_peak.tolist()
        shares = [max(abs(int(n)) for n in image) / 6 for image in tally]  # of six teachers
        assert line["agreement"] == shares and 0 < min(shares) <= max(shares) <= 1
        assert line["epsilon"]["dependent"] is None and line["not_applicable"] == NEAR_ONE
    spent = fitted.certificate["epsilon"]["certified"]
    assert found[-1]["epsilon"]["independent"] == pytest.approx(spent)
    assert found[-1]["epsilon"]["least"] == found[-1]["epsilon"]["independent"]


def test_without_a_threshold_it_says_so(tmp_path: Path) -> None:
    fit(tmp_path / "internal", threshold=False, quorum=None)
    for line in lines(tmp_path / "internal"):
        assert line["not_applicable"] == NO_THRESHOLD and "log_q" not in line
        assert line["epsilon"]["independent"] > 0


@pytest.mark.parametrize("compressor", ["d2pfed", "fetchsgd"])
def test_where_entries_are_mixed_it_says_so(tmp_path: Path, compressor: str) -> None:
    fit(tmp_path / "internal", compressor=compressor)
    found = lines(tmp_path / "internal")
    assert len(found) == SMALL["steps"]
    for line in found:
        assert line["not_applicable"] == MIXED and not {"log_q", "agreement"} & set(line)


def test_a_number_where_it_is_applicable(tmp_path: Path) -> None:
    """Votes that always come out the same: no release passes such a quorum."""
    fit(tmp_path / "internal", quorum=100.0, sigma=20.0, epsilon=1e4, steps=3)
    for line in lines(tmp_path / "internal"):
        cost = line["epsilon"]
        assert cost["dependent"] < cost["independent"]
        assert cost["least"] <= cost["dependent"] * (1 + 1e-9) and "not_applicable" not in line


def broken(*ignored: Any, **named: Any) -> None:
    raise MemoryError("no room for a diagnosis")


@pytest.mark.parametrize("fault", ["left out", "failing", "unwritable"])
def test_it_changes_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fault: str) -> None:
    """Bit for bit the same generator and ledger with it, without it, and when it fails."""
    whole = fit(tmp_path / "a" / "internal")
    if fault == "left out":
        monkeypatch.setattr(
            "datalens.synthesizers.datalens.diagnosed", lambda session, plan: session
        )
    elif fault == "failing":
        monkeypatch.setattr(diagnosis, "peaks", broken)
    else:
        monkeypatch.setattr(diagnosis, "FILE", "no/such/folder")
    other = fit(tmp_path / "b" / "internal")
    assert not (tmp_path / "b" / "internal" / FILE).exists()
    for name, array in whole._arrays().items():
        assert np.array_equal(array, other._arrays()[name]), name
    assert whole.certificate["epsilon"] == other.certificate["epsilon"]
    charges = (
        [row["body"].get("charge") for row in fitted._extract if "body" in row]
        for fitted in (whole, other)
    )
    assert next(charges) == next(charges)


def test_a_resumed_run_goes_on_with_its_lines(tmp_path: Path) -> None:
    fit(tmp_path / "whole")
    folder = tmp_path / "internal"
    with pytest.raises(Stopped):
        fit(folder, observer=StopAfter(2))
    with (folder / FILE).open("a") as file:
        file.write('{"step": 1, "log_q')  # cut by a crash
    fit(folder)
    assert lines(folder) == lines(tmp_path / "whole")


def test_a_step_it_has_not_seen_is_named(tmp_path: Path) -> None:
    folder = tmp_path / "internal"
    changes = {"quorum": 100.0, "sigma": 20.0, "epsilon": 1e4}
    with pytest.raises(Stopped):
        fit(folder, observer=StopAfter(2), **changes)
    (folder / FILE).unlink()
    shutil.rmtree(folder / "checkpoint")
    fit(folder, **changes)
    found = lines(folder)
    assert [line["step"] for line in found] == [2, 3]
    for line in found:
        assert line["not_applicable"] == NOT_SEEN
        assert line["epsilon"]["least"] < line["epsilon"]["independent"]


def test_it_is_not_among_what_is_published(tmp_path: Path) -> None:
    np.savez(tmp_path / "data.npz", images=records().images, labels=records().labels)
    source = Source(name=str(tmp_path / "data.npz"), n_classes=3)
    run = tmp_path / "run"
    fit_run(DataLens(**SMALL), source, run, ledger="x", seed=1, quiet=True)
    assert (run / "internal" / FILE).exists()
    export(run, tmp_path / "out")
    for file in (tmp_path / "out").rglob("*"):
        assert file.name != FILE
        for word in (b"data_dependent", b"log_peak", b"log_q"):
            assert word not in file.read_bytes(), file


def test_only_the_diagnosis_knows_of_it() -> None:
    """No ledger, certificate, report or command imports what computes it."""
    root = Path(datalens.__file__).parent
    importers = {}
    for file in root.rglob("*.py"):
        for node in ast.walk(ast.parse(file.read_text())):
            module = node.module if isinstance(node, ast.ImportFrom) else None
            if module and module.endswith(("privacy.data_dependent", "synthesizers.diagnosis")):
                importers.setdefault(module.rsplit(".")[-1], set()).add(file.name)
    assert importers == {"data_dependent": {"diagnosis.py"}, "diagnosis": {"datalens.py"}}
