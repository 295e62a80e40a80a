"""A browser, and runs to look at. Where there is no browser these tests are skipped, and say so."""

import json
import os
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from datalens.synthesizers import METHODS
from datalens.synthesizers.private_classifier import CLASSIFIERS
from datalens.workflows.fitting import Source, fit_run
from datalens.workflows.report.compare import write_comparison
from datalens.workflows.report.internal import write_internal

from .chromium import NAMES, Browser, browser, found

CLASSES = ("<b>ant</b>", "bee & co", "a very long name of a class that no phone can show in a line")


@pytest.fixture(scope="session")
def chromium(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    program = found()
    if program is None:
        pytest.skip(f"there is no browser here: none of {', '.join(NAMES)}")
    with browser(program, tmp_path_factory.mktemp("profile")) as open_browser:
        yield open_browser


@pytest.fixture(scope="session")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two runs of images, one of a classifier, and every page that there is of them."""
    folder = tmp_path_factory.mktemp("place")
    images = np.random.default_rng(0).integers(0, 256, (60, 3, 8, 8), dtype=np.uint8)
    labels = np.arange(60) % 3
    np.savez(folder / "own.npz", images=images, labels=labels, class_names=CLASSES)
    source = Source(name=str(folder / "own.npz"), n_classes=3)
    votes = {"n_teachers": 6, "steps": 4, "batch_size": 3, "latent": 4, "label_steps": 2}
    made = {
        "votes": METHODS["datalens"](epsilon=3.0, **votes),
        "plain": METHODS["class-gaussian"](epsilon=1.0),
        "model": CLASSIFIERS["scatter"](epsilon=9.0, steps=4, batch_size=5),
    }
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(os.environ, "DATALENS_HOME", str(folder / "home"))
        for name, learner in made.items():
            fit_run(learner, source, folder / name, ledger=None, seed=None, quiet=True)
    figures = {
        "accuracy": 0.75,
        "accuracy_spread": 0.01,
        "seeds": [0, 1],
        "per_class": dict(zip(CLASSES, (0.9, 0.8, None), strict=True)),
        "classifiers": {"cnn": {"synthetic": {"accuracy": 0.7, "confusion": [[5, 1, 0]] * 3}}},
        "fid": 12.3,
        "measures": {
            "fid_images": 60,
            "fid_infinite": None,
            "features": "domain classifier",
            "dimensions": 64,
            "synthetic_images": 60,
            "real_images": 60,
        },
        "nearest": {
            "synthetic": {"1": 3.0, "50": 9.0},
            "copies": 0,
            "nearer_than_held_out": 0.01,
            "synthetic_images": 60,
            "held_out_images": 60,
            "training_images": 60,
        },
        "membership": [
            {
                "attack": "nearest",
                "auc": 0.51,
                "auc_interval": [0.4, 0.6],
                "hits_at_one_percent": 0.02,
                "hits_interval": [0.01, 0.03],
            }
        ],
        "notes": ["No sums: too few images."],
    }
    (folder / "votes" / "internal" / "evaluation.json").write_text(json.dumps(figures))
    write_internal(folder / "votes")
    write_comparison([folder / name for name in made], folder / "all.html")
    return folder
