"""How long a cell will take: a few of its steps on random inputs, times how many it has."""

from functools import lru_cache
from itertools import pairwise
from time import process_time

import torch

from classifying.cells import Cell
from classifying.recipes import recipe_for
from classifying.running import SHAPES, new_network
from classifying.table11 import Recipe
from classifying.training import Examples, Plan, plan, train
from datalens.classifiers.networks import OnFixedFeatures
from datalens.classifiers.topagg import Variant
from datalens.synthesizers.training_rule import effort_for

RECORDS = {"mnist": 60_000, "fashion-mnist": 60_000, "cifar10": 50_000}
WIDTHS = {"efficientnet-lite0": 1280, "resnet18": 512}
TRIED = 3
"""Steps that are measured."""


def seconds(cell: Cell) -> float:
    """Of processor time, without features, which are made once."""
    batch_size, steps = _size(cell)
    return steps * _a_step(cell.dataset, cell.network, cell.variant, cell.keep, batch_size)


def _size(cell: Cell) -> tuple[int, int]:
    """Batch and steps; noise is not asked for, since that takes a while itself."""
    n_records = RECORDS[cell.dataset]
    if cell.recipe == "default":
        name = "cnn" if cell.network == "cnn" else "fixed-features"
        effort = effort_for(name, epsilon=cell.epsilon or 1.0, n_records=n_records)  # type: ignore[arg-type]
        return effort.batch_size, effort.steps
    recipe = recipe_for(cell, n_records)
    return recipe.batch_size, recipe.steps or plan(recipe, n_records, cell.epsilon).steps


@lru_cache
def _a_step(dataset: str, network: str, variant: Variant, keep: float, batch_size: int) -> float:
    """In the middle of a few, after one that is not counted."""
    cell = Cell(dataset=dataset, network=network, keep=keep, epsilon=1.0)  # type: ignore[arg-type]
    recipe = Recipe(
        clip=1.0, batch_size=batch_size, learning_rate=0.1, falling=True, steps=TRIED + 1
    )
    made = Plan(recipe=recipe, n_records=RECORDS[dataset], steps=TRIED + 1, noise_multiplier=1.0)
    examples, times = _anything(dataset, network), [process_time()]
    train(
        new_network(cell, examples.inputs, 0),
        examples,
        made,
        variant=variant,
        keep=keep,
        at_step=lambda number: times.append(process_time()),
    )
    each = sorted(after - before for before, after in pairwise(times[1:]))
    return each[len(each) // 2]


@lru_cache(maxsize=1)
def _anything(dataset: str, network: str) -> Examples:
    count, chance = RECORDS[dataset], torch.Generator().manual_seed(0)
    labels = torch.arange(count) % 10
    if network == "wavelets":
        width = OnFixedFeatures(SHAPES[dataset], 10).weigh.in_features
        inputs = torch.randint(-99, 99, (count, width), generator=chance, dtype=torch.int16)
    elif network == "cnn":
        inputs = torch.randint(0, 255, (count, 1, 28, 28), generator=chance, dtype=torch.uint8)
    else:
        inputs = torch.randn(count, WIDTHS[network], generator=chance)
    return Examples(inputs, labels)
