"""Every reader, with a whole file that it reads, and how to break that file."""

import gzip
import json
import shutil
import struct
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np
import torch
from PIL import Image
from torch import Tensor

from datalens.data import load
from datalens.data.idx import read_idx_images, read_idx_labels
from datalens.mechanism.moments import ClassCounts
from datalens.mechanism.noise import ExactNoise, Integers
from datalens.privacy.accountants import Charge
from datalens.privacy.ledger import Ledger, ledger_path
from datalens.privacy.releases import Releases
from datalens.privacy.verify import verify
from datalens.synthesizers import METHODS
from datalens.synthesizers.checkpoint import Checkpoints
from datalens.synthesizers.session import Session, Stopped
from datalens.workflows.fitting import make_synthesizer
from datalens.workflows.progress import tidy_log
from datalens.workflows.publishing import export
from datalens.workflows.report.internal import write_internal
from datalens.workflows.report.public import write_report
from datalens.workflows.runs import load_classifier, load_run
from datalens.workflows.watch.state import Follower

from .containers import of_either, of_lines, of_member, of_packed, of_png
from .image_sets import IMAGE_SETS
from .mutations import Mutator, of_bytes, of_head, of_json, of_toml

COUNTS = ClassCounts(sigma=10.0, n_classes=3)
IMAGES = np.random.default_rng(0).integers(0, 256, (12, 8, 8), dtype=np.uint8)
LABELS = np.arange(12) % 3
NAMES = np.array(["ant", "bee", "cow"])


@dataclass(frozen=True, kw_only=True)
class Reader:
    make: Callable[[Path], None]
    """Puts whole files into an empty folder."""
    file: str
    """Which of them to break."""
    mutate: Mutator
    read: Callable[[Path], object]
    also: tuple[str, ...] = ()
    """What a sentence may name instead of the file."""


# Data.


def _npz(folder: Path) -> None:
    np.savez_compressed(folder / "own.npz", images=IMAGES, labels=LABELS, class_names=NAMES)


def _idx(folder: Path) -> None:
    (folder / "images").write_bytes(
        bytes([0, 0, 8, 3]) + struct.pack(">3I", 12, 8, 8) + IMAGES.tobytes()
    )
    (folder / "labels").write_bytes(
        bytes([0, 0, 8, 1]) + struct.pack(">I", 12) + LABELS.astype(np.uint8).tobytes()
    )
    for name in ("images", "labels"):
        (folder / f"{name}.gz").write_bytes(gzip.compress((folder / name).read_bytes(), mtime=0))


def _pictures(suffix: str, mode: str, folder: Path) -> None:
    for name, image in (("ant", IMAGES[0]), ("bee", IMAGES[1])):
        (folder / "pets" / name).mkdir(parents=True)
        exif = Image.Exif()
        exif[0x0112] = 6
        details = {"exif": exif} if suffix in ("jpg", "png", "webp") else {}
        Image.fromarray(image).convert(mode).save(folder / f"pets/{name}/1.{suffix}", **details)


def _load(name: str, folder: Path) -> object:
    return load(str(folder / name), n_classes=None if name == "pets" else 3, image_size=9)


# Runs: `conftest.py` makes one of each method, once.


def _run(method: str, folder: Path) -> None:
    shutil.copytree(RUNS[method], folder / "run")


RUNS: dict[str, Path] = {}
"""Finished runs by method, and one that was stopped."""


def _sample(folder: Path) -> None:
    run = load_run(folder / "run")
    images, labels = run.sample(6, seed=1)
    assert images.shape[0] == 6 and 0 <= labels.min() <= labels.max() < 10
    assert isinstance(run.certificate["private"], bool)


def _predict(folder: Path) -> None:
    run = load_classifier(folder / "run")
    labels, shares = run.predict(np.zeros((3, *run.shape), dtype=np.uint8))
    assert len(labels) == 3 and labels.min() >= 0 and np.isfinite(shares).all()


def _verify(folder: Path) -> None:
    for sentence in verify(folder / "run"):
        assert sentence.endswith(".") and sentence.isprintable(), sentence


def _export(folder: Path) -> None:
    shutil.rmtree(folder / "out", ignore_errors=True)
    export(folder / "run", folder / "out")


def _report(folder: Path) -> None:
    write_report(folder / "run")


def _log(folder: Path) -> None:
    Follower(folder / "run").state()
    tidy_log(folder / "run" / "log.jsonl")
    Follower(folder / "run").state()


def _evaluated(folder: Path) -> None:
    _run("datalens", folder)
    figures = {
        "accuracy": 0.5,
        "accuracy_spread": 0.1,
        "seeds": [0, 1],
        "per_class": {"0": 0.5, "1": None},
        "classifiers": {"cnn": {"synthetic": {"accuracy": 0.5, "confusion": [[1, 2], [3, 4]]}}},
        "inception_score": 4.2,
        "fid": 33.1,
        "prdc": {"precision": 0.5, "recall": 0.5},
        "nearest": {"synthetic": {"1": 2.0}, "held_out": {"1": 3.0}},
        "membership": [{"attack": "nearest", "auc": 0.5, "auc_interval": [0.4, 0.6]}],
    }
    (folder / "run" / "internal" / "evaluation.json").write_text(json.dumps(figures))


def _preset(folder: Path) -> None:
    (folder / "own.toml").write_text(
        'n_teachers = 4\nsteps = 2\nbatch_size = 3\nlatent = 8\ndiscriminator = "compact"\n'
        "sigma = 50.0\nquorum = 0.5\nwarm_start = true\nclip = 1.0\nepsilon = 2.0\n"
    )


def _use_preset(folder: Path) -> None:
    public = load(str(folder / "own.npz"), n_classes=3).public
    made = make_synthesizer(
        "datalens", preset=str(folder / "own.toml"), data_name="own", overrides={"epsilon": 9.0}
    )
    made.resolve(public)


# What a run keeps for itself.


class Rows:
    """Stands in for ten teachers."""

    first_teacher, n_teachers = 0, 10

    def __init__(self) -> None:
        self.numbers, self.steps = torch.arange(20.0).view(10, 2), torch.arange(10)

    def state(self) -> dict[str, Tensor]:
        return {"numbers": self.numbers, "steps": self.steps}


class One:
    """Stands in for the student."""

    def __init__(self) -> None:
        self.value = torch.ones(3, 2)

    def state(self) -> dict[str, Tensor]:
        return {"value": self.value}

    def load_state(self, state: dict[str, Tensor]) -> None:
        self.value.copy_(state["value"])


def _checkpoints(folder: Path) -> Checkpoints:
    return Checkpoints(folder / "checkpoint", student=One(), teachers=Rows())


def _write_checkpoint(folder: Path) -> None:
    try:
        _checkpoints(folder).after(3, stopping=True)
    except Stopped:
        return


def _session(folder: Path) -> None:
    facts = {"run": "a1b2c3d4e5f6", "secret": "00" * 32, "ledger": "own", "seeded": False}
    facts |= {"named": False, "allow_large_delta": False, "files": ""}
    (folder / "run" / "internal").mkdir(parents=True)
    (folder / "run" / "internal" / "session.json").write_text(json.dumps(facts))
    Ledger(ledger_path("own"))


def _ledger(folder: Path) -> None:
    ledger = Ledger(folder / "own.sqlite")
    ledger.reserve("run", [Charge(event=COUNTS.event, count=9)], facts={"noise": "exact"})
    ledger.spend("run", "counts", COUNTS.event, count=1)


def _use_ledger(folder: Path) -> None:
    ledger = Ledger(folder / "own.sqlite")
    ledger.rows("run")
    ledger.charges("run")
    ledger.has_spent("run", "counts")
    ledger.spend("run", "more", COUNTS.event, count=1)
    ledger.settle("run", {})


def _obtain(folder: Path) -> Integers | None:
    releases = Releases(
        ledger=Ledger(folder / "own.sqlite"), run="run", noise=ExactNoise(), folder=folder
    )
    return releases.obtain("counts", COUNTS, lambda: np.zeros(3, dtype=np.int64))


def _release(folder: Path) -> None:
    _ledger(folder)
    np.save(folder / "counts.npy", np.arange(3))


def _all(*makers: Callable[[Path], None]) -> Callable[[Path], None]:
    def make(folder: Path) -> None:
        for maker in makers:
            maker(folder)

    return make


READERS = {
    "idx images": Reader(
        make=_idx, file="images", mutate=of_head, read=lambda f: read_idx_images(f / "images")
    ),
    "idx labels": Reader(
        make=_idx, file="labels", mutate=of_bytes, read=lambda f: read_idx_labels(f / "labels")
    ),
    "gzip": Reader(
        make=_idx,
        file="images.gz",
        mutate=of_bytes,
        read=lambda f: read_idx_images(f / "images.gz"),
    ),
    "gzipped idx": Reader(
        make=_idx,
        file="images.gz",
        mutate=of_packed,
        read=lambda f: read_idx_images(f / "images.gz"),
    ),
    "npz": Reader(make=_npz, file="own.npz", mutate=of_bytes, read=partial(_load, "own.npz")),
    **{
        f"npz {name}": Reader(
            make=_npz,
            file="own.npz",
            mutate=partial(of_member, f"{name}.npy"),
            read=partial(_load, "own.npz"),
        )
        for name in ("images", "labels", "class_names")
    },
    **{
        f"{suffix} {mode}": Reader(
            make=partial(_pictures, suffix, mode),
            file=f"pets/ant/1.{suffix}",
            mutate=of_png if suffix == "png" else of_bytes,
            read=partial(_load, "pets"),
        )
        for suffix, mode in [
            ("png", "L"),
            ("png", "RGBA"),
            ("png", "P"),
            ("jpg", "RGB"),
            ("gif", "P"),
            ("bmp", "RGB"),
            ("webp", "RGB"),
            ("ppm", "RGB"),
        ]
    },
    **{name: Reader(**each) for name, each in IMAGE_SETS.items()},
    "preset": Reader(
        make=_all(_npz, _preset),
        file="own.toml",
        mutate=of_toml,
        read=_use_preset,
        also=("teachers", "epsilon", "top-k", "clip", "sigma", "quorum"),
    ),
    **{
        f"{command} {file} {method}": Reader(
            make=partial(_run, method), file=f"run/{file}", mutate=mutate, read=read, also=also
        )
        for command, read in (("sample", _sample), ("verify", _verify), ("export", _export))
        for file, mutate, also in (
            ("config.toml", of_toml, ("run",)),
            ("certificate.json", of_json, ("run",)),
            ("ledger.json", of_json, ("run",)),
            ("generator.safetensors", of_either, ()),
        )
        for method in METHODS
        if command == "sample" or method == "datalens"
    },
    **{
        f"predict {file}": Reader(
            make=partial(_run, "scatter"),
            file=f"run/{file}",
            mutate=mutate,
            read=_predict,
            also=also,
        )
        for file, mutate, also in (
            ("config.toml", of_toml, ("run",)),
            ("certificate.json", of_json, ("run",)),
            ("classifier.safetensors", of_either, ()),
        )
    },
    **{
        f"report {file}": Reader(
            make=partial(_run, "datalens"),
            file=f"run/{file}",
            mutate=mutate,
            read=_report,
            also=("certificate.json", "run"),  # where files do not fit together it is named
        )
        for file, mutate in (
            ("config.toml", of_toml),
            ("certificate.json", of_json),
            ("ledger.json", of_json),
            ("generator.safetensors", of_either),
        )
    },
    "internal report": Reader(
        make=_evaluated,
        file="run/internal/evaluation.json",
        mutate=of_json,
        read=lambda f: write_internal(f / "run"),
    ),
    "diagnosis": Reader(
        make=_evaluated,
        file="run/internal/data_dependent.jsonl",
        mutate=of_lines,
        read=lambda f: write_internal(f / "run"),
    ),
    "log": Reader(make=partial(_run, "datalens"), file="run/log.jsonl", mutate=of_lines, read=_log),
    "session": Reader(
        make=_session,
        file="run/internal/session.json",
        mutate=of_json,
        read=lambda f: Session.resume(folder=f / "run" / "internal"),
        also=("The ledger",),
    ),
    "student": Reader(
        make=_write_checkpoint,
        file="checkpoint/step-00003/student.safetensors",
        mutate=of_either,
        read=lambda f: _checkpoints(f).resume(),
        also=("step-00003",),
    ),
    "teachers": Reader(
        make=_write_checkpoint,
        file="checkpoint/step-00003/teachers-000000-000009.safetensors",
        mutate=of_either,
        read=lambda f: _checkpoints(f).resume(),
        also=("step-00003",),
    ),
    "release": Reader(
        make=_release, file="counts.npy", mutate=of_head, read=_obtain, also=("counts",)
    ),
    "ledger": Reader(
        make=_ledger,
        file="own.sqlite",
        mutate=of_bytes,
        read=_use_ledger,
        also=("ledger", "privacy event", "Run run"),
    ),
}
