"""A cell's file: its recipe and plan, and every repetition so far."""

import json
from collections.abc import Sequence
from pathlib import Path
from statistics import fmean, stdev
from typing import Any

from pydantic import BaseModel, ConfigDict, ValidationError

from classifying.cells import Cell
from datalens.data.documents import read_json
from datalens.errors import DataLensError
from datalens.workflows.writing import replace_file


class Repetition(BaseModel):
    """One training with fresh noise."""

    model_config = ConfigDict(frozen=True, allow_inf_nan=False)

    seed: int
    """Its number, and that of the network's first weights. The noise has none."""
    accuracy: float
    """Share of test images, after the last step."""
    seconds: float
    cpu_seconds: float
    threads: int
    machine: dict[str, Any]
    source: str
    """Digest of the package's code."""


class Result(BaseModel):
    """A cell with its repetitions, in the order of their seeds."""

    model_config = ConfigDict(frozen=True, allow_inf_nan=False)

    cell: dict[str, Any]
    training: dict[str, Any]
    """Everything about the steps: the same for all repetitions."""
    epsilon: dict[str, float] | None
    """By each accountant; None is NOT PRIVATE."""
    command: str
    repetitions: tuple[Repetition, ...] = ()

    @property
    def key(self) -> Cell:
        return Cell(**self.cell)

    @property
    def seeds(self) -> set[int]:
        return {each.seed for each in self.repetitions}

    @property
    def accuracy(self) -> float:
        return fmean(each.accuracy for each in self.repetitions)

    @property
    def spread(self) -> float | None:
        """Sample standard deviation; None for one repetition."""
        each = [repetition.accuracy for repetition in self.repetitions]
        return stdev(each) if len(each) > 1 else None

    @property
    def minutes(self) -> float:
        """Of processor time, on average."""
        return fmean(each.cpu_seconds for each in self.repetitions) / 60

    def with_(self, repetition: Repetition) -> "Result":
        every = sorted((*self.repetitions, repetition), key=lambda each: each.seed)
        return self.model_copy(update={"repetitions": tuple(every)})


def path_of(out: Path, cell: Cell) -> Path:
    return out / "cells" / f"{cell.stem}.json"


def read_results(out: Path) -> dict[Cell, Result]:
    """Every cell in the folder."""
    found = (_read(path) for path in sorted((out / "cells").glob("*.json")))
    return {result.key: result for result in found}


def _read(path: Path) -> Result:
    try:
        result = Result(**read_json(path))
        same = bool(result.repetitions) and result.key.stem == path.stem
    except (ValidationError, TypeError):
        same = False
    if not same:
        raise DataLensError(f"{path} is no cell of this benchmark; move it away.")
    return result


def add(out: Path, fresh: Result) -> None:
    """Put a repetition beside those that the cell's file holds already."""
    path = path_of(out, fresh.key)
    kept = _read(path) if path.exists() else fresh.model_copy(update={"repetitions": ()})
    if (kept.training, kept.epsilon) != (fresh.training, fresh.epsilon):
        raise DataLensError(f"{path} was made by another recipe; move it away.")
    for repetition in fresh.repetitions:
        kept = kept.with_(repetition)
    path.parent.mkdir(parents=True, exist_ok=True)
    replace_file(path, (json.dumps(kept.model_dump(), indent=1) + "\n").encode())


def missing(out: Path, cells: Sequence[Cell], seeds: int) -> list[tuple[Cell, int]]:
    """Repetitions that are not there yet: the first of each cell, then the second of each."""
    found = read_results(out)
    return [
        (cell, seed)
        for seed in range(seeds)
        for cell in cells
        if cell not in found or seed not in found[cell].seeds
    ]
