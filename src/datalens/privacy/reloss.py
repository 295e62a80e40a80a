"""Epsilon of sampled steps by their privacy loss, derived a second time: the verifier's own view.

The loss of one step has a distribution in closed form, that of many steps is its convolution with
itself, and delta(epsilon) is an expectation over it (Koskela, Jalko and Honkela 2020). What lies
between two points of a fine grid is divided between them so that both worlds keep its probability
(Doroshenko, Ghazi, Kamath, Kumar and Manurangsi 2022). That is a bound, as the writer's figure is;
the writer's grid is coarser, so an honest figure lies above this one.
"""

import math

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr

Losses = NDArray[np.float64]
Steps = dict[tuple[float, float], int]
"""How many there are of each sampling probability and noise."""

POINTS = 2**20
"""Of the grid."""
LEAST_DELTA = 1e-10
"""Below, what rounding leaves of a Fourier transform is no longer small."""


def loss_epsilon(steps: Steps, delta: float, *, reach: float) -> float:
    """The larger of both directions: the record's presence against its absence, and in turn.

    `reach` is a loss that hardly ever occurs.
    """
    if not delta >= LEAST_DELTA:
        raise ValueError(f"a delta of {delta!r} is too small for losses")
    return max(_one_way(steps, delta, reach, present) for present in (True, False))


def _one_way(steps: Steps, delta: float, reach: float, present: bool) -> float:
    width = 2 * reach / POINTS
    grid: Losses = (np.arange(POINTS) - POINTS // 2) * np.float64(width)
    spectrum = np.ones(POINTS // 2 + 1, dtype=np.complex128)
    for (q, z), count in steps.items():
        spectrum *= np.fft.rfft(np.fft.ifftshift(_on_grid(grid, q, z, present))) ** count
    shares = np.fft.fftshift(np.fft.irfft(spectrum, POINTS))

    def exceeds(epsilon: float) -> bool:
        above = grid > epsilon
        return bool(np.dot(shares[above], -np.expm1(epsilon - grid[above])) > delta)

    low, high = 0.0, reach
    if not exceeds(low):
        return 0.0
    while high - low > 1e-7 * high:
        middle = (low + high) / 2
        low, high = (middle, high) if exceeds(middle) else (low, middle)
    return high


def _on_grid(grid: Losses, q: float, z: float, present: bool) -> Losses:
    """The probability of each loss of one step, in the world that the loss is of.

    What lies between two points has the probability p there, and r in the other world: so that
    both add up, the upper point gets a part u of p with p - u = (r - u exp(-upper)) exp(lower).
    """
    here, there = (np.diff(below) for below in _below(grid, q, z, present))
    with np.errstate(over="ignore", invalid="ignore"):
        upper = (here - there * np.exp(grid[:-1])) / -math.expm1(grid[0] - grid[1])
    upper = np.clip(np.nan_to_num(upper, nan=0.0), 0.0, here)
    shares = np.zeros_like(grid)
    shares[1:] += upper
    shares[:-1] += here - upper
    return shares


def _below(loss: Losses, q: float, z: float, present: bool) -> tuple[Losses, Losses]:
    """The probability of a smaller loss in one step: in the world that it is of, and in the other.

    The outcome x is of N(0, z^2) with the record absent, and with it of N(1, z^2) one time in 1/q.
    The loss is log(1 - q + q exp((2x - 1) / (2 z^2))) if the record is there, which rises with x,
    and the negative of it if it is not. What lies outside the grid is put at its ends.
    """
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        inner = (np.expm1(loss if present else -loss) + q) / q
        x = np.where(inner > 0, z**2 * np.log(inner) + 0.5, -math.inf) / z
    sign = 1 if present else -1
    absent = ndtr(sign * x)
    there = (1 - q) * absent + q * ndtr(sign * (x - 1 / z))
    for below in (absent, there):
        below[0], below[-1] = 0.0, 1.0
    return (there, absent) if present else (absent, there)
