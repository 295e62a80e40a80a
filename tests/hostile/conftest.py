"""Whole runs to break, made once."""

import os
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from datalens.synthesizers import METHODS
from datalens.synthesizers.private_classifier import CLASSIFIERS
from datalens.synthesizers.session import Stopped
from datalens.workflows.fitting import Source, fit_run
from datalens.workflows.progress import Watcher

from . import readers

SMALL = {
    "datalens": {"n_teachers": 4, "steps": 3, "batch_size": 3, "latent": 4, "teacher_warm_up": 1}
    | {"clusters": 2, "label_steps": 2},
    "class-gaussian": {"rank": 4},
    "dp-merf": {"waves": 10, "updates": 2, "batch_size": 6, "latent": 4},
    "gpate": {"n_teachers": 4, "steps": 2, "batch_size": 3, "latent": 4, "warm_up": 1},
    "pategan": {"n_teachers": 4, "steps": 3, "batch_size": 3, "latent": 4, "noise": "laplace"},
    "dpgan": {"steps": 4, "batch_size": 5, "latent": 4, "width": 2},
    "dcgan": {"steps": 4, "batch_size": 5, "latent": 4, "width": 2},
    "gswgan": {"n_teachers": 4, "steps": 3, "batch_size": 3, "latent": 4, "width": 4}
    | {"warm_up": 1},
}


@pytest.fixture(scope="session", autouse=True)
def whole_runs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Path]]:
    folder = tmp_path_factory.mktemp("whole")
    images = np.random.default_rng(0).integers(0, 256, (40, 8, 8), dtype=np.uint8)
    np.savez(folder / "own.npz", images=images, labels=np.arange(40) % 2)
    source = Source(name=str(folder / "own.npz"), n_classes=2)
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(os.environ, "DATALENS_HOME", str(folder / "home"))
        for method, settings in SMALL.items():
            budget = {"epsilon": 9.0} if METHODS[method].private else {}
            synthesizer = METHODS[method](**budget, **settings)
            fit_run(synthesizer, source, folder / method, ledger=None, seed=None, quiet=True)
            readers.RUNS[method] = folder / method
        classifier = CLASSIFIERS["scatter"](epsilon=9.0, steps=4, batch_size=5)
        fit_run(classifier, source, folder / "scatter", ledger=None, seed=None, quiet=True)
        readers.RUNS["scatter"] = folder / "scatter"
        patch.setattr(Watcher, "stopping", lambda self: "votes" in self._tasks)
        with pytest.raises(Stopped):  # after the first vote
            half = METHODS["datalens"](epsilon=9.0, **SMALL["datalens"])
            fit_run(half, source, folder / "stopped", ledger=None, seed=None, quiet=True)
    readers.RUNS |= {"stopped": folder / "stopped", "home": folder / "home", "data": folder}
    yield readers.RUNS
