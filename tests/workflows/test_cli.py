"""The command line as a user meets it: contract, bad input, stop and resume."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image
from safetensors.numpy import load_file

from datalens import __version__, load
from datalens.data import is_two_things
from datalens.synthesizers.class_gaussian import ClassGaussian
from datalens.workflows.commands.fit import free_name
from datalens.workflows.evaluation import Effort
from datalens.workflows.fitting import alone_in
from datalens.workflows.source import Source

SMALL = ["--teachers", "6", "--steps", "3", "--batch-size", "4", "--set", "label_steps=2"]


@pytest.mark.parametrize("more", [(), ("--set", "clusters=3", "--set", "label_steps=2")])
def test_the_whole_way_without_votes(run: Any, tmp_path: Path, more: tuple[str, ...]) -> None:
    fitted = run("fit", "digits", "--epsilon", 3, "--out", "r", *more, "--json")
    assert fitted.code == 0, fitted.err
    assert (fitted.json["steps"], fitted.json["teachers"]) == (0, None)
    assert fitted.json["releases"] == (2 + 3 + 1 + 2 if more else 2)
    assert run("verify", "r").code == 0
    assert run("sample", "r", "--count", 20, "--out", "s.npz").code == 0
    assert run("export", "r", "--out", "public").code == 0
    assert run("verify", "public").code == 0
    assert "class-sums" in (tmp_path / "public" / "report.html").read_text()
    log = [json.loads(line) for line in (tmp_path / "r" / "log.jsonl").read_text().splitlines()]
    assert log[-1]["epsilon"] == pytest.approx(fitted.json["epsilon"]["certified"], rel=1e-3)


def test_a_run_without_a_warm_start_verifies(run: Any) -> None:
    words = ("--no-warm-start", *SMALL[:6])
    assert run("fit", "digits", "--epsilon", 3, "--out", "r", *words).code == 0
    assert run("verify", "r").code == 0
    for setting in ("clusters=20", "label_steps=4", "spread=2", "label_share=0.5"):
        refused = run("fit", "digits", "--epsilon", 3, "--out", "x", *words, "--set", setting)
        assert refused.code == 2 and setting.split("=")[0] in refused.err


def test_the_whole_way(run: Any, tmp_path: Path) -> None:
    fitted = run("fit", "digits", "--epsilon", 3, "--out", "r", *SMALL, "--json")
    assert fitted.code == 0
    for key in ("run", "private", "epsilon", "epsilon_replace", "delta", "noise", "releases"):
        assert key in fitted.json
    assert fitted.json["private"] is True and fitted.json["noise"] == "exact"
    assert set(fitted.json["epsilon"]) == {"certified", "paper", "gaussian"}
    assert 2.9 < fitted.json["epsilon"]["certified"] <= 3
    assert (fitted.json["steps"], fitted.json["teachers"]) == (3, 6)
    assert fitted.json["releases"] == 2 + 2 + 3 * 4

    names = {p.name for p in (tmp_path / "r").iterdir()}
    assert names == {
        "config.toml",
        "ledger.json",
        "certificate.json",
        "certificate.sig",
        "generator.safetensors",
        "samples.png",
        "report.html",
        "log.jsonl",
        "internal",
    }
    assert run("verify", "r").code == 0
    told = run("verify", "r/certificate.json", "--json").json
    assert told == {
        "holds": True,
        "private": True,
        "wrong": [],
        "not_checked": [
            "log.jsonl (no hash covers it)",
            "who issued the certificate (give the owner's public key with --key)",
        ],
        "ledger": "digits",
    }

    assert run("sample", "r", "--count", 30, "--out", "s.npz").code == 0
    with np.load("s.npz") as drawn:
        assert drawn["images"].shape == (30, 1, 8, 8) and len(drawn["labels"]) == 30
    assert run("sample", "r", "--count", 9, "--out", "s.png", "--labels", "0,1").code == 0
    assert Image.open("s.png").size[0] > 8
    assert run("sample", "r", "--count", 12, "--out", "folder", "--json").json["count"] == 12
    assert len(list(Path("folder").glob("*/*.png"))) == 12
    assert len(Path("folder/labels.csv").read_text().splitlines()) == 13

    refused = run("sample", "r", "--count", 2001, "--out", "large.png")
    assert refused.code == 2 and "2,001 images" in refused.err

    exported = run("export", "r", "--out", "public")
    assert exported.code == 0
    assert {p.name for p in Path("public").iterdir()} == names - {"internal"}
    assert run("verify", "public").code == 0


def test_an_interrupted_sample_leaves_nothing(run: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    run("fit", "digits", "--epsilon", 10, "--method", "class-gaussian", "--out", "r")
    draw, calls = ClassGaussian._draw, []

    def interrupted(*words: Any, **more: Any) -> Any:
        calls.append(words)
        if len(calls) == 2:
            raise KeyboardInterrupt
        return draw(*words, **more)

    monkeypatch.setattr(ClassGaussian, "_draw", interrupted)
    before = set(Path().iterdir())
    stopped = run("sample", "r", "--count", 3000, "--out", "s.npz")
    assert (stopped.code, stopped.out) == (130, "")
    assert "nothing was written" in stopped.err
    assert set(Path().iterdir()) == before


def test_parquet_is_judged_as_any_other_form(run: Any) -> None:
    run("fit", "digits", "--epsilon", 10, "--method", "class-gaussian", "--out", "r")
    assert run("sample", "r", "--count", 60, "--out", "s.parquet").code == 0
    judged = run("evaluate", "s.parquet", "--on", "digits", "--json").json
    assert judged["synthetic_images"] == 60


def test_judging(run: Any) -> None:
    run("fit", "digits", "--epsilon", 10, "--method", "class-gaussian", "--out", "r")
    run("sample", "r", "--count", 400, "--out", "s.npz")
    judged = run("evaluate", "s.npz", "--on", "digits", "--seeds", 2, "--json").json
    assert len(judged["per_seed"]) == 2 and len(judged["per_class"]) == 10
    assert 0 <= judged["accuracy"] <= judged["accuracy_best_on_test"] <= 1
    assert run("evaluate", "s.npz", "--on", "s.npz", "--json").json["test_images"] == 400
    run("sample", "r", "--count", 400, "--out", "folder")
    assert run("evaluate", "folder", "--on", "digits", "--json").json["synthetic_images"] == 400


def test_evaluation_of_a_run_stays_internal(
    run: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr("datalens.workflows.evaluation.USUAL", Effort(judged=200, measured=100))
    run("fit", "digits", "--epsilon", 10, "--method", "class-gaussian", "--out", "r")
    figures = run("evaluate", "r", "--on", "digits", "--json").json
    kept = json.loads((tmp_path / "r/internal/evaluation.json").read_text())
    assert kept == figures and kept["internal"] is True
    shown = run("evaluate", "r", "--on", "digits").out
    assert "Internal: these figures" in shown and "--all adds a random forest" in shown
    run("export", "r", "--out", "public")
    assert not list(Path("public").rglob("evaluation.json"))


def test_own_images_by_path(run: Any, tmp_path: Path) -> None:
    chance = np.random.default_rng(0)
    for name in ("cat", "dog"):
        (tmp_path / "pets" / name).mkdir(parents=True)
        for i in range(20):
            pixels = chance.integers(0, 256, (16, 16, 3), dtype=np.uint8)
            Image.fromarray(pixels).save(tmp_path / "pets" / name / f"{i}.png")
    fitted = run("fit", "pets", "--epsilon", 8, *SMALL, "--image-size", 12, "--json")
    assert fitted.code == 0, fitted.err
    certificate = json.loads((Path(fitted.json["run"]) / "certificate.json").read_text())
    assert certificate["data"]["shape"] == [3, 12, 12]
    assert certificate["data"]["classes"] == ["cat", "dog"]
    assert str(tmp_path) not in (Path(fitted.json["run"]) / "config.toml").read_text()


def test_seeded_runs_are_equal_and_marked(run: Any) -> None:
    for name in ("a", "b"):
        seeded = run(
            "fit", "digits", "--epsilon", 3, "--out", name, *SMALL, "--seed", 7, "--not-private"
        )
        assert "NOT PRIVATE" in seeded.out
    assert (
        Path("a/generator.safetensors").read_bytes() == Path("b/generator.safetensors").read_bytes()
    )
    assert Path("a/NOT-PRIVATE.txt").exists()
    assert "NOT PRIVATE" in Path("a/report.html").read_text()
    assert "NOT PRIVATE" in run("verify", "a").out
    for out in ("s.npz", "s.png", "s"):
        assert "NOT PRIVATE" in run("sample", "a", "--count", 4, "--out", out).out
    assert "NOT PRIVATE" in str(np.load("s.npz")["warning"])
    assert "NOT PRIVATE" in Path("s/NOT-PRIVATE.txt").read_text()
    run("export", "a", "--out", "public")
    assert "NOT PRIVATE" in Path("public/NOT-PRIVATE.txt").read_text()
    assert "digits.NOT-PRIVATE" in run("ledger").out and "digits:" not in run("ledger").out
    default = run("fit", "digits", "--epsilon", 3, *SMALL, "--seed", 7, "--not-private", "--json")
    assert "NOT-PRIVATE" in default.json["run"] and default.json["private"] is False


BARE = ["--method", "dcgan", "--set", "width=2", "--steps", 4, "--batch-size", 6]


def test_a_method_that_protects_nobody_is_marked_everywhere(run: Any, own_home: Path) -> None:
    fitted = run("fit", "digits", *BARE, "--not-private", "--json")
    assert fitted.code == 0, fitted.err
    assert fitted.json["run"] == "runs/digits-dcgan-NOT-PRIVATE"
    assert fitted.json["private"] is False and fitted.json["noise"] == "none"
    assert fitted.json["epsilon"] == {} and fitted.json["delta"] is None
    folder = Path(fitted.json["run"])
    assert (folder / "NOT-PRIVATE.txt").read_text().startswith("NOT PRIVATE")
    report = (folder / "report.html").read_text()
    assert "NOT PRIVATE. Nothing was protected" in report and "epsilon, certified" not in report
    said = run("fit", "digits", *BARE, "--not-private", "--seed", 3, "--out", "r")
    assert said.code == 0 and "NOT PRIVATE: nothing was protected." in said.out
    assert "epsilon" not in said.out
    verified = run("verify", folder)
    assert verified.code == 0 and "NOT PRIVATE: nothing was protected." in verified.out
    assert run("verify", folder, "--json").json["private"] is False
    assert "NOT PRIVATE" in run("sample", folder, "--count", 4, "--out", "s").out
    assert "NOT PRIVATE" in Path("s/NOT-PRIVATE.txt").read_text()
    assert [p.stem for p in (own_home / "ledgers").glob("*.sqlite")] == ["digits.NOT-PRIVATE"]
    assert run("ledger", "digits.NOT-PRIVATE", "--json").json["epsilon"]["committed"] == 0
    listed = {m["name"]: m["private"] for m in run("methods", "--json").json["methods"]}
    assert listed["dcgan"] is False and listed["dpgan"] is True
    assert "NOT PRIVATE" in run("methods").out


def test_steps_on_samples_are_reported(run: Any) -> None:
    words = ["--set", "width=2", "--steps", 4, "--batch-size", 6, "--out", "r"]
    fitted = run("fit", "digits", "--method", "dpgan", "--epsilon", 5, *words)
    assert fitted.code == 0, fitted.err
    assert "epsilon 5 spent, at delta 1e-05." in fitted.out and "no bound" not in fitted.out
    report = Path("r/report.html").read_text()
    assert "epsilon, certified" in report and "epsilon, Gaussian" not in report
    assert "each takes part with probability" in report
    assert run("verify", "r").code == 0
    assert "dpgan" in run("ledger", "digits").out


BAD = {
    "paper for another": (
        ["fit", "digits", "--epsilon", "1", "--method", "dp-merf", "--preset", "paper"],
        "The preset paper is for datalens",
    ),
    "dcgan bare": (["fit", "digits", "--method", "dcgan"], "give --not-private"),
    "dcgan seeded": (["fit", "digits", "--method", "dcgan", "--seed", "1"], "give --not-private"),
    "dcgan with epsilon": (
        ["fit", "digits", "--method", "dcgan", "--not-private", "--epsilon", "1"],
        "epsilon cannot be given",
    ),
    "not private alone": (["fit", "digits", "--epsilon", "1", "--not-private"], "--seed"),
    "no such data": (["fit", "nowhere", "--epsilon", "1"], "nowhere"),
    "no epsilon": (["fit", "digits"], "--epsilon"),
    "epsilon zero": (["fit", "digits", "--epsilon", "0"], "epsilon"),
    "epsilon nan": (["fit", "digits", "--epsilon", "nan"], "epsilon"),
    "epsilon word": (["fit", "digits", "--epsilon", "much"], "epsilon"),
    "unknown method": (["fit", "digits", "--epsilon", "1", "--method", "magic"], "magic"),
    "unknown preset": (["fit", "digits", "--epsilon", "1", "--preset", "best"], "best"),
    "paper elsewhere": (["fit", "digits", "--epsilon", "1", "--preset", "paper"], "mnist"),
    "unknown key": (["fit", "digits", "--epsilon", "1", "--set", "colour=red"], "colour"),
    "bad set": (["fit", "digits", "--epsilon", "1", "--set", "colour"], "NAME=VALUE"),
    "too many teachers": (["fit", "digits", "--epsilon", "1", "--teachers", "1401"], "teachers"),
    "seed alone": (["fit", "digits", "--epsilon", "1", "--seed", "1"], "NOT PRIVATE"),
    "bad ledger": (["fit", "digits", "--epsilon", "1", "--ledger", "../x"], "ledger"),
    "taken folder": (["fit", "digits", "--epsilon", "1", "--out", "taken"], "exists already"),
    "unwritable": (["fit", "digits", "--epsilon", "1", "--out", "file/run"], "cannot be written"),
    "resume nothing": (["fit", "digits", "--out", "gone", "--resume"], "no run"),
    "sample nothing": (["sample", "gone", "--count", "1", "--out", "x.npz"], "no run"),
    "verify nothing": (["verify", "gone"], "does not exist"),
    "export nothing": (["export", "gone", "--out", "x"], "no finished run"),
    "evaluate nothing": (["evaluate", "gone", "--on", "digits"], "gone"),
    "truncated npz": (["fit", "cut.npz", "--epsilon", "1", "--classes", "2"], "cut.npz"),
    "labels out of range": (["fit", "wide.npz", "--epsilon", "1", "--classes", "2"], "label"),
    "one class": (["fit", "wide.npz", "--epsilon", "1", "--classes", "1"], "class"),
    "nan pixels": (["fit", "nan.npz", "--epsilon", "1", "--classes", "2"], "nan"),
    "wrong shape": (["fit", "flat.npz", "--epsilon", "1", "--classes", "2"], "flat.npz"),
    "no classes said": (["fit", "wide.npz", "--epsilon", "1"], "classes"),
    "unknown data": (["data", "nonsense"], "nonsense"),
    "set twice": (["fit", "digits", "--epsilon", "1", "--set", "epsilon=9"], "own option"),
    "small batch": (
        ["fit", "digits", "--epsilon", "1", "--discriminator", "reference", "--batch-size", "1"],
        "batches of 2",
    ),
    "learning rate": (
        ["fit", "digits", "--epsilon", "1", "--set", "teacher_learning_rate=5"],
        "teacher_learning_rate",
    ),
    "huge sigma": (["fit", "digits", "--epsilon", "1", "--sigma", "1e14"], "sigma"),
    "unknown device": (["fit", "digits", "--epsilon", "1", "--device", "tpu"], "cpu or cuda"),
    "unknown precision": (["fit", "digits", "--epsilon", "1", "--precision", "int8"], "precision"),
    "growing what": (["bench", "speed", "--grow", "many"], "many"),
    "no patience": (["fit", "digits", "--epsilon", "1", "--rank-timeout", "0"], "rank-timeout"),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_input_is_one_sentence_and_leaves_nothing(
    case: str, run: Any, tmp_path: Path, own_home: Path
) -> None:
    (tmp_path / "taken").mkdir()
    (tmp_path / "file").write_text("")
    images = np.zeros((40, 8, 8), dtype=np.uint8)
    np.savez(tmp_path / "wide.npz", images=images, labels=np.arange(40))
    whole = (tmp_path / "wide.npz").read_bytes()
    (tmp_path / "cut.npz").write_bytes(whole[: len(whole) // 2])
    bad = images.astype(np.float32)
    bad[3] = np.nan
    np.savez(tmp_path / "nan.npz", images=bad, labels=np.arange(40) % 2)
    np.savez(tmp_path / "flat.npz", images=images.reshape(40, 64), labels=np.arange(40) % 2)
    before = sorted(p for p in tmp_path.rglob("*") if own_home not in (p, *p.parents))

    words, names = BAD[case]
    result = run(*words)
    assert result.code == 2, (result.out, result.err)
    assert names.lower() in result.err.lower()
    assert "Traceback" not in result.err and result.out == ""
    assert sorted(p for p in tmp_path.rglob("*") if own_home not in (p, *p.parents)) == before
    spent = [p for p in own_home.rglob("*.sqlite")] if own_home.exists() else []
    for ledger in spent:
        assert b"reserve" not in ledger.read_bytes()


def test_too_little_memory_is_one_sentence_and_the_charge_stays_written(
    run: Any, own_home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def greedy(*args: object) -> None:
        torch.empty(2**60, dtype=torch.uint8)  # PyTorch has an error of its own for it

    monkeypatch.setattr(ClassGaussian, "_train", greedy)
    fit = ("fit", "digits", "--epsilon", 1, "--method", "class-gaussian", "--out", "run")
    result = run(*fit)
    assert (result.code, result.out) == (2, "")
    assert result.err.splitlines()[-1] == "datalens: the system refused: not enough memory"
    assert b"reserve" in (own_home / "ledgers" / "digits.sqlite").read_bytes()

    def broken(*args: object) -> None:
        raise RuntimeError("a mistake of ours")

    monkeypatch.setattr(ClassGaussian, "_train", broken)
    with pytest.raises(RuntimeError, match="a mistake of ours"):  # which nobody must overlook
        run(*fit[:-1], "other")


def test_a_preset_file(run: Any, tmp_path: Path) -> None:
    (tmp_path / "mine.toml").write_text(
        "n_teachers = 5\nsteps = 2\nbatch_size = 3\nwarm_start = false\n"
    )
    fitted = run(
        "fit", "digits", "--epsilon", 2, "--preset", "mine.toml", "--out", "r", "--json"
    ).json
    assert (fitted["teachers"], fitted["releases"]) == (5, 6)
    (tmp_path / "odd.toml").write_text("teachers_of_mine = 5\n")
    assert run("fit", "digits", "--epsilon", 2, "--preset", "odd.toml").code == 2
    (tmp_path / "broken.toml").write_text("n_teachers = ")
    assert "no TOML" in run("fit", "digits", "--epsilon", 2, "--preset", "broken.toml").err


@pytest.mark.parametrize("words", [("data",), ("methods",)])
def test_names_are_shown_whole_in_a_narrow_terminal(
    words: tuple[str], run: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    lists = run(*words, "--json").json
    shown = run(*words).out
    for entry in [each for entries in lists.values() for each in entries]:
        assert f" {entry['name']} " in shown


def test_data_lists_what_there_is(run: Any) -> None:
    found = {entry["name"]: entry for entry in run("data", "--json").json["datasets"]}
    assert {"fashion-mini", "digits", "mnist", "fashion-mnist"} <= set(found)
    assert found["fashion-mini"]["n_records"] == 20_000
    assert "digits" in run("data", "digits").out


def test_a_delta_that_is_too_large_is_said(run: Any) -> None:
    words = ["fit", "digits", "--epsilon", 3, "--method", "class-gaussian", "--delta"]
    refused = run(*words, 0.01)
    assert refused.code == 2 and "above 1/n = 0.000714 for 1,400 records" in refused.err
    assert not list(Path("runs").iterdir())
    allowed = run(*words, 0.01, "--allow-large-delta")
    assert allowed.code == 0 and "Careful: delta 0.01 is not below 1/n" in allowed.err
    assert "1/n" not in run(*words, 1e-5).err
    seeded = run(*words, 0.01, "--seed", 1, "--not-private")
    assert seeded.code == 0 and "Careful: delta 0.01 is not below 1/n" in seeded.err


def test_verify_exits_1_when_something_disagrees(run: Any, tmp_path: Path) -> None:
    run("fit", "digits", "--epsilon", 10, "--method", "class-gaussian", "--out", "r")
    path = tmp_path / "r" / "certificate.json"
    path.write_text(path.read_text().replace('"certified": 9', '"certified": 1'))
    result = run("verify", "r")
    assert result.code == 1 and "certified" in result.out


def _start(out: Path, *words: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "datalens", "fit", "digits", "--out", str(out), *words]
    return subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
    )


LONG = ["--epsilon", "3", "--teachers", "6", "--steps", "120", "--batch-size", "4"]
LONG += ["--no-warm-start", "--seed", "3", "--not-private"]


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGKILL])
def test_a_stopped_run_goes_on_to_the_same_generator(
    how: signal.Signals, run: Any, tmp_path: Path
) -> None:
    process = _start(tmp_path / "r", *LONG)
    stored = tmp_path / "r" / "internal" / "releases"
    deadline = time.monotonic() + 120
    while len(list(stored.glob("*.npy"))) < 5 and time.monotonic() < deadline:
        time.sleep(0.05)
    process.send_signal(how)
    _, err = process.communicate(timeout=60)
    assert process.returncode == (130 if how == signal.SIGINT else -how)
    if how == signal.SIGINT:
        assert "--resume" in err and "Traceback" not in err
    done = len(list(stored.glob("*.npy")))
    assert 5 <= done < 120, "the run was not stopped half-way"
    assert not (tmp_path / "r" / "certificate.json").exists()
    assert run("sample", "r", "--count", 1, "--out", "x.npz").code == 2

    with alone_in(tmp_path / "r"):
        assert "Another process" in run("fit", "digits", "--out", "r", "--resume").err
    same = ("fit", "digits", "--out", "r", *LONG, "--ledger", "digits", "--resume")
    for more, said in {
        ("--epsilon", 4): "epsilon 3.0",
        ("--steps", 119): "steps 120",
        ("--top-k", 7): "top_k ",
        ("--ledger", "other"): "the ledger digits",
        ("--seed", 4): "another seed",
    }.items():
        other = run(*same, *more)
        assert other.code == 2 and f"r was started with {said}" in other.err
        assert "cannot change: a resumed run keeps its settings" in other.err
    resumed = run(*same, "--json")
    assert resumed.code == 0, resumed.err
    whole = run("fit", "digits", "--out", "w", *LONG, "--json")
    a, b = (load_file(f"{name}/generator.safetensors") for name in ("r", "w"))
    lost = 120 * 4 - sum(1 for _ in stored.glob("*.npy")) * 4
    assert resumed.json["epsilon"] == whole.json["epsilon"]
    if lost == 0:  # a kill between charge and release loses that release, never the charge
        assert all(np.array_equal(a[name], b[name]) for name in a)
    else:
        assert how == signal.SIGKILL and lost == 4
    assert run("verify", "r").code == 0
    again = run("fit", "digits", "--out", "r", "--resume")
    assert again.code == 2 and "finished" in again.err
    lines = Path("r/log.jsonl").read_text().splitlines()
    assert len(lines) == 120


@pytest.mark.parametrize("verb", ["fit", "classify"])
def test_who_stops_before_it_began_is_told_to_start_again(
    verb: str, run: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Reading thousands of pictures takes minutes, in which there is nothing to go on with."""

    def stops(*given: Any, **named: Any) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(Source, "share", stops)
        halted = run(verb, "digits", "--epsilon", 1, "--out", "r")
    assert halted.code == 130 and halted.out == ""
    assert halted.err == "Stopped before it began, and nothing was spent: start it again.\n"
    assert not Path("r").exists()


def test_a_name_that_is_also_a_folder_is_asked_about(run: Any, tmp_path: Path) -> None:
    for name in ("a", "b"):
        (tmp_path / "digits" / name).mkdir(parents=True)
        for number in range(20):
            image = np.full((8, 8), 10 * number, dtype=np.uint8)
            Image.fromarray(image).save(tmp_path / "digits" / name / f"{number}.png")
    words = ("--method", "class-gaussian", "--epsilon", 5000)
    refused = run("fit", "digits", *words, "--out", "r")
    assert refused.code == 2 and "is a data set by name, and here also a folder" in refused.err
    assert not Path("r").exists()
    found = run("fit", "./digits", *words, "--image-size", 8, "--out", "r", "--json")
    assert found.code == 0 and "40 records" in found.err


def test_the_folder_that_a_named_set_lies_in_is_no_other(tmp_path: Path) -> None:
    """As with `cd DATA; datalens fit places365 --data-dir .`"""
    assert not is_two_things("places365", tmp_path)
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(tmp_path)
        (tmp_path / "places365" / "places365_standard" / "train").mkdir(parents=True)
        assert not is_two_things("places365", Path())
        (tmp_path / "cifar10" / "cats").mkdir(parents=True)
        assert is_two_things("cifar10", Path()) and not is_two_things("./cifar10", Path())


def test_an_archive_that_was_shrunk_goes_on_without_being_told_again(
    run: Any, tmp_path: Path
) -> None:
    digits = load("digits", image_size=20)
    np.savez(tmp_path / "own.npz", images=digits.images, labels=digits.labels)
    words = ("--classes", 10, "--method", "class-gaussian", "--epsilon", 5)
    assert run("fit", "own.npz", *words, "--image-size", 8, "--out", "r").code == 0
    (tmp_path / "r" / "certificate.json").unlink()  # as if it had been killed at the end
    other = run("fit", "own.npz", "--classes", 10, "--image-size", 9, "--out", "r", "--resume")
    assert other.code == 2 and "other data" in other.err
    again = run("fit", "own.npz", "--classes", 10, "--out", "r", "--resume")
    assert again.code == 0, again.err


def test_a_ledger_adds_up_its_runs_and_keeps_its_cap(run: Any, tmp_path: Path) -> None:
    fit = ("fit", "digits", "--method", "class-gaussian")
    assert "no ledger yet" in run("ledger").out
    assert run("ledger", "digits", "--cap", "3").code == 0
    assert run(*fit, "--epsilon", "2", "--out", tmp_path / "a").code == 0
    told = run("ledger", "digits", "--json").json
    assert told["cap"]["epsilon"] == 3 and 2 < told["cap"]["left"] < 2.1
    assert told["epsilon"]["spent"] == pytest.approx(2, abs=1e-3)
    refused = run(*fit, "--epsilon", "2.5", "--out", tmp_path / "b")
    assert refused.code == 2 and "cap of epsilon 3" in refused.err
    assert not (tmp_path / "b").exists()
    assert run(*fit, "--epsilon", told["cap"]["left"], "--out", tmp_path / "b").code == 0
    told = run("ledger", "digits", "--json").json
    assert told["epsilon"]["spent"] == pytest.approx(3, abs=1e-3)
    assert [entry["state"] for entry in told["runs"]] == ["ended", "ended"]
    assert "all runs" in run("ledger", "digits").out
    assert "digits: 2 runs" in run("ledger").out


def test_what_a_cap_leaves_is_rounded_down(run: Any) -> None:
    from datalens.privacy.rounding import rounded_down

    for value in (2.07899, 0.123456, 19.9999, 0.00010009, 9.9999, 1.0):
        assert 0.99 * value < float(rounded_down(value)) <= value


def test_a_ledger_with_a_huge_epsilon_is_still_shown(run: Any, tmp_path: Path) -> None:
    words = ("--method", "class-gaussian", "--epsilon", "10000", "--out", tmp_path / "a")
    assert run("fit", "digits", *words).code == 0
    for more in ((), ("--delta", "1e-300"), ("--json",)):
        shown = run("ledger", "digits", *more)
        assert shown.code == 0 and "nan" not in shown.out.lower()
    json.loads(run("ledger", "digits", "--json").out, parse_constant=pytest.fail)


def test_files_that_are_no_ledgers_are_named_and_passed_over(run: Any, own_home: Path) -> None:
    run("ledger", "mine", "--cap", "3")
    (own_home / "ledgers" / "junk.sqlite").write_text("no database at all" * 100)
    (own_home / "ledgers" / "folder.sqlite").mkdir()
    shown = run("ledger")
    assert shown.code == 0 and "mine: 0 runs" in shown.out
    assert "junk" in shown.err and "folder" in shown.err
    assert run("ledger", "--json").code == 0
    (own_home / "ledgers" / "mine.sqlite").unlink()
    for more in ((), ("--json",)):
        assert run("ledger", *more).code == 2  # none can be read


def test_bad_caps_leave_nothing(run: Any, own_home: Path) -> None:
    for words in (("--cap", "nan"), ("--cap", "-1"), ("--cap", "1", "--delta", "2")):
        assert run("ledger", "foo", *words).code == 2
    assert not own_home.exists()


def test_another_ledger_of_the_same_name_condemns_nobody(
    run: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fit = ("fit", "digits", "--method", "class-gaussian", "--epsilon", "2", "--out")
    run(*fit, tmp_path / "a")
    monkeypatch.setenv("DATALENS_HOME", str(tmp_path / "another"))
    run(*fit, tmp_path / "b")
    held = run("verify", tmp_path / "a")
    assert held.code == 0 and "whole ledger" not in held.out
    assert run("verify", tmp_path / "a", "--ledger", "digits").code == 1


def test_a_run_that_never_began_says_so(run: Any, tmp_path: Path) -> None:
    (tmp_path / "a" / "internal").mkdir(parents=True)
    said = run("fit", "digits", "--out", tmp_path / "a", "--resume")
    assert said.code == 2 and "has cost nothing" in said.err


def test_a_ledger_that_disappears_takes_no_run_with_it(
    run: Any, tmp_path: Path, own_home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What was paid for stays on disk, and the run goes on when the ledger is back."""
    from datalens.privacy.ledger import Ledger

    path, away = own_home / "ledgers" / "digits.sqlite", tmp_path / "away"
    spend, spent = Ledger.spend, []

    def vanishing(self: Ledger, *words: Any, **more: Any) -> None:
        spend(self, *words, **more)
        spent.append(words)
        if len(spent) == 4:
            path.rename(away)

    monkeypatch.setattr(Ledger, "spend", vanishing)
    words = ("fit", "digits", "--epsilon", "3", "--out", tmp_path / "a", *SMALL)
    lost = run(*words)
    assert lost.code == 2 and "digits.sqlite" in lost.err and not path.exists()
    assert len(list((tmp_path / "a" / "internal" / "releases").glob("*.npy"))) == 4
    away.rename(path)
    assert run("fit", "digits", "--out", tmp_path / "a", "--resume").code == 0
    assert run("verify", tmp_path / "a").code == 0


def test_an_abandoned_run_can_be_ended(run: Any, own_home: Path) -> None:
    from datalens.mechanism.moments import ClassCounts
    from datalens.privacy.accountants import Charge
    from datalens.privacy.ledger import Ledger

    event = ClassCounts(sigma=10.0, n_classes=3).event
    ledger = Ledger(own_home / "ledgers" / "mine.sqlite")
    ledger.reserve("dead", [Charge(event=event, count=9)], facts={"method": "x"})
    ledger.spend("dead", "a", event, count=2)
    before = run("ledger", "mine", "--json").json["epsilon"]
    told = run("ledger", "mine", "--end", "dead", "--json").json
    assert before["committed"] > told["epsilon"]["committed"] == told["epsilon"]["spent"] > 0
    assert run("ledger", "mine", "--end", "nobody").code == 2


def test_a_run_that_was_ended_while_under_way_spends_no_more(
    run: Any, tmp_path: Path, own_home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What it had set aside may be another's by then."""
    from datalens.privacy.ledger import Ledger

    spend, codes = Ledger.spend, []

    def ended(self: Ledger, run_: str, *words: Any, **more: Any) -> None:
        spend(self, run_, *words, **more)
        codes.append(run("ledger", "digits", "--end", run_).code)

    with monkeypatch.context() as patch:
        patch.setattr(Ledger, "spend", ended)
        words = ("--method", "class-gaussian", "--epsilon", "2", "--out", tmp_path / "a")
        stopped = run("fit", "digits", *words)
    assert stopped.code == 2 and "has been settled and can spend no more" in stopped.err
    assert codes == [0] and not (tmp_path / "a" / "certificate.json").exists()
    assert [row.kind for row in Ledger(own_home / "ledgers" / "digits.sqlite").rows()] == [
        "reserve", "spend", "settle",
    ]  # fmt: skip
    assert run("fit", "digits", "--out", tmp_path / "a", "--resume").code == 2


@pytest.mark.parametrize(
    "words, sentence",
    [
        (("ledger", "nowhere"), "no ledger nowhere"),
        (("ledger", "../x"), "no name for a ledger"),
        (("ledger", "--cap", "1"), "Name the ledger"),
        (("ledger", "mine", "--cap", "-1"), "epsilon"),
        (("ledger", "mine", "--cap", "1", "--delta", "2"), "delta"),
        (("verify", "nowhere", "--ledger", "nowhere"), "no ledger nowhere"),
    ],
)
def test_bad_words_about_ledgers(run: Any, words: tuple[str, ...], sentence: str) -> None:
    result = run(*words)
    assert result.code == 2 and sentence in result.err and result.err.count("\n") == 1


def test_verify_looks_at_the_owners_ledger_where_it_is(
    run: Any, tmp_path: Path, own_home: Path
) -> None:
    import sqlite3

    run("fit", "digits", "--method", "class-gaussian", "--epsilon", "2", "--out", tmp_path / "a")
    assert "The whole ledger digits holds too" in run("verify", tmp_path / "a").out
    run("export", tmp_path / "a", "--out", tmp_path / "public")
    with sqlite3.connect(own_home / "ledgers" / "digits.sqlite") as database:
        database.execute("DELETE FROM entries WHERE row = 2")
    assert run("verify", tmp_path / "a").code == 1
    assert run("verify", tmp_path / "public").code == 0  # the extract is as it was
    assert run("verify", tmp_path / "public", "--ledger", "digits").code == 1


def test_fit_says_what_it_read_and_who_pays(run: Any, tmp_path: Path) -> None:
    images = np.random.default_rng(0).integers(0, 256, (60, 8, 8), dtype=np.uint8)
    for name in ("scans", "copy"):
        (tmp_path / name).mkdir()
        np.savez(tmp_path / name / "own.npz", images=images, labels=np.arange(60) % 3)
    words = ("--classes", 3, "--epsilon", 1, "--method", "class-gaussian")
    first = run("fit", "scans/own.npz", *words, "--out", "a", "--ledger", "scans")
    assert first.code == 0, first.err
    assert "60 records of 1x8x8, 3 classes (0, 1, 2); ledger scans." in first.err
    assert "used with the ledger" not in first.err
    second = run("fit", "copy/own.npz", *words, "--out", "b", "--ledger", "other")
    told = " ".join(second.err.split())
    assert "some of these records were used with the ledger scans too" in told
    assert "is not added up" in told and ".py:" not in told
    refused = run("fit", "copy/own.npz", *words, "--out", "d")
    assert refused.code == 2 and "used with the ledger other, scans" in refused.err
    assert not (tmp_path / "d").exists()
    seeded = ("--seed", 1, "--not-private")
    third = run("fit", "copy/own.npz", *words, *seeded, "--out", "c", "--ledger", "third")
    assert third.code == 0 and "used with the ledger" not in third.err


def test_caps_are_shown_with_those_before(run: Any) -> None:
    new = run("ledger", "scans", "--cap", 3)
    assert "This ledger is new" in new.out and "before" not in new.out
    raised = run("ledger", "scans", "--cap", 5)
    assert "This ledger is new" not in raised.out and "It was 3 before." in raised.out
    assert run("ledger", "scans", "--json").json["caps_before"] == [3.0]
    assert "Cap: 5." in run("ledger").out


def test_a_run_is_judged_on_data_of_its_classes(run: Any, tmp_path: Path) -> None:
    images = np.zeros((30, 8, 8), dtype=np.uint8)
    np.savez(tmp_path / "three.npz", images=images, labels=np.arange(30) % 3)
    words = ("--classes", 3, "--epsilon", 1, "--method", "class-gaussian", "--out", "r")
    assert run("fit", "three.npz", *words).code == 0
    refused = run("evaluate", "r", "--on", "digits")
    assert refused.code == 2 and "r has 3 classes and digits has 10" in refused.err
    assert not (tmp_path / "r/internal/evaluation.json").exists()


def test_classes_are_drawn_by_name_or_number(run: Any, tmp_path: Path) -> None:
    for name in ("benign", "normal"):
        (tmp_path / "scans" / name).mkdir(parents=True)
        for number in range(12):
            Image.new("L", (8, 8), 20 * number).save(tmp_path / f"scans/{name}/{number}.png")
    fit = ("fit", "scans", "--epsilon", 5, "--method", "class-gaussian", "--out", "r")
    assert run(*fit).code == 0
    for words, expected in {"normal": {1}, "1,benign": {0, 1}, "0": {0}}.items():
        assert (
            run("sample", "r", "--count", 6, "--out", f"{words}.npz", "--labels", words).code == 0
        )
        with np.load(tmp_path / f"{words}.npz") as drawn:
            assert set(drawn["labels"]) == expected
    unknown = run("sample", "r", "--count", 6, "--out", "x.npz", "--labels", "healthy")
    assert unknown.code == 2
    assert "no class 'healthy'; there are 0 (benign), 1 (normal)." in unknown.err
    grained = run("sample", "r", "--count", 6, "--out", "y.npz", "--grain", 0.5, "--json")
    assert grained.json["grain"] == 0.5
    with np.load(tmp_path / "y.npz") as drawn:
        assert drawn["grain"] == 0.5
    refused = run("sample", "r", "--count", 6, "--out", "x.npz", "--grain", "nan")
    assert refused.code == 2 and "grain must lie between 0 and 1, got nan." in refused.err
    assert not (tmp_path / "x.npz").exists()


def test_verify_says_what_holds(run: Any) -> None:
    assert (
        run("fit", "digits", "--epsilon", 2, "--method", "class-gaussian", "--out", "r").code == 0
    )
    said = run("verify", "r").out
    assert "The certificate holds." in said
    assert "(2, 1e-05)-differentially private" in said
    assert "If a record is replaced: epsilon 2.9" in said


def test_the_version_is_said(run: Any) -> None:
    assert run("--version").out == f"datalens {__version__}\n"


def test_a_run_does_not_go_among_the_pictures(run: Any, tmp_path: Path) -> None:
    """There it would be a class, and no run on the folder could go on."""
    for label in ("a", "b"):
        (tmp_path / "pets" / label).mkdir(parents=True)
        Image.new("L", (8, 8), 9).save(tmp_path / "pets" / label / "1.png")
    words = ("--epsilon", 1, "--method", "class-gaussian", "--image-size", 8)
    for out in ("pets/run", "pets/a/run"):
        refused = run("fit", "pets", *words, "--out", out)
        assert refused.code == 2 and f"{out} lies in pets" in refused.err
        assert not Path(out).exists() and "There is no ledger yet" in run("ledger").out
    assert run("fit", "pets", *words, "--out", "pets-run").code == 0


def test_a_run_on_this_folder_is_named_after_it(tmp_path: Path, monkeypatch: Any) -> None:
    (tmp_path / "pets").mkdir()
    monkeypatch.chdir(tmp_path / "pets")
    named = free_name(".", "datalens", 8.0, private=True)
    assert named == Path("runs/pets-datalens-epsilon-8")


def test_names_of_classes_are_no_markup(run: Any, tmp_path: Path) -> None:
    digits = load("digits")
    names = [f"[x{label}]" if label else "dog[/]" for label in range(10)]
    np.savez(tmp_path / "own.npz", images=digits.images, labels=digits.labels, class_names=names)
    told = run("evaluate", "own.npz", "--on", "own.npz", "--quick")
    assert told.code == 0 and "dog[/]" in told.out and "[x3]" in told.out


def test_samples_without_number_are_refused(run: Any) -> None:
    run("fit", "digits", "--epsilon", 10, "--method", "class-gaussian", "--out", "r")
    refused = run("sample", "r", "--count", 10**22, "--out", "s.npz")
    assert refused.code == 2 and "--count is at most 1,000,000,000" in refused.err
    assert run("sample", "r", "--count", 20, "--out", "s.NPZ").code == 0
    assert len(load("s.NPZ").labels) == 20


def test_it_is_said_how_much_a_great_many_samples_are(
    run: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    run("fit", "digits", "--epsilon", 10, "--method", "class-gaussian", "--out", "r")
    for most, said in ((20 * 64, False), (20 * 64 - 1, True)):
        monkeypatch.setattr("datalens.workflows.commands.samples.SAID", most)
        told = run("sample", "r", "--count", 20, "--out", f"{most}.npz")
        assert ("20 images: 0.0 GB before they are packed." in told.err) is said
