"""The profile of `evaluate`, on few images."""

import json
import time
from pathlib import Path
from typing import Any

import evaluating
import numpy as np
import pytest

from datalens.data import load
from datalens.workflows import evaluation
from datalens.workflows.cache import Cache
from datalens.workflows.source import Source

STAGES = ["reading real records", "synthetic images", "domain classifier", "cnn"]
STAGES += ["logistic-regression", "measures", "nearest records", "membership attacks"]


@pytest.fixture
def some(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A file of digits, while what is patched for the measurement is put back afterwards."""
    for holder, name in {place for places in evaluating.STAGES.values() for place in places}:
        monkeypatch.setattr(holder, name, getattr(holder, name))
    digits = load("digits")
    np.savez(tmp_path / "some.npz", images=digits.images[:300], labels=digits.labels[:300])
    return tmp_path / "some.npz"


def test_every_stage_is_measured_and_nothing_twice(some: Path) -> None:
    found = evaluating.measure(some, Source(name="digits"), stop_after=1000)
    assert set(found["stages"]) == {*STAGES, "all else"} and found["stopped_in"] is None
    for place in (0, 1):
        spent = [each[place] for each in found["stages"].values()]
        assert sum(spent) == pytest.approx(found["total"][place]) and min(spent) >= 0
    page = evaluating.page({"now": found})
    assert all(f"| {stage} | " in page for stage in [*STAGES, "all else", "all"])
    assert "(300 images) |" in page and "| over " not in page


def test_what_takes_too_long_is_stopped_and_marked(
    some: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def forever(*given: Any, **named: Any) -> None:
        deadline = time.process_time() + 60
        while time.process_time() < deadline:
            pass

    monkeypatch.setattr(Cache, "domain", forever)
    monkeypatch.setattr(evaluation, "_classified", None)
    found = evaluating.measure(some, Source(name="digits"), stop_after=3)
    assert found["stopped_in"] == "domain classifier" and found["figures"] == {}
    page = evaluating.page({"now": found})
    assert "| domain classifier | over " in page and "| all | over " in page


def test_what_is_published_is_what_the_script_writes() -> None:
    files = sorted(evaluating.FOLDER.glob("*.json"))
    kept = {file.stem: json.loads(file.read_text()) for file in files}
    assert evaluating.page(kept) == (evaluating.FOLDER / "README.md").read_text()
