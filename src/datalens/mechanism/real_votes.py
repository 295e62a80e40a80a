"""PATE's noisy count: how many teachers take an image for real (Jordon et al. 2019)."""

from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from datalens.mechanism.events import GaussianRelease, LaplaceRelease, noise_scale, positive
from datalens.mechanism.noise import Integers, Noise, Shape

Law = Literal["gaussian", "laplace"]


@dataclass(frozen=True, kw_only=True)
class RealVotes:
    """Count the teachers that say "real" of each image, under noise.

    Guarantee: a record reaches one teacher, and a teacher has one vote on an image, 0 or 1
    whatever its logit (NaN is 0). So a record, blanked or replaced, moves the count of one image
    by at most 1. `event` is the cost of ONE image: a step of m images makes m releases. The count
    is enough: who says "fake" is the rest, so a second count would tell and cost more.
    """

    n_teachers: int
    shape: Law
    """Of the noise."""
    scale: float
    """Of the noise, in votes: a standard deviation if Gaussian, a Laplace scale if Laplace."""

    def __post_init__(self) -> None:
        positive(n_teachers=self.n_teachers)
        noise_scale(scale=self.scale)

    @property
    def event(self) -> GaussianRelease | LaplaceRelease:
        """What the release of one image costs."""
        if self.shape == "laplace":
            return LaplaceRelease(
                what="real-votes", sensitivity=1, sensitivity_replace=1, scale=self.scale
            )
        return GaussianRelease(
            what="real-votes",
            squared_sensitivity=1,
            squared_sensitivity_replace=1,
            sigma=self.scale,
        )

    def count(self, logits: Tensor) -> Integers:
        """The votes of some teachers (teachers, images) on each image: the last private thing."""
        votes: Integers = (logits > 0).sum(0).cpu().numpy().astype(np.int64)
        return votes

    def releases_in(self, counts: Integers) -> int:
        """One for each image."""
        return len(counts)

    def draw(self, shape: Shape, *, noise: Noise, key: str) -> Integers:
        """The noise of counts. Their sum is the only thing that crosses to the public side."""
        if self.shape == "laplace":
            return noise.draw_laplace(shape, scale=self.scale, key=key)
        return noise.draw(shape, sigma=self.scale, key=key)

    def share(self, release: Integers) -> NDArray[np.float32]:
        """The share of the teachers that takes an image for real, right on average.

        Noise may take it out of [0, 1]: cutting it off would be wrong on average.
        """
        return (release / self.n_teachers).astype(np.float32)

    def majority(self, release: Integers) -> NDArray[np.bool_]:
        """Whether an image is to count as real: public, computed from the release alone."""
        says: NDArray[np.bool_] = 2 * release > self.n_teachers
        return says
