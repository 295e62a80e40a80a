"""Which recipe is best on other data, judged on training records that are held out.

Where noise is large it depends on the way alone, which is the sum of all learning rates times the
clip (see synthesizers/training_rule.py). So ways are tried, each with a rate that falls to 0.
"""

import math
from collections.abc import Iterator
from itertools import product
from pathlib import Path
from time import process_time
from typing import Any

import torch

from classifying.table11 import Recipe
from classifying.training import Examples, accuracy, plan, train
from datalens.classifiers.networks import SmallCnn
from datalens.classifiers.topagg import Variant
from datalens.ensemble.streams import stream
from datalens.workflows.bench.utility.cells import split


def search(
    *,
    dataset: str,
    epsilons: list[float],
    keeps: list[float],
    clips: list[float],
    batches: list[int],
    steps: list[int],
    ways: list[float],
    seed: int,
    data_dir: Path | None,
) -> Iterator[dict[str, Any]]:
    """One result after the other. The way is as if all gradients were clipped, to 1 in all.

    An epsilon of infinity is no noise: NOT PRIVATE.
    """
    examples, held_out = (as_examples(part) for part in split(dataset, data_dir, True))
    every = product(epsilons, keeps, clips, batches, steps, ways)
    for budget, keep, clip, batch_size, count, way in every:
        epsilon = None if math.isinf(budget) else budget
        rate = float(f"{2 * way / (count * clip):.3g}")
        recipe = Recipe(
            clip=clip, batch_size=batch_size, learning_rate=rate, falling=True, steps=count
        )
        planned = plan(recipe, len(examples.labels), epsilon)
        network = SmallCnn((1, 28, 28), 10, stream=stream(b"search", seed))
        started = process_time()
        variant: Variant = "topagg" if epsilon else "no-noise"
        train(network, examples, planned, variant=variant, keep=keep)
        yield {
            "dataset": dataset,
            "epsilon": epsilon,
            "keep": keep,
            "clip": clip,
            "batch_size": batch_size,
            "steps": count,
            "way": way,
            "learning_rate": rate,
            "noise_multiplier": planned.noise_multiplier,
            "seed": seed,
            "accuracy": accuracy(network, held_out),
            "cpu_seconds": round(process_time() - started, 1),
        }


def as_examples(records: Any) -> Examples:
    return Examples(torch.from_numpy(records.images), torch.from_numpy(records.labels))
