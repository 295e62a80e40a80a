"""Painted to image: a sigmoid only comes near to black and white, and records have both."""

from torch import Tensor

EDGE = 0.05
"""What is painted as dark as this is black, and what comes as near to 1, white."""


def developed(painted: Tensor) -> Tensor:
    """Images whose black and white are exact.

    Of a background that is nearly black, teachers would speak of nothing but that.
    """
    return ((painted - EDGE) / (1 - 2 * EDGE)).clamp(0, 1)


def negative(images: Tensor) -> Tensor:
    """What must be painted to be developed to these images: nothing beyond black or white."""
    return EDGE + (1 - 2 * EDGE) * images
