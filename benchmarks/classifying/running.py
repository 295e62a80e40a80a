"""One repetition of one cell: its data, its training with real noise, and how right it is."""

import os
import tempfile
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor, as_completed
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from functools import lru_cache
from multiprocessing import get_context
from pathlib import Path
from time import perf_counter, process_time
from typing import Any

import torch
from torch import Tensor, nn

from classifying.cells import Cell
from classifying.features import backbone, cached_features, in_proportion
from classifying.recipes import recipe_for
from classifying.results import Repetition, Result
from classifying.training import Examples, Plan, accuracy, plan, spent, train
from datalens.classifiers.networks import OnFixedFeatures, SmallCnn
from datalens.data import Records
from datalens.ensemble.streams import stream
from datalens.synthesizers.private_classifier import CLASSIFIERS, PrivateClassifier
from datalens.workflows.bench.machine import description, source_digest
from datalens.workflows.bench.utility.cells import split

SHAPES = {"mnist": (1, 28, 28), "fashion-mnist": (1, 28, 28), "cifar10": (3, 32, 32)}
PRODUCT = {"cnn": "topagg", "wavelets": "scatter"}
"""The method of `datalens classify` that trains such a network."""


@dataclass(frozen=True, kw_only=True)
class Order:
    """What a worker is told."""

    cell: Cell
    seed: int
    command: str
    data_dir: Path | None = None
    weights: Path | None = None
    """Of a ResNet-18."""
    cache: Path | None = None


def run(orders: list[Order], jobs: int) -> Iterator[Result]:
    """Each with one repetition, as they come to an end; every worker has one thread."""
    if jobs == 1:
        yield from map(repeat, orders)
        return
    with ProcessPoolExecutor(jobs, get_context("spawn"), initializer=_one_thread) as pool:
        for done in as_completed([pool.submit(repeat, order) for order in orders]):
            yield done.result()


def repeat(order: Order) -> Result:
    """A cell's result with this repetition alone."""
    work = _by_the_product if order.cell.recipe == "default" else _by_recipe
    clocks = perf_counter(), process_time()
    training, epsilon, right = work(order)
    repetition = Repetition(
        seed=order.seed,
        accuracy=right,
        seconds=round(perf_counter() - clocks[0], 2),
        cpu_seconds=round(process_time() - clocks[1], 2),
        threads=torch.get_num_threads(),
        machine=description(),
        source=source_digest(),
    )
    return Result(
        cell=order.cell.to_json(),
        training=training,
        epsilon=epsilon,
        command=order.command,
        repetitions=(repetition,),
    )


def planned(cell: Cell, n_records: int) -> Plan:
    """A variant without noise takes as many steps as its epsilon would afford with noise."""
    by_moments = "moments" if cell.recipe == "dpdl" else None
    return plan(recipe_for(cell, n_records), n_records, cell.epsilon, by_moments)


def _by_recipe(order: Order) -> tuple[dict[str, Any], dict[str, float] | None, float]:
    cell = order.cell
    learned, tested = _examples(order, "train"), _examples(order, "test")
    network = new_network(cell, learned.inputs, order.seed)
    steps = planned(cell, len(learned.labels))
    train(network, learned, steps, variant=cell.variant, keep=cell.keep)
    return asdict(steps), spent(steps, cell.variant), accuracy(network, tested)


def _by_the_product(order: Order) -> tuple[dict[str, Any], dict[str, float] | None, float]:
    """As a user gets it: planned, charged to a ledger (that is thrown away), and certified."""
    train_records, test = _records(order.cell.dataset, order.data_dir)
    classifier: PrivateClassifier = CLASSIFIERS[PRODUCT[order.cell.network]](
        epsilon=order.cell.epsilon
    )
    with _own_home():
        classifier.fit(train_records, ledger="benchmark")
    found = float((classifier.predict(test.images).labels == test.labels).mean())
    certificate = classifier.certificate
    settings = classifier.resolve(train_records.public).settings.model_dump(exclude_none=True)
    return settings, certificate["epsilon"], found


def new_network(cell: Cell, inputs: Tensor, seed: int) -> nn.Module:
    """Untrained: the CNN with random weights, linear models with zeros."""
    if cell.network == "cnn":
        return SmallCnn(tuple(inputs.shape[1:]), 10, stream=stream(b"classifiers", seed))  # type: ignore[arg-type]
    if cell.network == "wavelets":
        return OnFixedFeatures(SHAPES[cell.dataset], 10)
    linear = nn.Linear(inputs.shape[1], 10)
    for weight in linear.parameters():
        nn.init.zeros_(weight)
    return linear


def _examples(order: Order, part: str) -> Examples:
    cell = order.cell
    raw = cell.recipe == "printed"
    return _inputs(
        cell.dataset, cell.network, part, raw, order.data_dir, order.weights, order.cache
    )


@lru_cache(maxsize=2)
def _inputs(
    dataset: str,
    network: str,
    part: str,
    raw: bool,
    data_dir: Path | None,
    weights: Path | None,
    cache: Path | None,
) -> Examples:
    """What a network takes; features as they are only for Table 11's own recipes."""
    records = _records(dataset, data_dir)[part == "test"]
    labels = torch.from_numpy(records.labels)
    if network == "cnn":
        return Examples(torch.from_numpy(records.images), labels)
    if network == "wavelets":
        return Examples(OnFixedFeatures(SHAPES[dataset], 10).inputs(records.images), labels)
    found = cached_features(records, backbone(network, weights), cache=cache)
    return Examples(found if raw else in_proportion(found), labels)


@lru_cache(maxsize=2)
def _records(dataset: str, data_dir: Path | None) -> tuple[Records, Records]:
    return split(dataset, data_dir, False)


@contextmanager
def _own_home() -> Iterator[None]:
    """Ledgers that are nobody's, for as long as it takes."""
    before = os.environ.get("DATALENS_HOME")
    with tempfile.TemporaryDirectory() as home:
        os.environ["DATALENS_HOME"] = home
        try:
            yield
        finally:
            if before is None:
                del os.environ["DATALENS_HOME"]
            else:
                os.environ["DATALENS_HOME"] = before


def _one_thread() -> None:
    torch.set_num_threads(1)
