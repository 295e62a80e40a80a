"""How long and how boldly a cell is trained: as Table 11 prints it, or as found on other data."""

from classifying.cells import Cell
from classifying.table11 import TABLE_11, Recipe
from datalens.synthesizers.training_rule import LONGEST_WAY, effort_for

BATCH, CLIP = 512, 1.0
STEPS_AT_ONE = 1000
"""At epsilon 1, and with its root."""
WAY, RECORDS, POWER = 960.0, 50_000, 0.6
"""The sum of all learning rates, in clipped gradients, at epsilon 1 with so many records, and the
power of n * epsilon that it grows with. Of what is kept of a gradient only the share `keep` points
along it, so that the way is longer by as much. The search (docs/results/dpsgd/search.json) found
keep 0.8 best between 320 and 640 at epsilon 0.2 and between 800 and 1,600 at 1, and keep 1 below
those: here they are 457 and 1,200, and 365 and 960."""
UNPAID_STEPS, UNPAID_CLIP, UNPAID_WAY = 1500, 10.0, 3750.0
"""Without noise: 13 times through MNIST. Of seven recipes the search found a clip of 10 and a first
rate of 0.5 the best."""


def recipe_for(cell: Cell, n_records: int) -> Recipe:
    """Table 11's; else what `search` found for the CNN, and the product's rule for the rest."""
    epsilon = cell.epsilon
    if cell.recipe == "printed":
        if epsilon is None:
            raise ValueError("Table 11 has no recipe without noise")
        return TABLE_11[cell.dataset][epsilon][cell.keep]
    if cell.network != "cnn":
        return _linear(n_records, epsilon)
    if epsilon is None:
        return _falling(UNPAID_STEPS, UNPAID_WAY, UNPAID_CLIP)
    along = 1.0 if cell.variant == "dimensions" else cell.keep
    way = WAY * (n_records * epsilon / RECORDS) ** POWER / along
    return _falling(round(STEPS_AT_ONE * epsilon**0.5), way)


def _linear(n_records: int, epsilon: float | None) -> Recipe:
    """That of `datalens classify --method scatter`, found on fashion-mini."""
    if epsilon is None:
        return _falling(UNPAID_STEPS, LONGEST_WAY["fixed-features"])
    effort = effort_for("fixed-features", epsilon=epsilon, n_records=n_records)
    return Recipe(
        clip=effort.max_grad_norm,
        batch_size=effort.batch_size,
        learning_rate=effort.learning_rate,
        falling=True,
        steps=effort.steps,
    )


def _falling(steps: int, way: float, clip: float = CLIP) -> Recipe:
    rate = float(f"{2 * way / (steps * clip):.3g}")
    return Recipe(clip=clip, batch_size=BATCH, learning_rate=rate, falling=True, steps=steps)
