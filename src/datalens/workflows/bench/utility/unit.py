"""One repetition of one cell: fit, sample, judge, measure.

`python -m` this file is a worker's whole life.
Its order comes as one line of JSON on stdin, which stays open: when it closes, whoever gave the
order is gone, and the worker ends. Its figures go to figures.json in the folder it is given.
"""

import json
import math
import os
import sys
from pathlib import Path
from threading import Thread
from typing import Any

import torch
from PIL import Image
from pydantic import BaseModel, ConfigDict

from datalens.errors import DataLensError, sentence
from datalens.synthesizers import METHODS, Synthesizer
from datalens.utility.accuracy import judged_accuracy
from datalens.utility.measures import measured
from datalens.workflows.bench.machine import description, source_digest, timed
from datalens.workflows.bench.utility.cells import configuration_of, split
from datalens.workflows.cache import Cache
from datalens.workflows.pictures import contact_sheet, save_sheet

FIGURES, SHEET = "figures.json", "sheet.png"
LEDGER = "benchmark"
SHEET_ROWS, SHEET_COLUMNS = 10, 10
SHEET_COLOURS = {1: 8, 3: 64}
"""By channels: enough to see what is there, in a picture small enough to keep with the figures."""


class Order(BaseModel):
    """What a worker is told."""

    model_config = ConfigDict(frozen=True)

    stem: str
    """Of the cell."""
    dataset: str
    path: Path | None = None
    """Of the data, where they are no data set by name."""
    held_out: bool = False
    configuration: dict[str, Any]
    seed: int
    seeded: bool = False
    """Whether the seed is that of the fit as well, noise included, which then protects nobody."""
    images: int
    """To sample, for the judge to learn from."""
    data_dir: Path | None = None
    source: str
    """Digest of the code that is to be measured."""
    cache: Path | None = None
    """Where domain classifiers are kept, so that each is learned once for all repetitions."""


def repeat(order: Order, folder: Path) -> None:
    """Leave the figures in `folder`, and of the first repetition a picture.

    The fit spends a budget of DATALENS_HOME's ledgers; whoever calls sees to it that it is
    nobody's.
    """
    # A worker loads the code anew, hours after the first perhaps: it must still be the same.
    if source_digest() != order.source:
        raise DataLensError("the source of datalens has changed since the bench was started.")
    train, test = split(order.path or order.dataset, order.data_dir, order.held_out)
    synthesizer = METHODS[order.configuration["method"]](**order.configuration["settings"])
    if configuration_of(synthesizer.resolve(train.public)) != order.configuration:
        raise DataLensError(f"{order.dataset} has changed since the bench was started.")
    seed = order.seed if order.seeded else None
    # The data are public, and one delta for all of them is what makes their figures comparable.
    fit_seconds, _ = timed(synthesizer.fit, train, ledger=LEDGER, seed=seed, allow_large_delta=True)
    sample_seconds, (images, labels) = timed(synthesizer.sample, order.images, seed=seed)
    judge_seconds, found = timed(judged_accuracy, images, labels, test, seeds=[order.seed])
    domain = Cache(order.cache).domain(train)
    measure_seconds, look = timed(measured, images, test.images, domain)
    certificate, machine = synthesizer.certificate, description()
    software = ("datalens", "torch", "numpy", "numba", "python")
    versions = certificate["versions"] | {name: machine.pop(name) for name in software}
    versions["source"] = order.source
    figures = {
        "seed": order.seed,
        "accuracy": found.accuracy,
        "best_on_test": found.accuracy_best_on_test,
        "per_class": {
            name: None if math.isnan(share) else share for name, share in found.per_class.items()
        },
        "epsilon": certificate["epsilon"],
        "epsilon_replace": certificate["epsilon_replace"],
        "delta": certificate["delta"],
        "releases": certificate["releases"],
        "noise": certificate["noise"]["kind"],
        "synthetic_images": found.training_images,
        "test_images": found.test_images,
        "measures": look.to_json() | {"domain_accuracy": domain.tested(test).accuracy},
        "seconds": {
            "fit": fit_seconds,
            "sample": sample_seconds,
            "judge": judge_seconds,
            "measure": measure_seconds,
        },
        "threads": machine.pop("threads"),
        "versions": versions,
        "machine": machine,
    }
    if order.seed == 0:
        write_small_sheet(synthesizer, folder / SHEET, seed)
    (folder / FIGURES).write_text(json.dumps(figures))


def write_small_sheet(synthesizer: Synthesizer, path: Path, seed: int | None = None) -> None:
    """One row a class, pixel for pixel."""
    classes = min(len(synthesizer.class_names), SHEET_ROWS)
    labels = [label for label in range(classes) for _ in range(SHEET_COLUMNS)]
    images, _ = synthesizer.sample(len(labels), labels, seed=seed)
    sheet = contact_sheet(images, SHEET_COLUMNS, scale=1)
    colours = SHEET_COLOURS[images.shape[1]]
    save_sheet(sheet.quantize(colours, dither=Image.Dither.NONE), path)


def main() -> int:
    """A worker's exit code; what went wrong is its last line on stderr."""
    order = Order.model_validate_json(sys.stdin.readline())
    Thread(target=_end_with_parent, daemon=True).start()
    torch.set_num_threads(int(os.environ["OMP_NUM_THREADS"]))
    try:
        repeat(order, Path(sys.argv[1]))
    except Exception as error:
        sys.stderr.write(f"\n{sentence(error)}\n")
        return 1
    return 0


def _end_with_parent() -> None:
    sys.stdin.read()
    os._exit(1)


if __name__ == "__main__":
    raise SystemExit(main())
