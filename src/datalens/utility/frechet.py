"""Frechet distance between two sets of features (FID: Heusel et al. 2017), and its bias.

From few images the distance is too large, by about a constant over their number. So it is
computed from parts of the images too, and followed to infinitely many (Chong and Forsyth 2020).
"""

from dataclasses import dataclass

import numpy as np
import scipy.linalg
from numpy.typing import NDArray

from datalens.errors import DataLensError

Floats = NDArray[np.float64]

PARTS = (4, 3, 2, 1)
"""Into so many parts the images are cut, for the distances of fewer images."""
FEWEST = 8


@dataclass(frozen=True, kw_only=True)
class Frechet:
    """A distance, how many images it comes from, and what it would be with ever more."""

    distance: float
    """Of all images."""
    infinite: float | None
    """Where the distances of parts lead to; noisy, so that it may come out below 0. None where
    parts are smaller than the number of features: there they lie on no line."""
    images: int
    """Of each set."""
    sizes: tuple[int, ...]
    distances: tuple[float, ...]


def frechet(first: Floats, second: Floats, *, seed: int = 0) -> Frechet:
    """Both sets (n, d) are cut to the size of the smaller one, so that both biases shrink alike."""
    images = min(len(first), len(second))
    if images < FEWEST:
        raise DataLensError(f"A Frechet distance needs {FEWEST} images or more, got {images}.")
    chance = np.random.default_rng(seed)
    one, other = (chance.permutation(each)[:images] for each in (first, second))
    followed = images // PARTS[0] > first.shape[1]
    sizes = [images // parts for parts in PARTS] if followed else [images]
    distances = [_averaged(one, other, size) for size in sizes]
    infinite = None
    if followed:
        infinite = float(np.polynomial.Polynomial.fit(1 / np.array(sizes), distances, 1)(0))
    return Frechet(
        distance=distances[-1],
        infinite=infinite,
        images=images,
        sizes=tuple(sizes),
        distances=tuple(distances),
    )


def _averaged(first: Floats, second: Floats, size: int) -> float:
    """Over as many parts of this size as there are: what they have in common is the bias."""
    starts = range(0, len(first) - size + 1, size)
    parts = [(first[i : i + size], second[i : i + size]) for i in starts]
    return float(np.mean([distance_of(*part) for part in parts]))


def distance_of(first: Floats, second: Floats) -> float:
    """Of the Gaussians that have the means and covariances of two sets."""
    moments = [(each.mean(0), np.cov(each, rowvar=False)) for each in (first, second)]
    return gaussian_distance(*moments[0], *moments[1])


def gaussian_distance(
    mean: Floats, covariance: Floats, mean2: Floats, covariance2: Floats
) -> float:
    """|m - m'|^2 + tr(C + C' - 2 (C C')^(1/2)).

    The trace of that root is the sum of square roots of the eigenvalues of C^(1/2) C' C^(1/2),
    which is symmetric: no root of a matrix that is not is taken, and none becomes complex.
    """
    values, vectors = scipy.linalg.eigh(np.atleast_2d(covariance))
    root = vectors * np.sqrt(values.clip(0)) @ vectors.T
    inner = root @ np.atleast_2d(covariance2) @ root
    overlap = np.sqrt(scipy.linalg.eigvalsh((inner + inner.T) / 2).clip(0)).sum()
    apart = float(np.square(mean - mean2).sum())
    traces = np.trace(np.atleast_2d(covariance)) + np.trace(np.atleast_2d(covariance2))
    return max(0.0, float(apart + traces - 2 * overlap))
