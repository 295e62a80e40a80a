"""Runs to report on, made once."""

import os
from pathlib import Path

import numpy as np
import pytest

from datalens.synthesizers import METHODS
from datalens.synthesizers.private_classifier import CLASSIFIERS
from datalens.workflows.fitting import Source, fit_run

CLASSES = ("<script>alert(1)</script>", "\"quoted\" & 'odd'", "plain")


@pytest.fixture(scope="session")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """seeded and bare are NOT PRIVATE, the others are; model and kept are classifiers."""
    folder = tmp_path_factory.mktemp("made")
    images = np.random.default_rng(0).integers(0, 256, (60, 8, 8), dtype=np.uint8)
    labels = np.arange(60) % 3
    np.savez(folder / "own.npz", images=images, labels=labels, class_names=CLASSES)
    source = Source(name=str(folder / "own.npz"), n_classes=3)
    laplace = {"noise": "laplace", "n_teachers": 6, "steps": 4, "batch_size": 5, "latent": 4}
    votes = {"n_teachers": 6, "steps": 4, "batch_size": 3, "latent": 4, "label_steps": 2}
    learners = {
        "votes": METHODS["datalens"](epsilon=3.0, label_prior="bought", **votes),
        "plain": METHODS["class-gaussian"](epsilon=1.0),
        "sampled": METHODS["dpgan"](epsilon=9.0, steps=8, batch_size=5, latent=4, width=2),
        "model": CLASSIFIERS["scatter"](epsilon=9.0, steps=4, batch_size=5),
        "kept": CLASSIFIERS["topagg"](epsilon=9.0, steps=4, batch_size=5, keep=0.5),
        "counts": METHODS["pategan"](epsilon=9.0, **laplace),
        "seeded": METHODS["class-gaussian"](epsilon=1.0),
        "bare": METHODS["dcgan"](steps=4, batch_size=5, latent=4, width=2),
    }
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(os.environ, "DATALENS_HOME", str(folder / "home"))
        for name, learner in learners.items():
            seed = 1 if name == "seeded" else None
            fit_run(learner, source, folder / name, ledger=None, seed=seed, quiet=True)
    return folder
