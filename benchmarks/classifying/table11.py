"""The paper's Table 11: clip, noise, batch and learning rate, for three epsilons of each data set.

It does not print steps, which are then all that epsilon affords, nor whether the learning rate
falls, so that it stays, as in the Opacus example.
"""

from dataclasses import dataclass
from typing import Literal

DELTA = 1e-5

RecipeName = Literal["printed", "searched", "default", "dpdl"]
"""Table 11's; `searched` on other data; what `datalens classify` does when nothing is said; and the
searched one with the noise that the moments accountant of Abadi et al. asks for (DPDL)."""


@dataclass(frozen=True, kw_only=True)
class Recipe:
    """Everything about a training but its noise source and its compression."""

    clip: float
    batch_size: int
    learning_rate: float
    falling: bool
    """To 0, in a straight line."""
    noise_multiplier: float | None = None
    steps: int | None = None


KEEPS = (0.6, 0.7, 0.8, 1.0)
"""The columns of Table 11; the last is GM-DP."""
Columns = tuple[float, float, float, float]


def _columns(
    clips: Columns, noises: Columns, batches: Columns, rates: Columns
) -> dict[float, Recipe]:
    return {
        keep: Recipe(
            clip=clips[i],
            noise_multiplier=noises[i],
            batch_size=int(batches[i]),
            learning_rate=rates[i],
            falling=False,
        )
        for i, keep in enumerate(KEEPS)
    }


_CAREFUL = (0.0008, 0.001, 0.001, 0.002)
TABLE_11: dict[str, dict[float, dict[float, Recipe]]] = {
    "mnist": {
        0.05: _columns((10, 5, 5, 3), (5.8, 6.6, 7.4, 8.2), (128,) * 4, (0.01,) * 4),
        0.2: _columns((12, 10, 10, 10), (3.6, 3.6, 3.6, 3.4), (512,) * 4, (0.1, 0.1, 0.1, 0.08)),
        1.0: _columns((16, 12, 10, 14), (1.6, 1.6, 1.6, 1.8), (512,) * 4, (0.08, 0.1, 0.1, 0.04)),
    },
    "cifar10": {
        0.025: _columns((1, 1.5, 0.8, 0.3), (6, 7, 6, 7), (24, 32, 24, 32), _CAREFUL),
        0.4: _columns((1, 1, 1, 1.5), (2.5, 2.5, 2.5, 3), (96,) * 4, (0.005,) * 4),
        8.0: _columns((0.5, 0.5, 0.5, 2.5), (2.5, 2.5, 3, 2.5), (2048,) * 4, (0.2, 0.2, 0.2, 0.04)),
    },
}
"""By data set, epsilon and keep."""
