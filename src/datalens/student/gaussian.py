"""A Gaussian for each class, from noisy moments. Everything here comes after the release."""

from dataclasses import dataclass, replace
from math import ceil

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from scipy.fft import dct

from datalens.errors import DataLensError

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]

EDGE_MARGIN = 1.02
"""An eigenvalue counts as signal beyond this multiple of the largest that noise alone has."""
SMOOTHNESS = (1.0, 0.8, 0.65, 0.5, 0.35)
"""Shares of the frequencies, the lowest first, in which a covariance may be looked for."""
BANDS = 9
"""Bands of frequencies of a side, in which means are freed from noise, each band for itself."""


@dataclass(frozen=True, kw_only=True)
class GaussianModel:
    """Class c's images are `means[c] + z @ factor`, cut to [0, 1], z normal.

    The factor holds the directions that stand out of the noise. The variance that remains may be
    spread evenly over all pixels as grain, random noise: a Gaussian has that variance too.
    """

    means: NDArray[np.float32]
    """(classes, c, h, w), in units of full brightness."""
    factor: NDArray[np.float32]
    """(rank, c, h, w): the directions all classes vary in, each as long as it varies."""
    grain: float
    """Standard deviation of a pixel beyond the factor."""

    @property
    def shape(self) -> tuple[int, int, int]:
        channels, height, width = self.means.shape[1:]
        return channels, height, width

    @property
    def rank(self) -> int:
        return len(self.factor)

    def sample(self, labels: Integers, generator: torch.Generator) -> NDArray[np.float32]:
        """One image for each label, (m, c, h, w) in [0, 1], without grain."""
        latents = torch.randn(len(labels), self.rank, generator=generator)
        moved = latents @ torch.from_numpy(self.factor).flatten(1)
        means = torch.from_numpy(self.means).flatten(1)[torch.as_tensor(labels)]
        return (means + moved).clamp_(0, 1).view(-1, *self.shape).numpy()

    def enlarged(self, shape: tuple[int, int, int]) -> "GaussianModel":
        """The same model for images of `shape`, of which this one's are block averages."""
        return replace(self, means=enlarged(self.means, shape), factor=enlarged(self.factor, shape))

    def arrays(self) -> dict[str, NDArray[np.float32]]:
        grain = np.array([self.grain], dtype=np.float32)
        return {"means": self.means, "factor": self.factor, "grain": grain}

    @classmethod
    def from_arrays(
        cls, arrays: dict[str, NDArray[np.float32]], *, shape: tuple[int, int, int]
    ) -> "GaussianModel":
        fits = set(arrays) == {"means", "factor", "grain"} and arrays["grain"].shape == (1,)
        if not fits or any(arrays[name].shape[1:] != shape for name in ("means", "factor")):
            raise DataLensError(f"These arrays are no class-gaussian model of {shape} images.")
        grain = float(arrays["grain"][0])
        return cls(means=arrays["means"], factor=arrays["factor"], grain=grain)


def class_centres(sums: Integers, counts: Floats) -> Integers:
    """Noisy class means as pixel values 0..255: public, so records may be centred at them.

    What remains of a record is shorter than the record, so its second moments need less noise.
    """
    means = np.clip(sums / np.asarray(counts)[:, None], 0, 255)
    return np.rint(means).astype(np.int64)


def fit_gaussian(
    *,
    sums: Integers,
    second: Floats,
    counts: Floats,
    sums_sigma: float,
    second_sigma: float,
    grid: tuple[int, int, int],
    rank: int | None = None,
) -> GaussianModel:
    """The model of noisy moments of records of the shape `grid`.

    `sums` (classes, d) are of pixels 0..255; `second` (d, d) are the second moments of the records
    less `class_centres`. `sums_sigma` and `second_sigma` are the noise on each entry, of `second`
    beside its diagonal, and `rank` is the most directions to keep.
    """
    d = int(np.prod(grid))
    if sums.shape != (len(counts), d) or second.shape != (d, d):
        raise DataLensError(
            f"Records of {d} values have sums of {d} and second moments of {d} x {d} entries, got"
            f" {sums.shape} and {second.shape}."
        )
    counts = np.asarray(counts, dtype=np.float64)
    means = denoised_means(sums / counts[:, None], noise=sums_sigma / counts, grid=grid) / 255
    covariance = second / counts.sum() / 255**2
    factor = smooth_factor(covariance, second_sigma / counts.sum() / 255**2, grid, rank)
    remaining = max(0.0, float(np.trace(covariance) - (factor**2).sum()))
    return GaussianModel(
        means=means.reshape(-1, *grid).astype(np.float32),
        factor=factor.reshape(-1, *grid).astype(np.float32),
        grain=(remaining / d) ** 0.5,
    )


def denoised_means(means: Floats, *, noise: Floats, grid: tuple[int, int, int]) -> Floats:
    """Class means without as much of them as noise must have put there.

    James-Stein, frequency by frequency: in each band of frequencies, what all classes have in
    common and what sets them apart keep the squared length observed less what noise adds to it.
    Images are smooth, so that high bands are mostly noise, and are emptied.
    """
    waves, band = frequencies(grid), _bands(grid)
    found = means @ waves.T
    centre = found.mean(axis=0)
    apart = found - centre
    variance = float(np.mean(noise**2))
    for each in np.unique(band):
        inside = band == each
        centre[inside] *= _kept(centre[inside] ** 2, variance / len(means))
        apart[:, inside] *= _kept(apart[:, inside] ** 2, variance)
    denoised: Floats = (centre + apart) @ waves
    return denoised


def frequencies(grid: tuple[int, int, int], share: float = 1.0) -> Floats:
    """The cosine waves of an image, as orthonormal rows: of each side the lowest `share`."""
    channels, *sides = grid
    down, across = (dct(np.eye(n), norm="ortho", axis=0)[: ceil(share * n)] for n in sides)
    waves: Floats = np.kron(np.eye(channels), np.kron(down, across)).astype(np.float64)
    return waves


def _bands(grid: tuple[int, int, int]) -> Integers:
    """For each of the `frequencies` the band it lies in."""
    channels, height, width = grid
    high = np.arange(height)[:, None] / height + np.arange(width)[None] / width
    return np.tile((BANDS * high).astype(np.int64).ravel(), channels)


def _kept(squares: Floats, variance: float) -> float:
    """The share of a noisy vector that is not noise, from the squares of its entries."""
    return max(0.0, 1 - variance / max(float(squares.mean()), 1e-300))


def smooth_factor(
    covariance: Floats, noise: float, grid: tuple[int, int, int], rank: int | None = None
) -> Floats:
    """The `low_rank_factor` among smooth directions, as smooth as lets most variance be found.

    The fewer directions there are, the less noise hides the variance in them.
    """
    best = np.zeros((0, len(covariance)))
    for share in SMOOTHNESS if noise > 0 else SMOOTHNESS[:1]:
        waves = frequencies(grid, share)
        found = low_rank_factor(waves @ covariance @ waves.T, noise, rank) @ waves
        if (found**2).sum() > (best**2).sum():
            best = found
    return best


def low_rank_factor(covariance: Floats, noise: float, rank: int | None = None) -> Floats:
    """L (r, d) such that L.T @ L is the covariance without its noise.

    Symmetric noise of deviation `noise` beside the diagonal has eigenvalues up to 2 * noise *
    sqrt(d): directions below that edge are dropped, and an eigenvalue v above it is shrunk to
    sqrt(v^2 - edge^2), which is best in squared error (spiked Wigner matrices; Donoho, Gavish and
    Johnstone 2018).
    """
    values, vectors = np.linalg.eigh(covariance)
    values, vectors = values[::-1], vectors[:, ::-1]
    edge = 2 * noise * len(values) ** 0.5
    found = int((values > max(EDGE_MARGIN * edge, 1e-12)).sum())
    kept = slice(0, found if rank is None else min(rank, found))
    lengths = np.sqrt(values[kept] ** 2 - edge**2) ** 0.5
    factor: Floats = lengths[:, None] * vectors[:, kept].T
    return factor


@dataclass(frozen=True, kw_only=True)
class Grain:
    """Random noise that may be painted on images once they are drawn and labelled.

    It stands for the variance that a model found and has no directions for.
    """

    deviation: float
    """Of a pixel, in units of full brightness."""
    block: int = 1
    """Pixels a side that are known together: grain is as large as those, and as soft."""
    uneven: bool = False
    """Whether its strength is drawn for each image, between 0 and 2: a classifier that learns from
    such images sees clean ones too, and cannot go by the noise."""

    def on(
        self, images: NDArray[np.float32], share: float, chance: torch.Generator
    ) -> NDArray[np.float32]:
        """Images (m, c, h, w) with a `share` of the deviation, cut to [0, 1]."""
        strength = share * self.deviation * torch.ones(len(images), 1, 1, 1)
        if self.uneven:
            strength *= 2 * torch.rand(strength.shape, generator=chance)
        noise = grains(images.shape, self.block, chance)
        return (torch.from_numpy(images) + strength * noise).clamp_(0, 1).numpy()


def grains(shape: tuple[int, ...], block: int, chance: torch.Generator) -> torch.Tensor:
    """Standard normal noise for images (m, c, h, w) of which blocks of pixels are known: as large
    as those, and as soft as what is known of them."""
    count, channels, height, width = shape
    drawn = torch.randn(count, channels, -(-height // block), -(-width // block), generator=chance)
    return torch.from_numpy(enlarged(drawn.numpy(), (channels, height, width)))


def enlarged(images: NDArray[np.float32], shape: tuple[int, int, int]) -> NDArray[np.float32]:
    """Block averages (n, c, h, w) as images of `shape`.

    Blocks may reach over the lower and right border.
    """
    height, width = images.shape[2:]
    side = max(-(-shape[1] // height), -(-shape[2] // width))
    if side > 1 and len(images):
        size = (side * height, side * width)
        small = torch.from_numpy(images)
        images = F.interpolate(small, size=size, mode="bilinear", align_corners=False).numpy()
    elif side > 1:
        return np.zeros((0, *shape), dtype=np.float32)
    return np.ascontiguousarray(images[:, :, : shape[1], : shape[2]])
