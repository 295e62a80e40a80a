"""One small honest run of every method, on 60 records of 8 x 8 and 3 classes."""

from pathlib import Path
from typing import Any

import numpy as np

from datalens.data import Records
from datalens.synthesizers import METHODS
from datalens.synthesizers.private_classifier import CLASSIFIERS
from datalens.utility.validation import PublicClassifier, Validation
from datalens.workflows.fitting import fit_run
from datalens.workflows.source import Source

LEDGER = "owned"

BOUGHT = {"label_prior": "bought"}
WARM = {"epsilon": 3.0, "clusters": 2, "label_steps": 2}
VOTES = WARM | {"n_teachers": 6, "steps": 3, "batch_size": 5, "top_k": 4, "latent": 4}
VOTES |= {"teacher_warm_up": 1, "student_updates": 1}
MERF = {"epsilon": 3.0, "waves": 20, "updates": 3, "batch_size": 6, "latent": 8}
PATE = {"epsilon": 3.0, "n_teachers": 6, "steps": 3, "batch_size": 5, "latent": 8, "remembered": 2}
PATE |= {"student_updates": 1, "generator_updates": 1}
BINS = {"epsilon": 3.0, "n_teachers": 6, "steps": 3, "batch_size": 5, "latent": 8, "width": 4}
BINS |= {"warm_up": 2, "projected": 3}
DRAWN = {"epsilon": 3.0, "n_teachers": 6, "steps": 6, "batch_size": 3, "latent": 4, "width": 4}
DRAWN |= {"warm_up": 2, "refresh_every": 3, "noise_multiplier": 9.0}
GAN = {"epsilon": 3.0, "steps": 6, "batch_size": 6, "latent": 4, "width": 2}
NOISY = {"epsilon": 3.0, "steps": 6, "batch_size": 6, "at_once": 4, "noise_multiplier": 1.5}

RUNS: dict[str, dict[str, Any]] = {
    "datalens": WARM,
    "datalens, bought": WARM | BOUGHT,
    "datalens, no labeller": {"epsilon": 3.0, "clusters": 1, "label_share": 0.0},
    "datalens, votes": VOTES,
    "datalens, votes, bought": VOTES | BOUGHT,
    "datalens, votes alone": {k: v for k, v in VOTES.items() if k not in WARM}
    | {"epsilon": 3.0, "warm_start": False},
    "datalens, votes on a grid": VOTES | {"quantise": False},
    "datalens, all entries": VOTES | {"keep_all": True},
    "datalens, d2pfed": VOTES | {"compressor": "d2pfed"},
    "datalens, d2pfed, 4 levels": VOTES | {"compressor": "d2pfed", "levels": 4},
    "datalens, fetchsgd": VOTES | {"compressor": "fetchsgd"},
    "class-gaussian": {"epsilon": 3.0},
    "class-gaussian, bought": {"epsilon": 3.0} | BOUGHT,
    "class-gaussian, paper": {"epsilon": 3.0, "accountant": "paper"},
    "dp-merf": MERF,
    "dp-merf, bought": MERF | BOUGHT,
    "pategan": PATE,
    "pategan, Laplace": PATE | {"noise": "laplace"},
    "pategan, bought": PATE | BOUGHT,
    "gpate": BINS,
    "gpate, checks": BINS | {"threshold": 0.5} | BOUGHT,
    "gswgan": DRAWN,
    "gswgan, bought": DRAWN | BOUGHT,
    "dpgan": GAN,
    "dpgan, bought": GAN | BOUGHT,
    "dcgan": {"steps": 6, "batch_size": 6, "latent": 4, "width": 2},
    "dpsgd": NOISY,
    "dpsgd, certified": NOISY | {"accountant": "certified", "noise_multiplier": None},
    "topagg": NOISY,
    "scatter": NOISY,
}
"""By a name that begins with the method's. Those that nobody names are made as well: see below."""

SEEDED, JUDGED, TINY = "class-gaussian, seeded", "validation", "class-gaussian, 2 records"
NAMES = (*RUNS, SEEDED, JUDGED, TINY)


def make(name: str, folder: Path, n: int = 60) -> Path:
    """The run's folder, with its private half; the home of ledgers must be set."""
    if name == JUDGED:
        teacher = PublicClassifier(lambda pixels: np.zeros(len(pixels), dtype=np.int64), {})
        Validation(lambda: teacher, epsilon=1.0).fit(records(n), ledger=LEDGER).save(folder)
        return folder
    seed = 1 if name == SEEDED else None
    some = records(2 if name == TINY else n)
    data = folder.parent / f"{folder.name}.npz"
    np.savez(data, images=some.images, labels=some.labels)
    method = name.split(",")[0]
    settings = RUNS.get(name, {"epsilon": 3.0})
    learner = {**METHODS, **CLASSIFIERS}[method](**settings)
    source = Source(name=str(data), n_classes=3)
    fit_run(learner, source, folder, ledger=LEDGER, seed=seed, quiet=True)
    return folder


def records(n: int) -> Records:
    chance = np.random.default_rng(n)
    images = chance.integers(0, 256, (n, 1, 8, 8), dtype=np.uint8)
    return Records.from_arrays(images, np.arange(n) % 3, n_classes=3, name="squares")
