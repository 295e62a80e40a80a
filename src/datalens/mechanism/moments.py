"""Sums of bounded integer records: class sums, second moments, class counts.

Queries are integers, computed exactly, and noise is added to integers. Floats only scale a
record that is too long, before it is truncated and checked, and add up integers below 2^53.
"""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from datalens.errors import DataLensError
from datalens.mechanism.events import GaussianRelease, positive
from datalens.mechanism.noise import Integers
from datalens.mechanism.sums import NoisySum, OuterProducts

CHUNK = 4096
BRIGHTEST = 255
"""Pixels, and pixels less the pixels of a centre, are no larger; so no square can overflow."""


def flat(images: NDArray[np.uint8]) -> Integers:
    """One row of integers for each image."""
    return images.reshape(len(images), -1).astype(np.int64)


def bounded(rows: Integers, bound: int) -> Integers:
    """Rows of integers whose Euclidean norm is at most `bound`.

    A longer row is scaled down and truncated towards zero, which can only shorten it; the
    integer norm is then checked, not assumed.
    """
    positive(bound=bound)
    if rows.size and max(int(rows.max()), -int(rows.min())) > BRIGHTEST:
        raise ArithmeticError("records and centres have values between 0 and 255")
    rows = rows.copy()
    squared = (rows * rows).sum(axis=1)
    for index in np.flatnonzero(squared > bound * bound):
        scale = bound / np.sqrt(float(squared[index]))
        rows[index] = np.trunc(rows[index] * scale).astype(np.int64)
    if rows.size and int((rows * rows).sum(axis=1).max()) > bound * bound:
        raise ArithmeticError("a record is longer than its bound after clipping")
    return rows


@dataclass(frozen=True, kw_only=True)
class ClassSums(NoisySum):
    """The sum of the records of each class.

    Guarantee: a record has norm at most `bound` and enters the sum of one class. Blanked, it
    takes at most `bound` away. Replaced, one record is taken away and another added: pixels are not
    negative, so neither is the inner product of the two, and the sums move by a squared distance
    of at most 2 `bound`^2.
    """

    bound: int
    sigma: float
    n_classes: int

    @property
    def event(self) -> GaussianRelease:
        return GaussianRelease(
            what="class-sums",
            squared_sensitivity=self.bound**2,
            squared_sensitivity_replace=2 * self.bound**2,
            sigma=self.sigma,
        )

    def query(self, images: NDArray[np.uint8], labels: Integers) -> Integers:
        rows = bounded(flat(images), self.bound)
        sums = np.zeros((self.n_classes, rows.shape[1]), dtype=np.int64)
        np.add.at(sums, labels, rows)
        return sums


@dataclass(frozen=True, kw_only=True)
class SecondMoments(OuterProducts):
    """The sum of q q^T over all records, q a record less the centre of its class.

    Centres are public: an earlier release gave them. Records that lie near their centres are
    short, so the noise can be small.

    Guarantee: that of sums of outer products; q is cut to norm `bound`, which is checked.
    """

    what: ClassVar[str] = "second-moments"
    bound: int
    sigma: float
    centres: Integers
    """(classes, d) integers between 0 and 255."""

    def query(self, images: NDArray[np.uint8], labels: Integers) -> Integers:
        if len(images) * BRIGHTEST**2 >= 2**53:
            raise DataLensError(
                f"{len(images)} records are too many for exact second moments; use fewer."
            )
        d = int(np.prod(images.shape[1:]))
        total = np.zeros((d, d))
        for start in range(0, len(images), CHUNK):  # exact: all sums are integers below 2^53
            part = slice(start, start + CHUNK)
            apart = flat(images[part]) - self.centres[labels[part]]
            rows = bounded(apart, self.bound).astype(np.float64)
            total += rows.T @ rows
        return self._triangle(total)


@dataclass(frozen=True, kw_only=True)
class ClassCounts(NoisySum):
    """How many records each class has.

    Guarantee: blanked, a record lowers one count by one; replaced, it lowers one and raises
    another, a squared move of two.
    """

    sigma: float
    n_classes: int

    @property
    def event(self) -> GaussianRelease:
        return GaussianRelease(
            what="class-counts",
            squared_sensitivity=1,
            squared_sensitivity_replace=2,
            sigma=self.sigma,
        )

    def query(self, images: NDArray[np.uint8], labels: Integers) -> Integers:
        return np.bincount(labels, minlength=self.n_classes).astype(np.int64)
