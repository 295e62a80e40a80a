"""Buying a Gaussian per class: which moments, at what noise, and what comes of them.

Used by `class-gaussian` as the whole method, and by `datalens` to begin with.
"""

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from datalens.data import PublicFacts, Records
from datalens.mechanism.moments import ClassCounts, ClassSums, SecondMoments
from datalens.privacy.accountants import Charge
from datalens.privacy.calibration import sigma_for
from datalens.privacy.releases import Door
from datalens.student.gaussian import GaussianModel, class_centres, fit_gaussian

SUMS_BOUND = 0.4
SECOND_BOUND = 0.25
LARGEST_GRID = 1024
"""Values per record in the second moments; larger images are averaged in blocks first."""


def block_side(shape: tuple[int, int, int]) -> int:
    """Side of the pixel blocks to average, so that a record has at most LARGEST_GRID values."""
    channels, height, width = shape
    side = 1
    while channels * math.ceil(height / side) * math.ceil(width / side) > LARGEST_GRID:
        side += 1
    return side


def coarse(images: NDArray[np.uint8], side: int) -> NDArray[np.uint8]:
    """Block averages, rounded down to integers; each depends on its own record alone."""
    if side == 1:
        return images
    n, c, h, w = images.shape
    padded = np.pad(images, ((0, 0), (0, 0), (0, -h % side), (0, -w % side)), mode="edge")
    blocks = padded.reshape(n, c, padded.shape[2] // side, side, padded.shape[3] // side, side)
    return (blocks.sum(axis=(3, 5), dtype=np.int64) // side**2).astype(np.uint8)


@dataclass(frozen=True, kw_only=True)
class MomentPlan:
    """The moments to buy: class sums, then second moments about the bought class means."""

    public: PublicFacts
    sums: ClassSums
    second_bound: int
    second_sigma: float
    rank: int | None

    @classmethod
    def within(
        cls, rho: float, *, public: PublicFacts, sums_share: float, rank: int | None
    ) -> "MomentPlan":
        """The least noise that costs at most `rho` in all."""
        bound, second_bound = bounds(public.shape)
        return cls(
            public=public,
            rank=rank,
            sums=ClassSums(
                bound=bound,
                sigma=sigma_for(rho * sums_share, bound**2),
                n_classes=public.n_classes,
            ),
            second_bound=second_bound,
            second_sigma=sigma_for(
                rho * (1 - sums_share), SecondMoments.squared_sensitivity(second_bound)
            ),
        )

    @property
    def charges(self) -> list[Charge]:
        nowhere = np.zeros((1, 1), dtype=np.int64)  # the price does not depend on the centres
        return [Charge(event=m.event, count=1) for m in (self.sums, self._second(nowhere))]

    @property
    def parameters(self) -> dict[str, dict[str, int]]:
        """What the sensitivities follow from."""
        return {
            "class-sums": {"bound": self.sums.bound},
            "second-moments": {"bound": self.second_bound},
        }

    def buy(
        self, records: Records, releases: Door, counts: NDArray[np.float64]
    ) -> GaussianModel | None:
        """The model of the bought moments, for images as `coarse` makes them.

        None if a crash lost one of the two.
        """
        images = coarse(records.images, block_side(self.public.shape))
        labels = records.labels
        d = images[0].size
        sums = releases.obtain(
            "class-sums",
            self.sums,
            lambda: self.sums.query(images, labels),
            shape=(self.public.n_classes, d),
        )
        if sums is None:
            return None
        about = self._second(class_centres(sums, counts))
        second = releases.obtain(
            "second-moments",
            about,
            lambda: about.query(images, labels),
            shape=(d * (d + 1) // 2,),
        )
        if second is None:
            return None
        channels, height, width = images.shape[1:]
        return fit_gaussian(
            sums=sums,
            second=about.matrix(second),
            counts=counts,
            sums_sigma=self.sums.sigma,
            second_sigma=about.deviation,
            grid=(channels, height, width),
            rank=self.rank,
        )

    def _second(self, centres: NDArray[np.int64]) -> SecondMoments:
        return SecondMoments(bound=self.second_bound, sigma=self.second_sigma, centres=centres)


def bounds(shape: tuple[int, int, int]) -> tuple[int, int]:
    """Public constants, from the shape alone: the longest a record may be, and a record less
    the mean of its class, as a root mean square of SUMS_BOUND and SECOND_BOUND per pixel."""
    side = block_side(shape)
    channels, height, width = shape
    values = channels * math.ceil(height / side) * math.ceil(width / side)
    length = 255 * math.sqrt(values)
    return int(SUMS_BOUND * length), int(SECOND_BOUND * length)


def class_counts(
    records: Records, releases: Door, bought: ClassCounts | None
) -> NDArray[np.float64]:
    """Records in each class: bought, at least one each; or n / classes, from public facts alone."""
    n, classes = records.public.n_records, records.public.n_classes
    if bought is not None:
        release = releases.obtain(
            "class-counts",
            bought,
            lambda: bought.query(records.images, records.labels),
            shape=(classes,),
        )
        if release is not None:
            return np.maximum(release.astype(np.float64), 1.0)
    return np.full(classes, n / classes)
