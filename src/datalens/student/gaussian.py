"""A Gaussian for each class, from noisy moments. Everything here comes after the release."""

from dataclasses import dataclass

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray

from datalens.errors import DataLensError

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]

EDGE_MARGIN = 1.02
"""An eigenvalue counts as signal beyond this multiple of the largest that noise alone has."""


@dataclass(frozen=True, kw_only=True)
class GaussianModel:
    """Class c's images are `means[c] + z @ factor + grain * e`, cut to [0, 1], z and e normal.

    The factor holds the directions that stand out of the noise. The variance that remains is
    spread evenly over all pixels as grain: a Gaussian has that variance too.
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

    def images(self, latents: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        """The images of latent vectors (m, at least rank), without grain.

        The first `rank` values count.
        """
        if latents.shape[1] < self.rank:
            raise DataLensError(
                f"The model has rank {self.rank}, more than the {latents.shape[1]} latent values."
            )
        moved = latents[:, : self.rank] @ torch.from_numpy(self.factor).flatten(1)
        means = torch.from_numpy(self.means).flatten(1)[labels]
        return (means + moved).clamp_(0, 1).view(-1, *self.shape)

    def sample(self, labels: Integers, generator: torch.Generator) -> NDArray[np.float32]:
        """One image for each label, (m, c, h, w) in [0, 1]."""
        latents = torch.randn(len(labels), self.rank, generator=generator)
        images = self.images(latents, torch.as_tensor(labels))
        return with_grain(images, self.grain, generator).numpy()

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


def with_grain(images: torch.Tensor, grain: float, generator: torch.Generator) -> torch.Tensor:
    """Images with normal noise of deviation `grain` on every pixel, cut to [0, 1]."""
    noise = torch.randn(images.shape, generator=generator)
    return (images + grain * noise).clamp_(0, 1)


def class_centres(sums: Integers, counts: Floats) -> Integers:
    """Noisy class means as pixel values 0..255: public, so records may be centred at them.

    What remains of a record is shorter than the record, so its second moments need less noise.
    """
    means = np.clip(sums / np.asarray(counts)[:, None], 0, 255)
    return np.rint(means).astype(np.int64)


def fit_gaussian(
    *,
    sums: Integers,
    second: Integers,
    counts: Floats,
    sums_sigma: float,
    second_sigma: float,
    grid: tuple[int, int, int],
    shape: tuple[int, int, int],
    rank: int | None = None,
) -> GaussianModel:
    """The model of noisy moments of records of `grid` values, for images of `shape`.

    `sums` (classes, d) are of pixels 0..255; `second` is the upper triangle, with its diagonal,
    of the second moments of the records less `class_centres`. `sums_sigma` and `second_sigma`
    are the noise on each entry, and `rank` the most directions to keep.
    """
    d = int(np.prod(grid))
    if sums.shape != (len(counts), d) or second.shape != (d * (d + 1) // 2,):
        raise DataLensError(
            f"Records of {d} values have sums of {d} and second moments of {d * (d + 1) // 2} "
            f"entries, got {sums.shape} and {second.shape}."
        )
    counts = np.asarray(counts, dtype=np.float64)
    means = shrunken_means(sums / counts[:, None], noise=sums_sigma / counts) / 255
    upper = np.zeros((d, d))
    upper[np.triu_indices(d)] = second / counts.sum() / 255**2
    covariance = upper + np.triu(upper, 1).T
    factor = low_rank_factor(covariance, second_sigma / counts.sum() / 255**2, rank)
    remaining = max(0.0, float(np.trace(covariance) - (factor**2).sum()))
    return GaussianModel(
        means=_resized(means, grid, shape),
        factor=_resized(factor, grid, shape),
        grain=(remaining / d) ** 0.5,
    )


def shrunken_means(means: Floats, *, noise: Floats) -> Floats:
    """Class means drawn towards their average, by as much as noise must have driven them apart.

    James-Stein: the squared distance a mean keeps is the one observed less what noise adds to it.
    """
    centre = means.mean(axis=0)
    apart = means - centre
    observed = (apart**2).sum(axis=1)
    added = means.shape[1] * noise**2
    kept = np.clip(1 - added / np.maximum(observed, 1e-300), 0, 1)
    return centre + kept[:, None] * apart


def low_rank_factor(covariance: Floats, noise: float, rank: int | None = None) -> Floats:
    """L (r, d) such that L.T @ L is the covariance without its noise.

    Symmetric noise of deviation `noise` has eigenvalues up to 2 * noise * sqrt(d): directions below
    that edge are dropped, and an eigenvalue v above it is shrunk to sqrt(v^2 - edge^2), which is
    best in squared error (spiked Wigner matrices; Donoho, Gavish and Johnstone 2018).
    """
    values, vectors = np.linalg.eigh(covariance)
    values, vectors = values[::-1], vectors[:, ::-1]
    edge = 2 * noise * len(values) ** 0.5
    found = int((values > max(EDGE_MARGIN * edge, 1e-12)).sum())
    kept = slice(0, found if rank is None else min(rank, found))
    lengths = np.sqrt(values[kept] ** 2 - edge**2) ** 0.5
    factor: Floats = lengths[:, None] * vectors[:, kept].T
    return factor


def _resized(
    rows: Floats, grid: tuple[int, int, int], shape: tuple[int, int, int]
) -> NDArray[np.float32]:
    """Rows of block averages as full images; blocks may reach over the lower and right border."""
    side = max(-(-shape[1] // grid[1]), -(-shape[2] // grid[2]))
    images = torch.from_numpy(rows).float().view(-1, *grid)
    if side > 1 and len(images):
        size = (side * grid[1], side * grid[2])
        images = F.interpolate(images, size=size, mode="bilinear", align_corners=False)
    return (
        images.reshape(-1, grid[0], side * grid[1], side * grid[2])[:, :, : shape[1], : shape[2]]
        .contiguous()
        .numpy()
    )
