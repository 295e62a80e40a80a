"""D2P-Fed: rotated gradients on k levels. Algorithms 5 and 6 of the paper, put right.

The printed levels, b[r] = -k/2 + 2r, are not symmetric, the comparison mixes scaled and unscaled
values, nothing rotates back, and m * sqrt(k) is not the sensitivity of what is counted.
"""

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from datalens.errors import DataLensError
from datalens.mechanism.ballots import ClipMode, check_clip, clipped
from datalens.mechanism.compressors import within
from datalens.mechanism.events import positive
from datalens.mechanism.noise import Floats, Integers
from datalens.mechanism.rotation import padded, rotate, rotate_back

MARGIN = 4.0
"""Rounding makes a ballot longer than its bound with a probability below e^(-MARGIN^2 / 2)."""
MOST_LEVELS = 2**15


@dataclass(frozen=True, kw_only=True)
class D2PFed:
    """Clip, rotate, scale, and round without bias to `levels` evenly spaced integers.

    Odd: ..., -1, 0, 1, ...; even: ..., -3, -1, 1, 3, ... Both are symmetric.

    Guarantee: a ballot is a vector of `padded(n_values)` integers of size at most `unit`, those
    that padding adds among them. Its norm is taken over all of them after rounding, in integers,
    and a ballot longer than `bound` is not cast: it counts as zero. So whatever the gradient is,
    NaN and infinity included, the norm is at most `bound`, and one ballot that becomes any other
    moves the sum by at most twice that: `4 * bound**2` squared. The rotation is public, the same
    for all teachers, and no part of the argument.
    """

    n_values: int
    """Values of an image."""
    clip: float
    clip_mode: ClipMode = "relative"
    levels: int
    bound: int
    """The largest norm of a ballot, on the integer grid."""

    def __post_init__(self) -> None:
        positive(n_values=self.n_values, bound=self.bound)
        check_clip(self.clip, self.clip_mode)
        if not 2 <= self.levels <= MOST_LEVELS:
            raise DataLensError(f"levels must lie between 2 and 2^15, got {self.levels!r}.")
        if self.length <= 0:
            raise DataLensError(
                f"A ballot of {self.levels} levels that is at most {self.bound} long is all"
                f" rounding; use at least {least_bound(self.n_values, self.levels)}."
            )

    @property
    def what(self) -> str:
        return "rotated-votes"

    @property
    def step(self) -> int:
        """From one level to the next."""
        return step_of(self.levels)

    @property
    def unit(self) -> int:
        """The highest level."""
        return unit_of(self.levels)

    @property
    def dice(self) -> int:
        return padded(self.n_values)

    @property
    def squared_sensitivity(self) -> int:
        return 4 * self.bound**2

    @property
    def parameters(self) -> dict[str, int]:
        return {"bound": self.bound}

    @property
    def spread(self) -> float:
        return 1.0  # rotations leave Gaussian noise as it is

    @property
    def length(self) -> float:
        """How long a ballot may be before it is rounded, so that it is seldom too long after.

        Infinite where no ballot on these levels can be too long.
        """
        size = padded(self.n_values)
        if self.bound**2 >= size * self.unit**2:
            return math.inf
        half = MARGIN * self.step / 2
        spare = self.bound**2 - _rounding(size, self.step) + half**2
        return math.sqrt(spare) - half if spare > 0 else 0.0

    def width(self, n_values: int) -> int:
        return padded(n_values)

    def cast(self, gradients: Tensor, uniforms: Tensor, *, into: Tensor) -> None:
        for one, chance in zip(gradients, uniforms, strict=True):  # few at a time stay in cache
            into += self.ballots(one, chance).cpu()

    def ballots(self, gradients: Tensor, uniforms: Tensor) -> Tensor:
        """Integers (..., padded) from gradients (..., values) and uniforms (..., padded).

        In expectation, before any that is too long is left out, a ballot is the clipped and
        rotated gradient times a positive number.
        """
        finite = gradients.nan_to_num(nan=0.0)  # infinities become the largest finite numbers
        rotated = rotate(clipped(finite, self.clip, self.clip_mode))
        largest = rotated.abs().amax(dim=-1, keepdim=True)
        norm = rotated.norm(dim=-1, keepdim=True)
        scaled = rotated * torch.minimum(self.unit / largest, self.length / norm)
        places = ((scaled + self.unit) / self.step).nan_to_num(nan=0.0)  # levels from the lowest
        taken = torch.floor(places + uniforms.to(places)).clamp(0, self.levels - 1)
        votes = self.step * taken.long() - self.unit
        return within(votes * (largest > 0), self.bound)  # who says nothing abstains

    def decode(self, release: Integers) -> Floats:
        """Rotated back."""
        found: Floats = rotate_back(torch.from_numpy(release).double(), self.n_values).numpy()
        return found


def step_of(levels: int) -> int:
    """From one level to the next."""
    return 1 if levels % 2 else 2


def unit_of(levels: int) -> int:
    """The highest of so many levels."""
    return (levels - 1) * step_of(levels) // 2


def usual_bound(n_values: int, levels: int) -> int:
    """A bound that a rotated gradient whose largest entry is on the highest level keeps.

    Entries of a rotated vector are about normal, so its largest is about sqrt(2 log d) times the
    usual one. With rounding on top (see `length`), and never more than all entries at the top.
    """
    size, unit, step = padded(n_values), unit_of(levels), step_of(levels)
    length = unit * math.sqrt(size / max(1.0, 2 * math.log(size)))
    rounded = length**2 + MARGIN * step * length + _rounding(size, step)
    return math.ceil(math.sqrt(min(rounded, size * unit**2)))


def least_bound(n_values: int, levels: int) -> int:
    """The smallest that leaves something beside rounding."""
    size, unit, step = padded(n_values), unit_of(levels), step_of(levels)
    return math.ceil(math.sqrt(min(_rounding(size, step) + 1, size * unit**2)))


def _rounding(size: int, step: int) -> float:
    """What rounding adds to a squared norm: its mean at most, and a margin.

    Unbiased rounding of x has E|ballot|^2 <= |x|^2 + step^2 d / 4, and exceeds that by more than
    MARGIN step (|x| + step sqrt(d) / 2) with a probability below e^(-MARGIN^2 / 2) (Kairouz, Liu
    and Steinke 2021, "The distributed discrete Gaussian mechanism").
    """
    return step**2 * size / 4 + MARGIN * step**2 * math.sqrt(size) / 2
