"""Gradient to bins, and bins to a winner: the aggregation of G-PATE, confident GNMax.

Every teacher projects its gradient on an image to a few numbers and names a bin for each of them.
Two releases are made of the count, for each image: how many votes the fullest bin of each
coordinate has, and the histograms themselves.
"""

from dataclasses import dataclass
from math import ceil, sqrt

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from datalens.mechanism.ballots import room
from datalens.mechanism.blurring import blurred
from datalens.mechanism.events import GaussianRelease, positive
from datalens.mechanism.noise import Integers, Noise, Shape


def random_projections(
    images: Tensor, projected: int, *, smooth: float, weigh_room: bool, chance: torch.Generator
) -> Tensor:
    """Another projection (m, projected, d) for each image: public, no record has a part in it.

    White noise, or noise that is `smooth` over so many pixels, as what teachers agree on is.
    Pixels with little room left in [0, 1] may be given less weight.
    """
    grain = torch.randn((len(images), projected, *images.shape[1:]), generator=chance)
    if smooth > 0:
        grain = _smoothed(grain, smooth)
    if weigh_room:
        grain = grain * room(images)[:, None]
    return grain.flatten(2) / sqrt(projected)


def _smoothed(grain: Tensor, width: float) -> Tensor:
    """Blurred in both directions, at the variance it had."""
    places = torch.arange(-ceil(2 * width), ceil(2 * width) + 1)
    lens = torch.exp(-0.5 * (places / width) ** 2)
    return blurred(grain, lens / lens.norm())


@dataclass(frozen=True, kw_only=True)
class BinRule:
    """How a teacher turns a gradient into a ballot: one bin for each projected coordinate.

    Guarantee: a ballot names exactly one of `bins` bins for each of `projected` coordinates,
    whatever the gradient is, NaN and infinity included. So a teacher that casts another ballot
    takes at most one vote out of each histogram and puts at most one into it.
    """

    projected: int
    bins: int
    clip: float
    """Projected coordinates are cut at this size; bins divide what lies between evenly."""

    def __post_init__(self) -> None:
        positive(projected=self.projected, bins=self.bins, clip=self.clip)

    def empty_tally(self, n_images: int) -> Tensor:
        """Where ballots on so many images are counted: integers, and the last private thing."""
        return torch.zeros(n_images, self.projected, self.bins, dtype=torch.int64)

    def vote(self, gradients: Tensor, projection: Tensor) -> Tensor:
        """The bins (teachers, m, projected) that gradients (teachers, m, d) fall into.

        `projection` (m, projected, d) is public: it is drawn without looking at any record.
        """
        finite = gradients.nan_to_num(nan=0.0)
        seen = torch.einsum("tmd,mpd->tmp", finite, projection).nan_to_num(nan=0.0)
        share = (seen.clamp(-self.clip, self.clip) / self.clip + 1) / 2
        return (share * self.bins).long().clamp(0, self.bins - 1)

    def count(self, gradients: Tensor, projection: Tensor, *, into: Tensor) -> None:
        """Add the ballots of some teachers to a tally (m, projected, bins)."""
        votes = self.vote(gradients, projection)
        into.scatter_add_(
            2,
            votes.permute(1, 2, 0).cpu(),
            torch.ones((), dtype=into.dtype).expand(*into.shape[:2], len(votes)),
        )

    def centres(self, winners: Integers) -> NDArray[np.float32]:
        """The middles of bins, in units of `clip`: between -1 and 1."""
        return ((2 * winners + 1) / self.bins - 1).astype(np.float32)


@dataclass(frozen=True, kw_only=True)
class VoteChecks:
    """The number of votes in the fullest bin of each coordinate: do teachers agree at all?

    Guarantee: one ballot that becomes another moves the largest count of a histogram by at most
    1, so the maxima of one image move by at most `projected`, squared; blanked and replaced
    alike. `event` is the cost of ONE image, and is paid whatever the answer is.
    """

    projected: int
    sigma: float
    """Noise on each largest count, in votes: the sigma_1 of confident GNMax."""
    least: float
    """Votes that the noisy count must reach for its coordinate to be answered."""

    @property
    def event(self) -> GaussianRelease:
        return _event("vote-checks", self.projected, self.sigma)

    def query(self, tally: Integers) -> Integers:
        """The largest counts (m, projected) of a tally (m, projected, bins)."""
        largest: Integers = tally.max(axis=2)
        return largest

    def releases_in(self, largest: Integers) -> int:
        """One for each image."""
        return len(largest)

    def draw(self, shape: Shape, *, noise: Noise, key: str) -> Integers:
        return noise.draw(shape, sigma=self.sigma, key=key)

    def passed(self, release: Integers) -> NDArray[np.bool_]:
        """Which coordinates are answered."""
        return release >= self.least


@dataclass(frozen=True, kw_only=True)
class BinnedVotes:
    """The histograms of one image, of which only the winners are looked at.

    Guarantee: one ballot that becomes another lowers one count of each histogram by one and
    raises another, a squared move of 2 in each of `projected` histograms; blanked and replaced
    alike. `event` is the cost of ONE image, and is paid whether it is answered or not.
    """

    projected: int
    sigma: float
    """Noise on each count, in votes: the sigma_2 of confident GNMax."""

    @property
    def event(self) -> GaussianRelease:
        return _event("binned-votes", 2 * self.projected, self.sigma)

    def releases_in(self, tally: Integers) -> int:
        """One for each image of the tally (m, projected, bins)."""
        return len(tally)

    def draw(self, shape: Shape, *, noise: Noise, key: str) -> Integers:
        return noise.draw(shape, sigma=self.sigma, key=key)

    def winners(self, release: Integers) -> Integers:
        """The fullest bin (m, projected) of each noisy histogram."""
        winners: Integers = release.argmax(axis=2)
        return winners


def _event(what: str, squared: int, sigma: float) -> GaussianRelease:
    """A teacher whose record is replaced rather than blanked also just casts another ballot."""
    return GaussianRelease(
        what=what,
        squared_sensitivity=squared,
        squared_sensitivity_replace=squared,
        sigma=sigma,
    )
