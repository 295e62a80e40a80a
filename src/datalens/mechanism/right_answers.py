"""How often a public classifier is right on private records: one noisy count."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from datalens.mechanism.events import LaplaceRelease, noise_scale
from datalens.mechanism.noise import Integers, Noise, Shape


@dataclass(frozen=True, kw_only=True)
class RightAnswers:
    """Count the records whose label a classifier names, under Laplace noise.

    Guarantee: the classifier is public, so whether it is right on a record depends on that record
    alone: 0 or 1. So a record, blanked or replaced, moves the count by at most 1, and one release
    is (1 / scale)-differentially private. The number of records is public.
    """

    scale: float
    """Of the noise, in records: it deviates by sqrt(2) times as much."""

    def __post_init__(self) -> None:
        noise_scale(scale=self.scale)

    @property
    def event(self) -> LaplaceRelease:
        return LaplaceRelease(
            what="right-answers", sensitivity=1, sensitivity_replace=1, scale=self.scale
        )

    def count(self, predicted: NDArray[np.int64], labels: NDArray[np.int64]) -> Integers:
        """Right answers, an array of one: the last private thing."""
        return np.array([np.count_nonzero(predicted == labels)], dtype=np.int64)

    def releases_in(self, count: Integers) -> int:
        return 1

    def draw(self, shape: Shape, *, noise: Noise, key: str) -> Integers:
        """The noise of a count. Their sum is the only thing that crosses to the public side."""
        return noise.draw_laplace(shape, scale=self.scale, key=key)
