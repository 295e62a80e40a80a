"""What is told of a run while it trains: the log, pictures, TensorBoard, the dashboard."""

import json
import sys
import types
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import load_file

from datalens.privacy.accountants import epsilon
from datalens.privacy.ledger import Ledger
from datalens.synthesizers import METHODS
from datalens.workflows import previews, progress
from datalens.workflows.fitting import Source, fit_run
from datalens.workflows.progress import Watcher

SETTINGS: dict[str, dict[str, Any]] = {
    "datalens": {"n_teachers": 4, "steps": 3, "batch_size": 3, "latent": 4, "label_steps": 2},
    "pategan": {"n_teachers": 4, "steps": 3, "batch_size": 3, "latent": 4},
    "dpgan": {"steps": 12, "batch_size": 5, "latent": 4, "width": 2},
    "gpate": {"n_teachers": 4, "steps": 2, "batch_size": 3, "latent": 4, "warm_up": 1},
    "gswgan": {"n_teachers": 4, "steps": 3, "batch_size": 3, "latent": 4, "width": 4},
    "dcgan": {"steps": 12, "batch_size": 5, "latent": 4, "width": 2},
}


@pytest.fixture
def source(tmp_path: Path) -> Source:
    images = np.random.default_rng(0).integers(0, 256, (40, 8, 8), dtype=np.uint8)
    np.savez(tmp_path / "own.npz", images=images, labels=np.arange(40) % 2)
    return Source(name=str(tmp_path / "own.npz"), n_classes=2)


def fitted(
    method: str, source: Source, out: Path, settings: dict[str, Any] | None = None, **more: Any
) -> dict[str, np.ndarray]:
    budget = {"epsilon": 9.0} if METHODS[method].private else {}
    made = METHODS[method](**budget, **(SETTINGS[method] if settings is None else settings))
    fit_run(made, source, out, ledger=None, seed=7, quiet=True, **more)
    return load_file(out / "generator.safetensors")


def test_the_log_is_written_while_a_run_trains(
    source: Source, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each line is whole, and on disk, when the step that it tells of is over."""
    monkeypatch.setattr(progress, "SIGN_OF_LIFE", 0.0)
    log = tmp_path / "run" / "log.jsonl"
    seen: list[tuple[dict[str, Any], dict[str, Any]]] = []

    def listen(stage: str, done: int, total: int, spent: float | None) -> None:
        told = {"stage": stage, "done": done, "total": total}
        text = log.read_text()
        assert text.endswith("\n")
        entry = json.loads(text.splitlines()[-1])
        seen.append((entry, told if spent is None else {**told, "epsilon": spent}))

    fitted("datalens", source, tmp_path / "run", listeners=[listen])
    assert len(seen) > 5 and all(entry == told for entry, told in seen)
    assert any("epsilon" not in told for _, told in seen)  # a sign of life
    kept = [json.loads(line) for line in log.read_text().splitlines()]
    assert kept == [told for _, told in seen if "epsilon" in told]  # of which none is kept


NO_VOTES = {"label_steps": 3, "clusters": 2, "label_prior": "bought"}


@pytest.mark.parametrize(
    "method, settings",
    [
        *((name, chosen) for name, chosen in SETTINGS.items() if METHODS[name].private),
        ("datalens", NO_VOTES),
        ("datalens", NO_VOTES | {"clusters": 1}),
        ("class-gaussian", {}),
    ],
)
def test_what_is_told_to_be_spent_is_what_the_ledger_holds(
    method: str, settings: dict[str, Any], source: Source, tmp_path: Path, own_home: Path
) -> None:
    """At every step: no later than it is paid, and not before."""
    told: list[float] = []

    def listen(stage: str, done: int, total: int, spent: float | None) -> None:
        if spent is not None:
            (path,) = own_home.glob("ledgers/*.sqlite")
            charges = Ledger(path).standing().spent
            assert spent == pytest.approx(epsilon(charges, 1e-5))
            told.append(spent)

    fitted(method, source, tmp_path / "run", settings, listeners=[listen])
    assert told == sorted(told) and told[-1] > 0
    if method == "datalens":
        assert len(set(told)) > 4


def test_samples_are_there_before_the_labeller_is(
    source: Source, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    drawn: list[str] = []
    monkeypatch.setattr(
        previews,
        "write_sheet",
        lambda made, path, caption: drawn.append(made.sample(2) and caption),
    )
    monkeypatch.setattr(
        previews.Previews.__init__, "__kwdefaults__", {"every": 0.0, "clock": float}
    )
    fitted("datalens", source, tmp_path / "run", NO_VOTES)
    assert [words.rpartition(": ")[2] for words in drawn] == [
        f"warm-start {n} of 5" for n in (3, 4, 5)
    ]


@pytest.mark.parametrize("method", SETTINGS)
def test_pictures_change_nothing(
    method: str, source: Source, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Bit for bit the same generator with a picture at every step, and without any."""
    drawn: list[str] = []
    write = previews.write_sheet

    def witness(synthesizer: Any, path: Path, caption: str) -> None:
        write(synthesizer, path, caption)
        drawn.append(caption)

    whole = fitted(method, source, tmp_path / "a")
    monkeypatch.setattr(previews, "write_sheet", witness)
    monkeypatch.setattr(
        previews.Previews.__init__, "__kwdefaults__", {"every": 0.0, "clock": float}
    )
    same = fitted(method, source, tmp_path / "b")
    assert drawn and all(words.startswith("NOT PRIVATE") for words in drawn)
    assert whole.keys() == same.keys()
    assert all(np.array_equal(whole[name], same[name]) for name in whole)
    for name in ("samples.png", "log.jsonl"):
        assert (tmp_path / "a" / name).read_bytes() == (tmp_path / "b" / name).read_bytes()


def test_a_picture_that_fails_stops_nothing(
    source: Source, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*ignored: Any) -> None:
        raise MemoryError("no room for a picture")

    whole = fitted("datalens", source, tmp_path / "a")
    monkeypatch.setattr(previews, "write_sheet", broken)
    monkeypatch.setattr(
        previews.Previews.__init__, "__kwdefaults__", {"every": 0.0, "clock": float}
    )
    same = fitted("datalens", source, tmp_path / "b")
    assert all(np.array_equal(whole[name], same[name]) for name in whole)


def test_one_who_listens_and_fails_stops_nothing(source: Source, tmp_path: Path) -> None:
    """Nor does a log on a full disk: steps that are paid for would be lost."""
    told: list[str] = []

    def broken(stage: str, done: int, total: int, spent: float | None) -> None:
        told.append(stage)
        raise OSError("no space left")

    watcher = Watcher(epsilon=1.0, log=tmp_path / "gone" / "log.jsonl", listeners=[broken])
    for done in range(3):
        watcher.progress("steps", done, 3)
    assert told == ["steps"] and watcher.listeners == []
    with pytest.raises(OSError):  # but what was spent is in the log, or the run stops
        watcher.progress("steps", 3, 3, spent=0.5)


def test_pictures_come_now_and_then(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    drawn: list[str] = []
    monkeypatch.setattr(
        previews,
        "write_sheet",
        lambda synthesizer, path, caption: (drawn.append(caption), path.write_bytes(b"new")),
    )
    now = 0.0
    made = METHODS["class-gaussian"](epsilon=1.0)
    show = previews.Previews(
        made, tmp_path / "samples.png", private=True, every=20.0, clock=lambda: now
    )
    for now in (1.0, 19.0, 21.0, 30.0, 42.0):
        show("votes", int(now), 50, None)
    assert drawn == ["class-gaussian: votes 21 of 50", "class-gaussian: votes 42 of 50"]
    assert (tmp_path / "samples.png").read_bytes() == b"new"
    assert [path.name for path in tmp_path.iterdir() if path.is_file()] == ["samples.png"]


def test_a_stopped_learner_is_not_taken_for_a_fitted_one(source: Source) -> None:
    made = METHODS["datalens"](epsilon=9.0, **SETTINGS["datalens"])

    def stop(*ignored: Any, **named: Any) -> None:
        raise KeyboardInterrupt

    made._train = stop  # type: ignore[method-assign]
    with pytest.raises(KeyboardInterrupt):
        made.fit(source.records(), seed=1)
    with pytest.raises(ValueError, match="has not been fitted"):
        made.sample(1)


def test_tensorboard_without_its_package(
    run: Any, source: Source, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "torch.utils.tensorboard", None)
    words = ("fit", source.name, "--classes", 2, "--epsilon", 1, "--out", "r")
    refused = run(*words, "--tensorboard", "board")
    assert refused.code == 2 and "datalens[tensorboard]" in refused.err
    assert refused.err.count("\n") == 1
    assert not Path("r").exists() and not Path("board").exists()  # nothing begun, nothing spent


def test_tensorboard_is_told_what_the_log_is(
    run: Any, source: Source, monkeypatch: pytest.MonkeyPatch
) -> None:
    told: list[tuple[str, float, int]] = []

    class Writer:
        def __init__(self, folder: str, **ignored: Any) -> None:
            told.append((folder, 0.0, 0))

        def add_scalar(self, name: str, value: float, step: int, walltime: float) -> None:
            assert walltime == 0  # times may tell who was drawn
            told.append((name, value, step))

        def close(self) -> None:
            told.append(("closed", 0.0, 0))

    stand_in = types.ModuleType("torch.utils.tensorboard")
    stand_in.SummaryWriter = Writer  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "torch.utils.tensorboard", stand_in)
    words = ("fit", source.name, "--classes", 2, "--epsilon", 9, "--out", "r")
    steps = ("--teachers", 4, "--steps", 3, "--batch-size", 3, "--set", "label_steps=2")
    fit = run(*words, *steps, "--tensorboard", "board", "--dashboard")
    assert fit.code == 0, fit.err
    assert "Dashboard: http://127.0.0.1:" in fit.err
    assert told[0][0] == "board" and told[-1][0] == "closed"
    log = [json.loads(line) for line in Path("r/log.jsonl").read_text().splitlines()]
    right = [(f"epsilon/{entry['stage']}", entry["epsilon"], entry["done"]) for entry in log]
    assert [each for each in told if each[0].startswith("epsilon/")] == right
    assert ("progress/votes", 2 / 3, 2) in told


def test_a_real_tensorboard(source: Source, tmp_path: Path) -> None:
    """Its own reader finds the log's epsilons."""
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    from datalens.workflows.tensorboard import Board

    with Board(tmp_path / "board") as board:
        fitted("datalens", source, tmp_path / "run", listeners=[board])
    found = EventAccumulator(str(tmp_path / "board"))
    found.Reload()
    log = [json.loads(t) for t in (tmp_path / "run" / "log.jsonl").read_text().splitlines()]
    votes = [entry["epsilon"] for entry in log if entry["stage"] == "votes"]
    assert [event.value for event in found.Scalars("epsilon/votes")] == pytest.approx(votes)
