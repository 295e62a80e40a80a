"""How long and how boldly to train under noise: from the number of records and epsilon alone.

Where noise is large, what all steps together add of it depends on how far they go, and neither on
how many they are nor on how many records each sees. So the rule is about the way, which is as long
as the noise on it bears: a power of n * epsilon, until more would not help. It was found on
Fashion-MNIST (docs/classify.md); batch and steps are near the paper's for MNIST (Table 11).
"""

from dataclasses import dataclass

from datalens.classifiers.networks import NetworkName
from datalens.errors import DataLensError

LARGEST_BATCH = 512
"""The paper's, at epsilon 0.2 and 1."""
SMALLEST_BATCH, SHARE = 32, 40
"""A batch has at most one record in so many, unless that were too few."""
STEPS_AT_ONE = 1000
"""At epsilon 1, and with its root. Table 11's noise affords 270 steps at 0.2 and 1,063 at 1 by the
accountant paper, and 620 and 1,944 by pld."""
FEWEST_STEPS = 100
MOST_STEPS: dict[NetworkName, int] = {"cnn": 1500, "fixed-features": 4000}
LARGEST_CLIP: dict[NetworkName, float] = {"cnn": 4.0, "fixed-features": 1.0}
"""Where noise is small: a CNN that is clipped to 1 then learns from easy examples only."""
WAY: dict[NetworkName, tuple[float, float]] = {"cnn": (1.67, 0.6), "fixed-features": (0.2, 1.0)}
"""Sum of all learning rates, in clipped gradients: this times that power of n * epsilon."""
LONGEST_WAY: dict[NetworkName, float] = {"cnn": 3000.0, "fixed-features": 20_000.0}
CLIP_AT, CLIP_POWER = 60_000, 0.6
"""The clip is 1 up to this n * epsilon, and grows with that power of it."""


@dataclass(frozen=True, kw_only=True)
class Effort:
    """What a training is made of, beside its noise."""

    batch_size: int
    steps: int
    max_grad_norm: float
    learning_rate: float
    """Of the first step; it falls to 0 in a straight line."""


def effort_for(
    network: NetworkName,
    *,
    epsilon: float,
    n_records: int,
    batch_size: int | None = None,
    steps: int | None = None,
    epochs: float | None = None,
    max_grad_norm: float | None = None,
    learning_rate: float | None = None,
) -> Effort:
    """What was asked for, and the rule for the rest."""
    if steps is not None and epochs is not None:
        raise DataLensError("Give steps or epochs, not both: one follows from the other.")
    batch = batch_size or min(LARGEST_BATCH, max(SMALLEST_BATCH, n_records // SHARE), n_records)
    if epochs is not None:
        steps = max(1, round(epochs * n_records / batch))
    elif steps is None:
        steps = round(min(max(STEPS_AT_ONE * epsilon**0.5, FEWEST_STEPS), MOST_STEPS[network]))
    grown = min((n_records * epsilon / CLIP_AT) ** CLIP_POWER, LARGEST_CLIP[network])
    clip = max_grad_norm or float(f"{max(1.0, grown):.3g}")
    factor, power = WAY[network]
    way = min(factor * (n_records * epsilon) ** power, LONGEST_WAY[network])
    return Effort(
        batch_size=batch,
        steps=steps,
        max_grad_norm=clip,
        learning_rate=learning_rate or float(f"{2 * way / (steps * clip):.3g}"),
    )
