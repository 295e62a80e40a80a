"""`datalens classify` and `predict` as a user meets them."""

import csv
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

import datalens
from datalens.privacy.ledger import Ledger

FEW = ("--accountant", "certified", "--steps", 4, "--batch", 50, "--set", "noise_multiplier=0.7")
SCATTER = ("classify", "digits", "--epsilon", 9, "--method", "scatter", *FEW)


def lines(file: str) -> list[list[str]]:
    with Path(file).open(newline="") as text:
        return list(csv.reader(text))


@pytest.mark.parametrize(
    "method", [("topagg", "--keep", 0.7), ("dpsgd",), ("scatter",)], ids=lambda words: words[0]
)
def test_the_whole_way(run: Any, method: tuple[object, ...], own_home: Path) -> None:
    words = ("--epsilon", 9, "--method", *method, *FEW, "--out", "r", "--json")
    made = run("classify", "digits", *words)
    assert made.code == 0, made.err
    assert made.json["private"] is True and made.json["noise"] == "float-secure"
    assert made.json["epsilon"]["certified"] <= 9
    assert (made.json["steps"], made.json["releases"]) == (4, 4)
    names = {path.name for path in Path("r").iterdir()}
    assert names == {
        "config.toml",
        "ledger.json",
        "certificate.json",
        "certificate.sig",
        "classifier.safetensors",
        "report.html",
        "log.jsonl",
        "internal",
    }
    told = run("verify", "r", "--json").json
    assert told["holds"] and told["private"] and len(told["not_checked"]) == 2  # no log, no key
    assert told["ledger"] == "digits"

    before = len(Ledger(own_home / "ledgers" / "digits.sqlite").rows())
    assert run("predict", "r", "digits", "--out", "p.csv").code == 0
    assert lines("p.csv")[0] == ["row", "class", "probability"] and len(lines("p.csv")) == 398
    assert all(0.0999 < float(line[2]) <= 1 for line in lines("p.csv")[1:])
    assert len(Ledger(own_home / "ledgers" / "digits.sqlite").rows()) == before  # it is free

    judged = run("evaluate", "r", "--on", "digits", "--json").json
    assert judged["test_images"] == 397 and 0 <= judged["accuracy"] <= 1
    assert json.loads(Path("r/internal/evaluation.json").read_text()) == judged
    assert "Internal" in run("evaluate", "r", "--on", "digits").out

    assert run("export", "r", "--out", "public").code == 0
    assert {path.name for path in Path("public").iterdir()} == names - {"internal"}
    assert run("verify", "public").code == 0
    report = Path("public/report.html").read_text()
    assert "A classifier of digits" in report and "accuracy" not in report


def test_pictures_in_a_folder(run: Any) -> None:
    """Flat or in folders, grey or not, of any size: they are brought to what the run knows."""
    assert run(*SCATTER, "--out", "r").code == 0
    Path("new/sub").mkdir(parents=True)
    chance = np.random.default_rng(0)
    grey = chance.integers(0, 256, (8, 8), dtype=np.uint8)
    Image.fromarray(grey).save("new/a.png")
    Image.fromarray(grey).convert("RGB").save("new/sub/b, c.png")
    Image.fromarray(chance.integers(0, 256, (20, 31, 3), dtype=np.uint8)).save("new/z.png")
    Path("new/.hidden").write_text("no picture")
    np.savez("one.npz", images=grey[None])
    assert run("predict", "r", "new", "--out", "p.csv", "--json").json["count"] == 3
    head, *rows = lines("p.csv")
    assert head == ["file", "class", "probability"]
    assert [row[0] for row in rows] == ["a.png", "sub/b, c.png", "z.png"]
    assert rows[0][1:] == rows[1][1:]
    assert run("predict", "r", "one.npz", "--out", "q.csv").code == 0
    assert lines("q.csv")[1] == ["0", *rows[0][1:]]


def test_a_seed_is_marked_and_reproduces(run: Any) -> None:
    for name in ("a", "b"):
        assert "NOT PRIVATE" in run(*SCATTER, "--out", name, "--seed", 3, "--not-private").out
    one, other = (load_file(f"{name}/classifier.safetensors") for name in ("a", "b"))
    assert all(np.array_equal(one[name], other[name]) for name in one)
    assert Path("a/NOT-PRIVATE.txt").exists()
    assert "NOT PRIVATE" in run("predict", "a", "digits", "--out", "p.csv").out


NONE = ("classify", "digits", "--epsilon", 1, "--out", "r")


@pytest.mark.parametrize(
    "words, sentence",
    [
        (("classify", "digits", "--out", "r"), "--epsilon must be given"),
        ((*NONE, "--method", "magic"), "there are topagg, dpsgd, scatter"),
        ((*NONE, "--method", "datalens"), "there are topagg, dpsgd, scatter"),
        ((*NONE, "--method", "dpsgd", "--keep", 0.5), "keep is no setting"),
        ((*NONE, "--keep", 0), "keep"),
        ((*NONE, "--keep", 1.5), "keep"),
        ((*NONE, "--steps", 3, "--epochs", 2), "steps or epochs"),
        ((*NONE, "--batch", 5000), "only 1400 records"),
        ((*NONE, "--set", "keep=0.5"), "its own option"),
        ((*NONE, "--set", "noise_multiplier=0.01", *FEW[:4]), "too little for 4 steps"),
        ((*NONE, "--seed", 1), "NOT PRIVATE"),
        ((*NONE[:-2], "--resume"), "--resume needs --out"),
        ((*NONE, "--resume", "--steps", 3), "is no run"),
        ((*NONE, "--resume"), "is no run"),
        (("classify", "nothing", "--epsilon", 1, "--out", "r"), "nothing"),
        (("predict", "r", "digits", "--out", "p.csv"), "is no run"),
    ],
)
def test_bad_input_is_one_sentence_and_costs_nothing(
    run: Any, words: tuple[object, ...], sentence: str, own_home: Path, tmp_path: Path
) -> None:
    refused = run(*words)
    assert refused.code == 2 and sentence in refused.err and refused.err.count("\n") == 1
    assert not own_home.exists() and not any(tmp_path.iterdir())


def test_commands_that_a_run_is_not_for(run: Any) -> None:
    assert run(*SCATTER, "--out", "r").code == 0
    assert (
        run("fit", "digits", "--epsilon", 3, "--method", "class-gaussian", "--out", "g").code == 0
    )
    for words, sentence in {
        ("sample", "r", "--count", 3, "--out", "s.npz"): "makes a classifier",
        ("predict", "g", "digits", "--out", "p.csv"): "makes images",
        ("predict", "r", "digits", "--out", "p.txt"): "FILE.csv",
        ("predict", "r", "r", "--out", "p.csv"): "no image of a format",
        ("predict", "r", "absent", "--out", "p.csv"): "absent",
        ("evaluate", "r", "--on", "digits", "--seeds", 2): "--seeds",
        (*NONE[:3], 9, "--out", "r"): "exists already",
        ("classify", "digits", "--out", "r", "--resume"): "is finished",
    }.items():
        refused = run(*words)
        assert refused.code == 2 and sentence in refused.err, (words, refused.err)
    np.savez("odd.npz", images=np.zeros((2, 9, 8, 3), np.uint8))
    assert "trained on" in run("predict", "r", "odd.npz", "--out", "p.csv").err
    assert not Path("p.csv").exists()


def test_a_cap_refuses_and_leaves_nothing(run: Any) -> None:
    assert run("ledger", "digits", "--cap", 1).code == 0
    refused = run(*SCATTER, "--out", "r")
    assert refused.code == 2 and "digits" in refused.err and not Path("r").exists()


def test_stop_and_resume(run: Any, tmp_path: Path) -> None:
    """Ctrl-C ends with a run that goes on, bit for bit, and is then certified."""
    settings = ("--epsilon", "9", "--method", "scatter", "--steps", "201", "--batch", "60")
    settings += ("--seed", "1", "--not-private", "--set", "noise_multiplier=1.0")
    words = [sys.executable, "-m", "datalens", "classify", "digits", *settings, "--out", "r"]
    env = {**os.environ, "PYTHONPATH": str(Path(datalens.__file__).parents[1])}
    env["OMP_NUM_THREADS"] = str(torch.get_num_threads())  # part of the result, by rounding
    process = subprocess.Popen(words, cwd=tmp_path, env=env, stderr=subprocess.PIPE)
    while not list(tmp_path.glob("r/internal/releases/*.safetensors")):
        assert process.poll() is None
        time.sleep(0.01)
    process.send_signal(signal.SIGINT)
    assert b"--resume" in process.communicate()[1] and process.returncode == 130
    assert "classify digits --out r --resume" in run("predict", "r", "digits", "--out", "p.csv").err
    refused = run("fit", "digits", "--out", "r", "--resume")
    assert refused.code == 2 and "makes a classifier" in refused.err
    resumed = run("classify", "digits", "--out", "r", "--resume", "--json")
    assert resumed.code == 0 and resumed.json["releases"] == 201
    assert run("verify", "r").code == 0
    assert run("classify", "digits", *settings, "--out", "w").code == 0
    one, other = (load_file(f"{name}/classifier.safetensors") for name in ("r", "w"))
    assert all(np.array_equal(one[name], other[name]) for name in one)
