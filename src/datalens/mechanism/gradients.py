"""Sums of bounded gradients of a linear classifier: what a private labeller is bought with."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from datalens.errors import DataLensError
from datalens.mechanism.events import GaussianRelease, positive
from datalens.mechanism.noise import LARGEST, Integers
from datalens.mechanism.sums import NoisySum

CHUNK = 4096


@dataclass(frozen=True, kw_only=True)
class GradientSums(NoisySum):
    """The sum over all records of x r^T: x a record's features, r how wrong its label is.

    Both are integer vectors, so a record's gradient is an integer matrix, and the sum is exact.

    Guarantee: x has norm at most `features` and r at most `residuals`, which is checked, so the
    matrix x r^T has Frobenius norm at most their product. Blanked, a record takes at most that
    away; replaced, it moves the sum by at most twice that.
    """

    features: int
    residuals: int
    sigma: float

    def __post_init__(self) -> None:
        positive(features=self.features, residuals=self.residuals)

    @property
    def event(self) -> GaussianRelease:
        squared = (self.features * self.residuals) ** 2
        return GaussianRelease(
            what="gradient-sums",
            squared_sensitivity=squared,
            squared_sensitivity_replace=4 * squared,
            sigma=self.sigma,
        )

    @property
    def parameters(self) -> dict[str, int]:
        """What the sensitivity follows from."""
        return {"features": self.features, "residuals": self.residuals}

    def query(self, features: NDArray[np.int16], residuals: NDArray[np.int16]) -> Integers:
        """From features (n, d) and residuals (n, classes), a row for each record: (d, classes)."""
        if len(features) * self.features * self.residuals >= LARGEST:
            raise DataLensError(f"{len(features)} records are too many for exact gradients.")
        total = np.zeros((features.shape[1], residuals.shape[1]))
        for start in range(0, len(features), CHUNK):  # exact: all sums are integers below 2^52
            part = slice(start, start + CHUNK)
            x, r = features[part].astype(np.float64), residuals[part].astype(np.float64)
            for rows, bound in ((x, self.features), (r, self.residuals)):
                if rows.size and (rows**2).sum(axis=1).max() > bound**2:
                    raise ArithmeticError("a record is longer than its bound")
            total += x.T @ r
        return total.astype(np.int64)
