"""Several Gaussians for each class. Everything here comes after the release."""

import math
from dataclasses import dataclass, replace

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from datalens.errors import DataLensError
from datalens.student.gaussian import GaussianModel, enlarged

NAMES = ("means", "basis", "centres", "shares", "factor", "grain")


@dataclass(frozen=True, kw_only=True)
class MixtureModel:
    """Class c's images are `means[c] + place @ basis`, cut to [0, 1]; a place is drawn from one of
    the class's clusters, as `centres[c, k] + z @ factor` with z normal.

    All clusters spread alike, so that how an image is blurred or grained says nothing of its class:
    a classifier that learns from such images has only their shapes to go by.
    """

    means: NDArray[np.float32]
    """(classes, c, h, w), in units of full brightness."""
    basis: NDArray[np.float32]
    """(rank, c, h, w)."""
    centres: NDArray[np.float32]
    """(classes, clusters, rank)."""
    shares: NDArray[np.float32]
    """(classes, clusters): how much of its class a cluster has; they add up to 1."""
    factor: NDArray[np.float32]
    """(rank, rank): how a cluster spreads."""
    grain: float
    """Standard deviation of a pixel beyond what the basis shows."""

    @classmethod
    def of(cls, model: GaussianModel) -> "MixtureModel":
        """One cluster for each class."""
        rank, classes = model.rank, len(model.means)
        return cls(
            means=model.means,
            basis=model.factor,
            centres=np.zeros((classes, 1, rank), dtype=np.float32),
            shares=np.ones((classes, 1), dtype=np.float32),
            factor=np.eye(rank, dtype=np.float32),
            grain=model.grain,
        )

    @property
    def rank(self) -> int:
        return len(self.basis)

    def deviations(self) -> NDArray[np.float32]:
        """(rank,): how much places vary in each direction, over all classes."""
        between = (self.shares[..., None] * self.centres**2).sum(axis=1).mean(axis=0)
        return np.sqrt(np.maximum(between + (self.factor**2).sum(axis=0), 1e-12))

    def places(self, labels: Tensor, chance: torch.Generator, *, spread: float = 1.0) -> Tensor:
        """A place (m, rank) for each label; clusters `spread` times as wide as they were found."""
        shares = torch.from_numpy(self.shares)[labels]
        clusters = torch.multinomial(shares, 1, replacement=True, generator=chance)[:, 0]
        away = torch.randn(len(labels), self.rank, generator=chance)
        centres = torch.from_numpy(self.centres)[labels, clusters]
        return centres + spread * away @ torch.from_numpy(self.factor)

    def images(self, places: Tensor, labels: Tensor) -> Tensor:
        """The images at these places, (m, c, h, w) in [0, 1], without grain."""
        moved = places @ torch.from_numpy(self.basis).flatten(1)
        means = torch.from_numpy(self.means).flatten(1)[labels]
        return (means + moved).clamp_(0, 1).view(-1, *self.means.shape[1:])

    def enlarged(self, shape: tuple[int, int, int]) -> "MixtureModel":
        """The same model for images of `shape`, of which this one's are block averages."""
        return replace(self, means=enlarged(self.means, shape), basis=enlarged(self.basis, shape))

    def arrays(self) -> dict[str, NDArray[np.float32]]:
        found = {name: getattr(self, name) for name in NAMES if name != "grain"}
        return {**found, "grain": np.array([self.grain], dtype=np.float32)}

    @classmethod
    def from_arrays(
        cls,
        arrays: dict[str, NDArray[np.float32]],
        *,
        shape: tuple[int, int, int],
        n_classes: int,
        clusters: int,
    ) -> "MixtureModel":
        """The inverse of `arrays`, if they fit together."""
        if set(arrays) != set(NAMES):
            raise DataLensError(f"its arrays must be {', '.join(NAMES)}.")
        rank = len(arrays["basis"])
        shapes = {
            "means": (n_classes, *shape),
            "basis": (rank, *shape),
            "centres": (n_classes, clusters, rank),
            "shares": (n_classes, clusters),
            "factor": (rank, rank),
            "grain": (1,),
        }
        wrong = [name for name in NAMES if arrays[name].shape != shapes[name]]
        if wrong:
            raise DataLensError(f"its {wrong[0]} must be of the shape {shapes[wrong[0]]}.")
        if rank > math.prod(shape) or not 0 <= arrays["grain"][0] <= 1:
            raise DataLensError("it has more directions than pixels, or an impossible grain.")
        shares = arrays["shares"]
        if (shares < 0).any() or not np.allclose(shares.sum(axis=1), 1, atol=1e-3):
            raise DataLensError("the shares of a class's clusters must add up to 1.")
        values = {name: arrays[name] for name in NAMES if name != "grain"}
        return cls(**values, grain=float(arrays["grain"][0]))
