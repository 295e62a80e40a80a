"""What is to be measured: data sets x methods x epsilons, every setting fixed in advance."""

import tomllib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from datalens.data import PublicFacts, Records, load
from datalens.errors import DataLensError
from datalens.synthesizers import METHODS
from datalens.synthesizers.plan import Plan
from datalens.synthesizers.protocol import Synthesizer
from datalens.utility.accuracy import JUDGED_IMAGES
from datalens.workflows.bench.utility.sources import Source, sources
from datalens.workflows.fitting import make_synthesizer
from datalens.workflows.presets import load_preset, teachers_within
from datalens.workflows.runs import is_private


@dataclass(frozen=True, kw_only=True)
class Variant:
    """A method as it is benchmarked: its preset, and settings that go over the preset's."""

    method: str
    preset: str = "auto"
    settings: dict[str, Any] = field(default_factory=dict)


ALL = "all"
"""Stands for every method, as it is by default."""
SPECIAL: dict[str, Variant] = {
    "pategan-majority": Variant(method="pategan", settings={"verdict": "majority"}),
    "gpate-confident": Variant(method="gpate", settings={"threshold": 0.5}),
    "datalens-votes": Variant(method="datalens", settings={"vote_share": 0.2}),
    "datalens-paper": Variant(method="datalens", preset="paper"),
    "datalens-paper-compact": Variant(
        method="datalens", preset="paper", settings={"discriminator": "compact"}
    ),
}


def variants() -> dict[str, Variant]:
    """By name: every method as it is by default, and some with other settings."""
    return {name: Variant(method=name) for name in METHODS} | SPECIAL


@dataclass(frozen=True, kw_only=True)
class Cell:
    """One place in the tables."""

    dataset: str
    method: str
    """A name in `variants()`."""
    epsilon: float | None
    """None where nobody is protected."""
    held_out: bool
    """Judged on training records that are held out, so that settings can be chosen by it."""
    overrides: dict[str, Any]
    """Settings given for this cell, over those of the variant; names in order."""
    configuration: dict[str, Any]
    """Complete: method, settings and what is public about the data, as in a run's config.toml."""
    path: Path | None = None
    """Of the data, where they are no data set by name."""

    @property
    def stem(self) -> str:
        """What its files are called."""
        return stem(self.dataset, self.method, self.epsilon, self.held_out, self.overrides)

    def images(self, asked: int | None) -> int:
        """Synthetic ones for the judge: unless told, one for a private record, within reason."""
        n: int = self.configuration["data"]["n_records"]
        return asked or min(n, JUDGED_IMAGES)


def stem(
    dataset: str, method: str, epsilon: float | None, held_out: bool, overrides: dict[str, Any]
) -> str:
    """Different for different cells."""
    tail = "".join(f"-{name}-{value}" for name, value in sorted(overrides.items()))
    part = "-held-out" if held_out else ""
    budget = "" if epsilon is None else f"-epsilon-{plain(epsilon)}"
    return f"{dataset}{part}-{method}{budget}{tail}"


def plain(number: float | None) -> str:
    """All of its digits, and no more."""
    return "none" if number is None else repr(float(number)).removesuffix(".0")


def asked(
    *,
    datasets: Sequence[str],
    methods: Sequence[str],
    epsilons: Sequence[float],
    settings: Mapping[str, Any],
    held_out: bool = False,
    data_dir: Path | None = None,
) -> list[Cell]:
    """The cells, each with its plan resolved: what cannot be run is refused before anything is.

    Data sets are names, or paths of folders and files that are called by their last part.
    """
    for kind, names in {"data set": datasets, "method": methods, "epsilon": epsilons}.items():
        if not names:
            raise DataLensError(f"bench utility needs at least one {kind}.")
    found = sources(datasets, data_dir)
    known = variants()
    methods = [each for name in methods for each in (METHODS if name == ALL else [name])]
    for name in methods:
        if name not in known:
            raise DataLensError(f"Unknown method {name!r}; there are {', '.join(known)}, or all.")
    if "epsilon" in settings:
        raise DataLensError("epsilon: use --epsilons, not --set.")
    every = (
        (source, method, epsilon if is_private(known[method].method) else None)
        for source in found
        for epsilon in epsilons
        for method in methods
    )
    wanted = list(dict.fromkeys(every))
    for each in wanted:
        _synthesizer(*each, settings)
    public = {source: _public(source, data_dir, held_out) for source in found}
    return [_cell(*each, public[each[0]], settings, held_out) for each in wanted]


def configuration_of(plan: Plan) -> dict[str, Any]:
    """What config.toml would say of it."""
    return tomllib.loads(plan.to_toml())


def _synthesizer(
    source: Source, method: str, epsilon: float | None, settings: Mapping[str, Any]
) -> Synthesizer:
    variant = variants()[method]
    budget = {} if epsilon is None else {"epsilon": epsilon}
    with _said_of(source.name, method):
        return make_synthesizer(
            variant.method,
            preset=variant.preset,
            data_name=source.like,
            overrides={**variant.settings, **settings, **budget},
        )


def _cell(
    source: Source,
    method: str,
    epsilon: float | None,
    public: PublicFacts,
    settings: Mapping[str, Any],
    held_out: bool,
) -> Cell:
    settings = {**_fewer_teachers(source, method, epsilon, public), **settings}
    synthesizer = _synthesizer(source, method, epsilon, settings)
    with _said_of(source.name, method):
        return Cell(
            dataset=source.name,
            method=method,
            epsilon=epsilon,
            held_out=held_out,
            # As they were understood: 0.20 and 0.2 are one cell.
            overrides={name: getattr(synthesizer.settings, name) for name in sorted(settings)},
            configuration=configuration_of(synthesizer.resolve(public)),
            path=source.path,
        )


def _fewer_teachers(
    source: Source, method: str, epsilon: float | None, public: PublicFacts
) -> dict[str, Any]:
    """Where there are fewer records than the paper had: as many teachers as have its shards."""
    if variants()[method].preset != "paper" or epsilon is None:
        return {}
    preset = load_preset("paper", data_name=source.like, epsilon=epsilon)
    number = teachers_within(preset, public.n_records)
    return {} if number == preset["n_teachers"] else {"n_teachers": number}


MIXED = ("mnist", "fashion-mnist", "fashion-mini", "cifar10", "celeba-gender", "celeba-hair")
"""Data sets whose records lie in no order. Others may lie class by class."""


@contextmanager
def _said_of(dataset: str, method: str) -> Iterator[None]:
    """What is wrong with one of many cells names it."""
    try:
        yield
    except DataLensError as error:
        raise DataLensError(f"{method} on {dataset}: {error}") from None


def split(dataset: str | Path, data_dir: Path | None, held_out: bool) -> tuple[Records, Records]:
    """What is learned from, and what the judge is tested on.

    Held out: a sixth of the training records is tested on, and the test set not read. It is the
    last sixth where records lie in no order, and every sixth record elsewhere.
    """
    train = load(dataset, data_dir=data_dir)
    if not held_out:
        return train, load(dataset, split="test", data_dir=data_dir)
    n_records = train.public.n_records
    place = np.arange(n_records)
    tested = place >= _kept(n_records) if dataset in MIXED else place % 6 == 0
    first, last = (
        Records(
            images=train.images[part],
            labels=train.labels[part],
            public=replace(train.public, n_records=int(part.sum())),
        )
        for part in (~tested, tested)
    )
    return first, last


def _kept(n_records: int) -> int:
    return max(1, n_records * 5 // 6)


def _public(source: Source, data_dir: Path | None, held_out: bool) -> PublicFacts:
    """Of the data that are here, or are fetched now, once, rather than by every worker."""
    if not held_out:
        source.public(data_dir, "test")
    public = source.public(data_dir)
    return replace(public, n_records=_kept(public.n_records)) if held_out else public
