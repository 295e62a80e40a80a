"""`datalens audit` from end to end, small."""

import json
import subprocess
import sys
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from datalens.errors import DataLensError
from datalens.mechanism.moments import SecondMoments
from datalens.mechanism.topagg import TopAgg
from datalens.privacy.accountants import Charge
from datalens.privacy.audit import share_moved
from datalens.synthesizers import ClassGaussian
from datalens.workflows import cli
from datalens.workflows.audit import planted, running
from datalens.workflows.audit.tables import audit_tables


def quiet(attack: str, done: int, total: int) -> None:
    return None


def test_all_attacks_hold_on_the_true_code() -> None:
    result = running.audit(trials=60, runs=20, tell=quiet)
    assert result["holds"]
    assert [entry["attack"] for entry in result["attacks"]] == list(running.ATTACKS)
    for entry in result["attacks"]:
        assert entry["mu"] == pytest.approx(1, abs=1e-3)
        assert 0.5 < entry["largest_move"] <= 1
        assert [bound["delta"] for bound in entry["bounds"]] == list(running.DELTAS)
    assert len(audit_tables(result)["Attacks on our own mechanism"][1]) == 9


@pytest.mark.parametrize("method", planted.SETTINGS)
def test_the_adversary_replays_the_run_bit_for_bit(method: str, tmp_path: Path) -> None:
    """In its own world it finds what the run had, in the other one something else."""
    worlds = planted.worlds(method)
    real = planted.listen(method, worlds.present, tmp_path)
    same, other = (planted.replay(method, world, real) for world in reversed(worlds))
    pairs = zip(real.heard, same, other, strict=True)
    for own, again, away in pairs:
        assert np.array_equal(own.value, again.value)
        assert not np.array_equal(own.value, away.value)
        assert not np.array_equal(own.value, own.release)


def test_a_black_image_is_no_blank_for_second_moments() -> None:
    """Why the audit leaves a blanked record out: black is a record too, away from its mean."""
    centre = np.array([[255] * 4 + [0] * 60])
    moments = SecondMoments(bound=510, sigma=1.0, centres=centre)
    images = np.zeros((2, 1, 8, 8), dtype=np.uint8)
    images[1].ravel()[:8] = 255
    nothing, black, record = (
        moments.query(images[rows], np.zeros(len(rows), dtype=np.int64)) for rows in ([], [0], [1])
    )
    paid = Charge(event=moments.event, count=1)
    assert 0.999 < share_moved(record, nothing, paid) <= 1
    assert share_moved(record, black, paid) > 1  # a replacement, for which twice as much is paid


def test_too_few_trials_are_refused() -> None:
    for trials, runs in ((3, 20), (20, 3), (0, 20), (20, -1)):
        with pytest.raises(DataLensError, match="20 trials"):
            running.audit(trials=trials, runs=runs, tell=quiet)


@pytest.fixture
def command(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Any:
    """The command with the quick attack only, and in this process, so that patches reach it."""
    monkeypatch.setattr(running, "ATTACKS", {"tallies": running.ATTACKS["tallies"]})
    monkeypatch.setattr(running, "all_cores", nullcontext)

    def call(*words: object) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["datalens", "audit", *map(str, words)])
        try:
            cli.main()
            code = 0
        except SystemExit as stop:
            code = int(stop.code or 0)
        return (code, *capsys.readouterr())

    return call


SMALL = ("--trials", 60, "--runs", 20)


def test_the_command(command: Any, tmp_path: Path) -> None:
    code, out, _ = command(*SMALL, "--out", tmp_path / "figures.json", "--json")
    assert code == 0 and json.loads(out)["holds"] is True
    assert json.loads((tmp_path / "figures.json").read_text()) == json.loads(out)


def test_figures_of_a_run_stay_inside_it(command: Any, tmp_path: Path) -> None:
    from datalens.data import load

    run, figures = tmp_path / "run", tmp_path / "figures.json"
    ClassGaussian(epsilon=1.0).fit(load("digits"), ledger="digits").save(run)
    (run / "internal").mkdir()
    code, out, err = command(*SMALL, "--run", run, "--on", "digits", "--out", figures)
    assert code == 0 and "density ratio" in out and "All claims hold" in out
    kept = json.loads((run / "internal" / "audit.json").read_text())
    assert [entry["attack"] for entry in kept["attacks"]] == ["nearest neighbour", "density ratio"]
    assert kept["internal"] is True and "(internal)" in out
    assert "membership" not in json.loads(figures.read_text())
    code, _, err = command(*SMALL, "--run", run)
    assert code == 2 and "--on" in err
    code, _, err = command(*SMALL, "--run", run, "--on", "fashion-mini")
    assert code == 2 and "was not trained on" in err
    train, test = load("digits"), load("digits", split="test")  # as many, under another name
    arrays = {"images": train.images, "labels": train.labels, "test_images": test.images}
    np.savez(tmp_path / "other.npz", **arrays, test_labels=test.labels)
    words = ("--run", run, "--on", tmp_path / "other.npz", "--classes", 10)
    code, _, err = command(*SMALL, *words)
    assert code == 2 and "was not trained on" in err


def test_an_exceeded_claim_is_exit_code_1(command: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    def none(self: TopAgg, shape: Any, *, noise: Any, key: str) -> Any:
        return np.zeros(shape, dtype=np.int64)

    monkeypatch.setattr(TopAgg, "draw", none)
    code, out, _ = command("--trials", 400, "--runs", 20)
    assert code == 1 and "EXCEEDED" in out and "does NOT hold" in out


@pytest.mark.slow
def test_the_command_on_all_cores(tmp_path: Path) -> None:
    words = [sys.executable, "-m", "datalens", "audit", *map(str, SMALL), "--json"]
    done = subprocess.run(words, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    trials = [entry["trials_in_each_world"] for entry in json.loads(done.stdout)["attacks"]]
    assert trials == [60, 20, 20]
