"""What sums over records have in common: one release, noise on every entry, a price."""

from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from datalens.mechanism.events import GaussianRelease
from datalens.mechanism.noise import Integers, Noise, Shape

DIAGONAL, BESIDE = 29, 41
"""Grid steps of an entry on the diagonal of a symmetric matrix, and of one beside it, which stands
for two: 41 / 29 is the square root of 2, rounded down."""


class NoisySum:
    """A sum over all records that is released whole, with noise of `sigma` on every entry."""

    sigma: float

    def releases_in(self, total: Integers) -> int:
        return 1

    def draw(self, shape: Shape, *, noise: Noise, key: str) -> Integers:
        return noise.draw(shape, sigma=self.sigma, key=key)


class OuterProducts(NoisySum):
    """The sum of q q^T over all records, q an integer vector of norm at most `bound`.

    Released is the upper triangle with its diagonal, in units of DIAGONAL grid steps on the
    diagonal and of BESIDE beside it. All entries get the same noise, so that those beside the
    diagonal have half the variance in their own units, and the noise of `matrix` looks the same
    in every basis.

    Guarantee: BESIDE^2 < 2 DIAGONAL^2, so the squared norm of what a record adds is at most
    DIAGONAL^2 (sum q_i^4 + 2 sum_{i<j} q_i^2 q_j^2) = DIAGONAL^2 |q|^4. That of a blanked record
    is taken away. What two records q and p add has the inner product BESIDE^2 / 2 (q.p)^2 +
    (DIAGONAL^2 - BESIDE^2 / 2) sum q_i^2 p_i^2, which is not negative. So one that is replaced by
    the other moves the sum by a squared distance of at most twice that.
    """

    what: ClassVar[str]
    bound: int

    @staticmethod
    def squared_sensitivity(bound: int) -> int:
        """With a record blanked."""
        return (DIAGONAL * bound**2) ** 2

    @property
    def event(self) -> GaussianRelease:
        squared = self.squared_sensitivity(self.bound)
        return GaussianRelease(
            what=self.what,
            squared_sensitivity=squared,
            squared_sensitivity_replace=2 * squared,
            sigma=self.sigma,
        )

    @property
    def parameters(self) -> dict[str, int]:
        """What the sensitivity follows from."""
        return {"bound": self.bound}

    @property
    def deviation(self) -> float:
        """Of the noise on the entries of `matrix` beside its diagonal."""
        return self.sigma / BESIDE

    def matrix(self, release: Integers) -> NDArray[np.float64]:
        """The symmetric matrix of a release, in units of q."""
        d = int((2 * len(release)) ** 0.5)  # of d (d + 1) / 2 entries
        upper = np.zeros((d, d))
        upper[np.triu_indices(d)] = release
        upper /= _steps(d)
        return upper + np.triu(upper, 1).T

    @staticmethod
    def _triangle(total: NDArray[np.float64]) -> Integers:
        """A symmetric matrix of integers on the grid."""
        upper = np.triu_indices(len(total))
        return total[upper].astype(np.int64) * _steps(len(total))[upper]


def _steps(d: int) -> Integers:
    steps = np.full((d, d), BESIDE)
    np.fill_diagonal(steps, DIAGONAL)
    return steps
