"""Processes that spend, to be killed at any moment. They note every draw before it is made."""

import os
from collections.abc import Callable
from pathlib import Path

import numpy as np

from datalens.mechanism.moments import ClassCounts
from datalens.mechanism.noise import ExactNoise, Integers
from datalens.privacy.accountants import Charge
from datalens.privacy.ledger import Ledger
from datalens.privacy.releases import Releases

COUNTS = ClassCounts(sigma=10.0, n_classes=3)
RESERVED = 100_000


def note(path: Path, word: str) -> None:
    """One line, appended in one write, so that a kill leaves it whole or not at all."""
    file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    os.write(file, f"{word}\n".encode())
    os.close(file)


def noted(draw: Callable[..., Integers], path: Path) -> Callable[..., Integers]:
    """The same noise, which leaves word of each draw before it draws."""

    def add(self: object, values: Integers, *, sigma: float, key: str) -> Integers:
        note(path, key)
        return draw(self, values, sigma=sigma, key=key)

    return add


class Quick:
    """Stands in for exact noise, without the half second that OpenDP takes to load."""

    kind = "exact"

    def add(self, values: Integers, *, sigma: float, key: str) -> Integers:
        return values + np.frombuffer(os.urandom(8 * values.size), dtype=np.int8)[: values.size]


def spend(folder: Path, upto: int, lost: Path | None = None) -> None:
    """Obtain release after release; one that is to note what was lost begins at the first."""
    Quick.add = noted(Quick.add, folder / "draws")  # type: ignore[method-assign]
    ledger = Ledger(folder / "data.sqlite")
    if not ledger.rows("run"):
        ledger.reserve("run", [Charge(event=COUNTS.event, count=RESERVED)], facts={})
    desk = Releases(ledger=ledger, run="run", noise=Quick(), folder=folder / "releases")  # type: ignore[arg-type]
    first = max(0, len(ledger.rows("run")) - 4) if lost is None else 0  # some are recalled
    for number in range(first, upto):
        release = desk.obtain(str(number), COUNTS, lambda: np.ones(3, dtype=np.int64))
        if release is None and lost is not None:
            note(lost, str(number))


def train(folder: Path, out: Path) -> None:
    """A real run, begun or gone on with."""
    import torch

    from datalens.synthesizers import METHODS
    from datalens.workflows.fitting import Source, fit_run, resume_run

    torch.set_num_threads(1)
    os.environ["DATALENS_HOME"] = str(folder / "home")
    ExactNoise.add = noted(ExactNoise.add, folder / f"draws-{out.name}")  # type: ignore[method-assign]
    source = Source(name="digits")
    if (out / "config.toml").exists():
        resume_run(source, out, epsilon=None, quiet=True)
        return
    settings = {
        "epsilon": 8.0,
        "n_teachers": 20,
        "steps": 60,
        "batch_size": 5,
        "label_steps": 2,
        "teacher_warm_up": 2,
    }
    fit_run(METHODS["datalens"](**settings), source, out, ledger="digits", seed=None, quiet=True)
