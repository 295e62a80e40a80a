"""Processes that spend, to be killed at any moment. They note every sum of a value and noise."""

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from datalens.errors import DataLensError
from datalens.mechanism.moments import ClassCounts
from datalens.mechanism.noise import ExactNoise, Floats, FloatSecureNoise, Integers
from datalens.privacy.accountants import Charge
from datalens.privacy.ledger import Ledger, ledger_path
from datalens.privacy.releases import Releases

COUNTS = ClassCounts(sigma=10.0, n_classes=3)
RESERVED = 100_000


def note(path: Path, word: str) -> None:
    """One line, appended in one write, so that a kill leaves it whole or not at all."""
    file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    os.write(file, f"{word}\n".encode())
    os.close(file)


class Watched(np.ndarray):
    """Noise that calls `used` with a value just before it is added to it."""

    used: Callable[[Integers], None]

    @classmethod
    def of(cls, noise: Integers, used: Callable[[Integers], None]) -> "Watched":
        watched = noise.view(cls)
        watched.used = used
        return watched

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *given: Any, **named: Any) -> Any:
        plain = [np.asarray(each) for each in given]
        self.used(next(part for part, each in zip(plain, given, strict=True) if each is not self))
        return getattr(ufunc, method)(*plain, **named)


def noted(draw: Callable[..., Integers], path: Path) -> Callable[..., Integers]:
    """The same noise, which leaves word of each sum before it is formed."""

    def noting(self: object, shape: tuple[int, ...], *, sigma: float, key: str) -> Integers:
        return Watched.of(draw(self, shape, sigma=sigma, key=key), lambda value: note(path, key))

    return noting


class Quick:
    """Stands in for exact noise, without the half second that OpenDP takes to load."""

    kind = "exact"

    def draw(self, shape: tuple[int, ...], *, sigma: float, key: str) -> Integers:
        bits = np.frombuffer(os.urandom(int(np.prod(shape))), dtype=np.int8)
        return bits.astype(np.int64).reshape(shape)


def spend(folder: Path, upto: int, lost: Path | None = None) -> None:
    """Obtain release after release; one that is to note what was lost begins at the first."""
    Quick.draw = noted(Quick.draw, folder / "sums")  # type: ignore[method-assign]
    ledger = Ledger(folder / "data.sqlite")
    if not ledger.rows("run"):
        ledger.reserve("run", [Charge(event=COUNTS.event, count=RESERVED)], facts={})
    desk = Releases(ledger=ledger, run="run", noise=Quick(), folder=folder / "releases")  # type: ignore[arg-type]
    first = max(0, len(ledger.rows("run")) - 4) if lost is None else 0  # some are recalled
    for number in range(first, upto):
        release = desk.obtain(str(number), COUNTS, lambda: np.ones(3, dtype=np.int64))
        if release is None and lost is not None:
            note(lost, str(number))


MIXTURE = {"clusters": 3, "label_steps": 12}
"""What more records than those of `digits` would choose: all kinds of sums occur."""
VOTES = {"n_teachers": 20, "steps": 15, "batch_size": 5, "label_steps": 2, "teacher_warm_up": 2}
KINDS: dict[str, tuple[str, dict[str, Any]]] = {
    "mixture": ("datalens", MIXTURE),
    "votes": ("datalens", VOTES),
    "dp-sgd": ("dpgan", {"steps": 300, "batch_size": 32}),
}
ENDED = "ended"
"""Names the runs that could not go on."""


def train(folder: Path, out: Path, kind: str) -> None:
    """A real run, begun or gone on with; one that cannot is ended, as its error says."""
    import torch

    from datalens.synthesizers import METHODS
    from datalens.workflows.fitting import Source, fit_run, resume_run

    torch.set_num_threads(1)
    os.environ["DATALENS_HOME"] = str(folder / "home")
    sums, add = folder / f"sums-{out.name}", FloatSecureNoise.add

    def noting(self: FloatSecureNoise, values: Floats, *, sigma: float, key: str) -> Floats:
        note(sums, key)
        return add(self, values, sigma=sigma, key=key)

    FloatSecureNoise.add = noting  # type: ignore[method-assign]
    ExactNoise.draw = noted(ExactNoise.draw, sums)  # type: ignore[method-assign]
    source, (method, settings) = Source(name="digits"), KINDS[kind]
    if not (out / "config.toml").exists():
        learner = METHODS[method](epsilon=8.0, **settings)
        fit_run(learner, source, out, ledger=kind, seed=None, quiet=True)
        return
    try:
        resume_run(source, out, quiet=True)
    except DataLensError as error:
        name, run = str(error).split("datalens ledger ")[1].split(" --end ")
        Ledger(ledger_path(name)).settle(run.split(",")[0])
        note(folder / ENDED, out.name)
