"""TopAgg: Algorithm 3 of the paper. Ballots to tally to release to direction.

With another compressor than its own it is Algorithm 6 or 7.
"""

from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from datalens.errors import DataLensError
from datalens.mechanism.compressors import Compressor
from datalens.mechanism.events import GaussianRelease, positive
from datalens.mechanism.noise import LARGEST, Integers, Noise, Shape


@dataclass(frozen=True, kw_only=True)
class TopAgg:
    """Count ballots under Gaussian noise, decode the count, and keep what passes the quorum.

    Guarantee: a record reaches one teacher, so it changes one ballot, and the tally of one
    image moves by at most twice the norm that a ballot can have: for sparse signs, that is
    `2 * sqrt(top_k)` (Lemma 1); see each Compressor for its own. `event` is the cost of ONE
    image: a step of m images makes m releases.
    """

    ballot: Compressor
    n_teachers: int
    sigma: float
    """Noise standard deviation per coordinate, in ballots."""
    quorum: float | None
    """Entries beyond `quorum * n_teachers` become -1/+1; None switches the threshold off."""

    def __post_init__(self) -> None:
        positive(n_teachers=self.n_teachers, sigma=self.sigma)
        if self.n_teachers**2 * self.ballot.squared_sensitivity >= 4 * LARGEST**2:
            raise DataLensError(f"{self.n_teachers} such ballots could overflow; use fewer.")
        if self.quorum is not None and not 0 <= self.quorum <= 100:
            raise DataLensError(f"quorum must be between 0 and 100, got {self.quorum!r}.")

    @property
    def event(self) -> GaussianRelease:
        """What the release of one image costs."""
        squared = self.ballot.squared_sensitivity
        return GaussianRelease(
            what=self.ballot.what,
            squared_sensitivity=squared,
            squared_sensitivity_replace=squared,
            sigma=self.sigma * self.ballot.unit,
        )

    def empty_tally(self, n_images: int, n_values: int) -> Tensor:
        """Where ballots on so many images are counted: integers, and the last private thing."""
        return torch.zeros(n_images, self.ballot.width(n_values), dtype=torch.int64)

    def count(self, gradients: Tensor, uniforms: Tensor, *, into: Tensor) -> None:
        """Add the ballots of some teachers (teachers, images, values) to a tally."""
        self.ballot.cast(gradients, uniforms, into=into)

    def releases_in(self, tally: Integers) -> int:
        """One for each image of the tally (m, width): a step of m images pays m times."""
        return len(tally)

    def draw(self, shape: Shape, *, noise: Noise, key: str) -> Integers:
        """The noise of a tally. Their sum is the only thing that crosses to the public side."""
        return noise.draw(shape, sigma=self.event.sigma, key=key)

    def direction(self, release: Integers) -> NDArray[np.float32]:
        """What the student follows: public, because it is computed from the release alone."""
        share = self.ballot.decode(release) / (self.ballot.unit * self.n_teachers)
        if self.quorum is None:
            return share.astype(np.float32)
        passed = np.abs(share) >= self.quorum
        return np.where(passed, np.sign(share), 0.0).astype(np.float32)
