"""What a gradient compressor is: gradients to ballots, what a ballot can do, and a count back."""

from typing import Protocol

from torch import Tensor

from datalens.mechanism.noise import Floats, Integers

PUBLIC = b"datalens compressors"
"""Where the chance in rotations and sketches begins. Anyone may know it: no bound rests on it."""


class Compressor(Protocol):
    """How each teacher's gradient becomes a ballot of integers, and their sum a direction again.

    Guarantee: whatever the gradient is, NaN and infinity included, a ballot's squared norm is at
    most `squared_sensitivity / 4`. One ballot that becomes any other then moves the sum by at most
    twice the norm. `decode` sees the release alone, so it is free.
    """

    @property
    def what(self) -> str:
        """The name of its releases in ledger and certificate."""

    @property
    def unit(self) -> int:
        """A whole vote, in steps of the integer grid: what sigma and quorum are counted in."""

    @property
    def dice(self) -> int:
        """Uniform numbers that a ballot takes."""

    @property
    def squared_sensitivity(self) -> int:
        """Largest squared move of a sum of ballots when one ballot becomes any other."""

    @property
    def parameters(self) -> dict[str, int]:
        """What the sensitivity follows from, for the certificate."""

    @property
    def spread(self) -> float:
        """Deviation of the noise on a decoded entry, in that on an entry of the release."""

    def width(self, n_values: int) -> int:
        """Integers in a ballot on an image of so many values."""

    def cast(self, gradients: Tensor, uniforms: Tensor, *, into: Tensor) -> None:
        """Add ballots, from gradients (teachers, m, values) and uniforms (teachers, m, dice).

        They are added to a tally of integers (m, width).
        """

    def decode(self, release: Integers) -> Floats:
        """What a release (m, width) says of every value of an image (m, values), on the grid."""


def within(ballots: Tensor, bound: int) -> Tensor:
    """The integer ballots (..., width) that are no longer than `bound`; others abstain.

    The norm is taken after all rounding, in 64-bit integers: there is nothing left to go wrong.
    """
    whole = ballots.long()
    fits = (whole * whole).sum(dim=-1, keepdim=True) <= bound * bound
    return whole * fits
