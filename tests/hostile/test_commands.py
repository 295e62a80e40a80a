"""Hostile files as a user meets them: exit code 2, one line on stderr, nothing written or spent."""

import json
import shutil
import sqlite3
import struct
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
from PIL import Image

from datalens.workflows import cli
from datalens.workflows.evaluation import Effort

from .judging import deadline
from .readers import RUNS

Break = Callable[[Path], None]


class Outcome(NamedTuple):
    code: int
    out: str
    err: str


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> Any:
    monkeypatch.chdir(tmp_path)

    def call(*words: str) -> Outcome:
        monkeypatch.setattr(sys, "argv", ["datalens", *words])
        try:
            with deadline():
                cli.main()
            code = 0
        except SystemExit as stop:
            code = int(stop.code or 0)
        return Outcome(code, *capsys.readouterr())

    return call


@pytest.fixture
def place(tmp_path: Path, own_home: Path) -> Path:
    """A folder with whole runs, a stopped one, and data; and the ledger they belong to."""
    shutil.copytree(RUNS["datalens"], tmp_path / "run")
    shutil.copytree(RUNS["stopped"], tmp_path / "half")
    shutil.copytree(RUNS["scatter"], tmp_path / "model")
    shutil.copyfile(RUNS["data"] / "own.npz", tmp_path / "own.npz")
    shutil.copytree(RUNS["home"], own_home)
    return tmp_path


def put(name: str, content: bytes) -> Break:
    def break_it(folder: Path) -> None:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(content)

    return break_it


def cut(name: str) -> Break:
    return lambda folder: (folder / name).write_bytes((folder / name).read_bytes()[:-9])


def change(name: str, old: str, new: str) -> Break:
    def break_it(folder: Path) -> None:
        text = (folder / name).read_text()
        assert old in text
        (folder / name).write_text(text.replace(old, new, 1))

    return break_it


def link(name: str, target: str) -> Break:
    def break_it(folder: Path) -> None:
        (folder / name).unlink(missing_ok=True)
        (folder / name).symlink_to(target)

    return break_it


def picture(name: str) -> Break:
    def break_it(folder: Path) -> None:
        for pet in ("ant", "bee"):
            (folder / "pets" / pet).mkdir(parents=True)
            Image.new("L", (8, 8)).save(folder / "pets" / pet / "1.png")
        Image.new("L", (9000, 9000)).save(folder / "pets" / "ant" / name)

    return break_it


def odd_folder(folder: Path) -> None:
    (folder / "pets" / "an\x1b[2Jt\n").mkdir(parents=True)
    (folder / "pets" / "bee").mkdir()
    Image.new("L", (8, 8)).save(folder / "pets" / "bee" / "1.png")
    (folder / "pets" / "an\x1b[2Jt\n" / "\udcff\n.png").write_bytes(b"none")


def made(folder: Path, name: str) -> Path:
    (folder / name).mkdir()
    return folder


def checkpoint(folder: Path) -> Path:
    return next((folder / "half" / "internal" / "checkpoint").glob("step-*"))


def broken_release(folder: Path) -> None:
    shutil.rmtree(checkpoint(folder))  # else it would not be read again
    put("half/internal/releases/second-moments.npy", DEEP)(folder)


def broken_idx(folder: Path) -> None:
    put("mnist/train-images-idx3-ubyte", PIXELS)(folder)
    put("mnist/train-labels-idx1-ubyte", LABELS)(folder)


LABELS = bytes([0, 0, 8, 1]) + struct.pack(">I", 2**32 - 1)
PIXELS = bytes([0, 0, 8, 3]) + struct.pack(">3I", 2**31, 28, 28) + bytes(28)
FIT = ["fit", "own.npz", "--classes", "2", "--epsilon", "1", "--out", "new"]
MNIST = ["fit", "mnist", "--data-dir", ".", "--epsilon", "1", "--out", "new"]
PETS = ["fit", "pets", "--epsilon", "1", "--out", "new", "--image-size", "8"]
RESUME = ["fit", "own.npz", "--classes", "2", "--out", "half", "--resume"]
SAMPLE = ["sample", "run", "--count", "9", "--out", "s.npz"]
EVALUATE = ["evaluate", "run", "--on", "own.npz", "--classes", "2"]
PREDICT = ["predict", "model", "own.npz", "--out", "p.csv"]
LOOK = ["predict", "model", "pets", "--out", "p.csv"]
TRAIN = ["classify", "own.npz", "--classes", "2", "--epsilon", "1", "--out", "new"]
TRAIN += ["--method", "scatter", "--steps", "2", "--batch", "5", "--set", "noise_multiplier=9.0"]
EXPORT = ["export", "run", "--out", "public"]
VERIFY = ["verify", "run"]
DEEP = b'{"a":' * 99999

CASES: dict[str, tuple[list[str], Break, str]] = {
    "npz": (FIT, cut("own.npz"), "own.npz"),
    "npz objects": (FIT, lambda f: np.savez(f / "own.npz", images=[{}], labels=[1]), "own.npz"),
    "idx": (MNIST, broken_idx, "train-images"),
    "picture": (PETS, picture("bomb.png"), "bomb.png"),
    "names": (PETS, odd_folder, "no image of a format"),
    "preset": ([*FIT, "--preset", "a.toml"], put("a.toml", b"a=" + b"[" * 99999), "a.toml"),
    "preset steps": ([*FIT, "--preset", "a.toml"], put("a.toml", b"steps=%d" % 10**18), "a.toml"),
    "preset latent": ([*FIT, "--preset", "a.toml"], put("a.toml", b"latent=%d" % 10**9), "a.toml"),
    "preset device": ([*FIT, "--preset", "a.toml"], link("a.toml", "/dev/zero"), "a.toml"),
    "preset self": ([*FIT, "--preset", "a.toml"], put("a.toml", b"self=1"), "a.toml"),
    "ledger": (FIT, put("datalens-home/ledgers/own.sqlite", b"no database" * 99), "own.sqlite"),
    "resume config": (RESUME, put("half/config.toml", b"a=" + b"[" * 99999), "config.toml"),
    "resume method": (RESUME, change("half/config.toml", '"datalens"', "[]"), "config.toml"),
    "resume steps": (RESUME, change("half/config.toml", "steps = 3", "steps = 4"), "half"),
    "resume session": (RESUME, put("half/internal/session.json", DEEP), "session.json"),
    "resume secret": (
        RESUME,
        change("half/internal/session.json", '"secret": "', '"secret": "00'),
        "session.json",
    ),
    "resume seeded": (RESUME, change("half/internal/session.json", "false", "0"), "session.json"),
    "resume ledger": (
        RESUME,
        put("datalens-home/ledgers/own.sqlite", b"no database" * 99),
        "own.sqlite",
    ),
    "resume log": (RESUME, link("half/log.jsonl", "/dev/zero"), "log.jsonl"),
    "resume student": (
        RESUME,
        lambda f: put("student.safetensors", DEEP)(checkpoint(f)),
        "checkpoint",
    ),
    "resume teachers": (
        RESUME,
        lambda f: put(next(checkpoint(f).glob("teachers-*")).name, DEEP)(checkpoint(f)),
        "checkpoint",
    ),
    "resume release": (
        RESUME,
        broken_release,
        "second-moments",
    ),
    "sample config": (SAMPLE, change("run/config.toml", "[data]", "[[data]]"), "config.toml"),
    "sample method": (SAMPLE, change("run/config.toml", '"datalens"', "[]"), "unknown method"),
    "sample shape": (SAMPLE, change("run/config.toml", "    8,", "    1000000000,"), "config.toml"),
    "sample latent": (
        SAMPLE,
        change("run/config.toml", "latent = 4", "latent = 4096"),
        "generator",
    ),
    "sample generator": (SAMPLE, cut("run/generator.safetensors"), "generator.safetensors"),
    "sample certificate": (SAMPLE, put("run/certificate.json", b"[]"), "certificate.json"),
    "sample ledger": (SAMPLE, put("run/ledger.json", DEEP), "ledger.json"),
    "evaluate config": (EVALUATE, put("run/config.toml", b"\xff\xfe"), "config.toml"),
    "evaluate generator": (EVALUATE, put("run/generator.safetensors", DEEP), "generator"),
    "evaluate npz": (["evaluate", "own.npz", "--on", "digits"], cut("own.npz"), "own.npz"),
    "evaluate data": (EVALUATE, cut("own.npz"), "own.npz"),
    "predict config": (PREDICT, put("model/config.toml", b"\xff\xfe"), "config.toml"),
    "predict method": (PREDICT, change("model/config.toml", '"scatter"', "[]"), "unknown method"),
    "predict classifier": (PREDICT, cut("model/classifier.safetensors"), "classifier.safetensors"),
    "predict npz": (PREDICT, cut("own.npz"), "own.npz"),
    "predict objects": (PREDICT, lambda f: np.savez(f / "own.npz", images=[{}]), "own.npz"),
    "predict picture": (LOOK, picture("bomb.png"), "bomb.png"),
    "predict names": (LOOK, odd_folder, "no image of a format"),
    "predict endless": (LOOK, lambda f: link("pets/a.png", "/dev/zero")(made(f, "pets")), "a.png"),
    "classify npz": (TRAIN, cut("own.npz"), "own.npz"),
    "classify ledger": (
        TRAIN,
        put("datalens-home/ledgers/own.sqlite", b"no database" * 99),
        "own.sqlite",
    ),
    "export config": (EXPORT, put("run/config.toml", b"method = 1"), "unknown method"),
    "export generator": (EXPORT, cut("run/generator.safetensors"), "generator.safetensors"),
    "export certificate": (EXPORT, put("run/certificate.json", b"{}"), "certificate.json"),
    "export ledger": (EXPORT, put("run/ledger.json", b"{"), "ledger.json"),
    "export link": (EXPORT, link("run/report.html", "/etc/hostname"), "report.html"),
    "verify certificate": (VERIFY, put("run/certificate.json", DEEP), "certif"),
    "verify list": (VERIFY, put("run/certificate.json", b"[1]"), "certificate.json"),
    "verify ledger": (VERIFY, put("run/ledger.json", b"\xff"), "ledger.json"),
    "verify nothing": (VERIFY, lambda f: (f / "run" / "ledger.json").unlink(), "ledger.json"),
}


@pytest.mark.parametrize("case", CASES)
def test_one_line_exit_2_and_nothing_left(case: str, run: Any, place: Path, own_home: Path) -> None:
    words, break_it, names = CASES[case]
    break_it(place)
    before, spent = contents(place, but=own_home), rows(own_home)
    result = run(*words)
    assert result.code == 2, (result.out, result.err)
    said = result.err.strip().splitlines()
    assert said[-1].startswith("datalens: ") and said[-1].endswith("."), said
    assert names in said[-1] and said[-1].isprintable(), said
    assert "Traceback" not in result.err and not result.out
    before_it = [line for line in said[:-1] if not line.endswith(" ...")]  # evaluate's stages
    assert not before_it or words is RESUME, said  # a resumed run draws its bars first
    assert contents(place, but=own_home) == before
    assert rows(own_home) == spent


@pytest.mark.parametrize(
    "words", [FIT, RESUME, SAMPLE, EVALUATE, EXPORT, VERIFY, PREDICT, TRAIN], ids=str
)
def test_the_whole_files_are_taken(
    words: list[str], run: Any, place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The control: the same commands, and nothing broken."""
    monkeypatch.setattr("datalens.workflows.evaluation.USUAL", Effort(judged=40))
    assert run(*words, *(["--method", "class-gaussian"] if words is FIT else [])).code == 0


def test_verify_of_a_certificate_that_reads_but_lies_exits_1(run: Any, place: Path) -> None:
    put("run/certificate.json", json.dumps({"run": 1, "epsilon": "0.1"}).encode())(place)
    result = run(*VERIFY)
    assert result.code == 1 and "Traceback" not in result.err


def test_a_certificate_cannot_write_its_own_verdict(run: Any, place: Path) -> None:
    extract = json.loads((place / "run" / "ledger.json").read_text())
    extract["rows"][-1] |= {"row": "1\x1b[2J\nThe certificate holds.", "run": "another"}
    (place / "run" / "ledger.json").write_text(json.dumps(extract))
    result = run(*VERIFY)
    assert result.code == 1 and "The certificate holds." not in result.out.splitlines()
    assert all(line.isprintable() for line in result.out.splitlines())


def contents(folder: Path, *, but: Path) -> dict[str, bytes | None]:
    """Every file and folder, with what is in it; a lock is nothing."""
    return {
        str(path.relative_to(folder)): path.read_bytes() if path.is_file() else None
        for path in folder.rglob("*")
        if but not in (path, *path.parents) and path.name != "lock"
    }


def rows(home: Path) -> list[tuple[Any, ...]] | None:
    """What all ledgers of this home hold; None where one is no database."""
    found = []
    for path in sorted((home / "ledgers").glob("*.sqlite")):
        try:
            with sqlite3.connect(path) as database:
                found += database.execute("SELECT * FROM entries ORDER BY 1").fetchall()
        except sqlite3.DatabaseError:
            return None
    return found
