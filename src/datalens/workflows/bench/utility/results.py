"""A cell's file: its configuration, every repetition so far, and what they come to."""

import json
from collections.abc import Iterable
from pathlib import Path
from statistics import fmean, stdev
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from datalens.data.documents import read_json
from datalens.errors import DataLensError
from datalens.files import replace_file
from datalens.mechanism.noise import NoiseKind
from datalens.workflows.bench.utility.cells import Cell, stem

SEEDED: NoiseKind = "seeded"
Share = float
"""Between 0 and 1."""


class _Read(BaseModel):
    model_config = ConfigDict(frozen=True, allow_inf_nan=False)


class Seconds(_Read):
    """What a repetition took."""

    fit: float
    sample: float
    judge: float
    measure: float = 0.0
    """Not counted in `all`, so that old repetitions and new ones compare."""

    @property
    def all(self) -> float:
        return self.fit + self.sample + self.judge


class Measured(_Read):
    """How images look beside the test images, in the features of the domain classifier."""

    inception_score: float
    fid: float
    fid_infinite: float | None
    """Followed to ever more images."""
    fid_images: int
    """Of each kind."""
    prdc: dict[str, float]
    domain_accuracy: Share
    """Of the domain classifier, on the test images."""
    dimensions: int
    synthetic_images: int
    real_images: int


class Repetition(_Read):
    """One fit with fresh noise, and what the judge said of it."""

    seed: int = Field(ge=0)
    """The judge's, and the repetition's number. The fit has none, unless its noise is seeded."""
    accuracy: Share
    """Last epoch."""
    best_on_test: Share
    """Chosen on the test set, hence optimistic: only for comparison with papers that do so."""
    per_class: dict[str, Share | None]
    """Last epoch; None for a class without test images."""
    epsilon: dict[str, float]
    """By each accountant, from the certificate, as is what follows up to the noise."""
    epsilon_replace: float | None
    delta: float | None
    releases: int
    noise: str
    synthetic_images: int
    test_images: int
    measures: Measured | None = None
    """None in files from before there were any."""
    seconds: Seconds
    threads: int
    versions: dict[str, str]
    machine: dict[str, Any]
    command: str


class Result(_Read):
    """A cell and its repetitions, in the order of their seeds."""

    dataset: str
    method: str
    epsilon_asked: float | None
    """None where nobody is protected."""
    held_out: bool = False
    overrides: dict[str, Any]
    configuration: dict[str, Any]
    repetitions: tuple[Repetition, ...]

    @classmethod
    def of(cls, cell: Cell) -> "Result":
        return cls(
            dataset=cell.dataset,
            method=cell.method,
            epsilon_asked=cell.epsilon,
            held_out=cell.held_out,
            overrides=cell.overrides,
            configuration=cell.configuration,
            repetitions=(),
        )

    @property
    def stem(self) -> str:
        return stem(self.dataset, self.method, self.epsilon_asked, self.held_out, self.overrides)

    @property
    def seeds(self) -> list[int]:
        return [each.seed for each in self.repetitions]

    @property
    def seeded(self) -> bool:
        """Whether all that is chance comes from the seeds."""
        return any(each.noise == SEEDED for each in self.repetitions)

    @property
    def accuracy(self) -> Share:
        return fmean(each.accuracy for each in self.repetitions)

    @property
    def spread(self) -> Share | None:
        """Sample standard deviation; None for one repetition."""
        return spread([repetition.accuracy for repetition in self.repetitions])

    @property
    def best_on_test(self) -> Share:
        return fmean(each.best_on_test for each in self.repetitions)

    @property
    def measures(self) -> list[Measured]:
        """Of the repetitions that have them."""
        return [each.measures for each in self.repetitions if each.measures is not None]

    def with_(self, repetition: Repetition) -> "Result":
        every = sorted((*self.repetitions, repetition), key=lambda each: each.seed)
        return self.model_copy(update={"repetitions": tuple(every)})

    def to_json(self) -> dict[str, Any]:
        """The file's content: the cell, what its repetitions come to, and the repetitions."""
        facts = self.model_dump()
        repetitions = facts.pop("repetitions")
        first = self.repetitions[0]  # the plan is the same for all, so the cost is too
        return {
            **facts,
            "seeds": self.seeds,
            "epsilon": first.epsilon,
            "epsilon_replace": first.epsilon_replace,
            "delta": first.delta,
            "releases": first.releases,
            "accuracy": _summary([each.accuracy for each in self.repetitions]),
            "best_on_test": self.best_on_test,
            "per_class": {
                name: _mean(each.per_class[name] for each in self.repetitions)
                for name in first.per_class
            },
            "measures": {
                name: _summary([getattr(each, name) for each in self.measures])
                for name in ("inception_score", "fid")
                if self.measures
            },
            "repetitions": repetitions,
        }


def spread(each: list[float]) -> float | None:
    """Sample standard deviation; None for one."""
    return stdev(each) if len(each) > 1 else None


def _summary(each: list[float]) -> dict[str, Any]:
    return {"mean": fmean(each), "spread": spread(each), "each": each}


def _mean(shares: Iterable[Share | None]) -> Share | None:
    known = [share for share in shares if share is not None]
    return fmean(known) if known else None


def read_results(out: Path) -> dict[str, Result]:
    """Every cell in the folder, by stem. A file that is none is refused: tables show all."""
    return {path.stem: _read(path) for path in sorted(out.glob("*.json"))}


def _read(path: Path) -> Result:
    try:
        result = Result(**read_json(path))
    except (ValidationError, TypeError):
        result = None
    whole = result is not None and result.repetitions and result.stem == path.stem
    if result is None or not whole or len(set(result.seeds)) < len(result.seeds):
        raise DataLensError(
            f"{path} is no cell of bench utility; move it away, or name another --out."
        )
    return result


def check_same(cell: Cell, found: Result, path: Path, *, images: int, seeded: bool) -> None:
    """Repetitions of two configurations, numbers of images or kinds of chance are not averaged."""
    if found.seeded != seeded and cell.epsilon is not None:
        raise DataLensError(
            f"{path} was made with{'' if found.seeded else 'out'} --seeded; do the same, or name"
            " another --out."
        )
    if others := {each.synthetic_images for each in found.repetitions} - {images}:
        raise DataLensError(
            f"{path} was made with --images {others.pop()}; say the same, or name another --out."
        )
    if found.configuration != cell.configuration:
        kept, now = _flat(found.configuration), _flat(cell.configuration)
        names = sorted(name for name in kept.keys() | now.keys() if kept.get(name) != now.get(name))
        raise DataLensError(
            f"{path} was made with another configuration ({', '.join(names)});"
            " move it away, or name another --out."
        )


def _flat(configuration: dict[str, Any]) -> dict[str, Any]:
    tables = {name: part for name, part in configuration.items() if isinstance(part, dict)}
    return configuration | {f"{t}.{n}": v for t, part in tables.items() for n, v in part.items()}


def write_result(out: Path, result: Result) -> None:
    text = json.dumps(result.to_json(), indent=1) + "\n"
    replace_file(out / f"{result.stem}.json", text.encode())
