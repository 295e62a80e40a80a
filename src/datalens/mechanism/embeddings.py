"""Sums of bounded features: the mean embedding of the records of each class, before division."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from datalens.errors import DataLensError
from datalens.mechanism.clusters import on_grid
from datalens.mechanism.events import GaussianRelease, positive
from datalens.mechanism.noise import LARGEST, Integers
from datalens.mechanism.sums import NoisySum

CHUNK = 500

Features = Callable[[NDArray[np.uint8]], NDArray[np.float64]]
"""From images to a row of features each, which depends on its own image alone."""


@dataclass(frozen=True, kw_only=True)
class FeatureSums(NoisySum):
    """For each class the sum of its records' features, on a grid where `bound` is length one.

    Guarantee: a record's features are rounded towards zero to integers, and the norm of these
    integers is at most `bound`, which is checked; they enter the sum of one class. Blanked, a
    record takes at most `bound` away. Replaced, it moves the sums by at most twice that: its
    features may be turned round.
    """

    bound: int
    sigma: float
    n_classes: int

    def __post_init__(self) -> None:
        positive(bound=self.bound, n_classes=self.n_classes)

    @property
    def event(self) -> GaussianRelease:
        squared = self.bound**2
        return GaussianRelease(
            what="feature-sums",
            squared_sensitivity=squared,
            squared_sensitivity_replace=4 * squared,
            sigma=self.sigma,
        )

    @property
    def parameters(self) -> dict[str, int]:
        """What the sensitivity follows from."""
        return {"bound": self.bound}

    def query(self, images: NDArray[np.uint8], labels: Integers, features: Features) -> Integers:
        """(n_classes, features); a record whose features are longer than one is shortened."""
        if len(images) * self.bound >= LARGEST:
            raise DataLensError(f"{len(images)} records are too many for exact feature sums.")
        total: NDArray[np.float64] | float = 0.0
        for start in range(0, max(len(images), 1), CHUNK):  # once at least, for the width
            part = slice(start, start + CHUNK)
            rows = on_grid(features(images[part]), unit=1.0, bound=self.bound)
            if rows.size and int((rows * rows).sum(axis=1).max()) > self.bound**2:
                raise ArithmeticError("a record is longer than its bound")
            of_class = np.equal.outer(np.arange(self.n_classes), labels[part])
            total = total + of_class.astype(np.float64) @ rows  # exact: integers below 2^52
        return np.asarray(total).astype(np.int64)
