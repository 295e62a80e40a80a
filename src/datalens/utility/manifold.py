"""Precision, recall, density and coverage: how well synthetic images lie where real ones do.

Precision and recall after Kynkaanniemi et al. (2019), density and coverage after Naeem et al.
(2020). A set's manifold is the union of balls, one around each image's features, that reach to its
fifth nearest neighbour in the same set.
"""

from dataclasses import asdict, dataclass

import numpy as np
from numpy.typing import NDArray
from sklearn.metrics import pairwise_distances_chunked
from sklearn.neighbors import NearestNeighbors

from datalens.errors import DataLensError

Floats = NDArray[np.float64]

NEIGHBOURS = 5
ROUNDING = 1e-7
"""Of the largest norm: how exact a distance between features is known to be."""


@dataclass(frozen=True, kw_only=True)
class Prdc:
    precision: float
    """Share of synthetic images in the real manifold."""
    recall: float
    """Share of real images in the synthetic manifold; outliers can make it large."""
    density: float
    """Real balls that a synthetic image lies in, over the neighbours that make them: about 1 where
    both are alike, and it may exceed 1."""
    coverage: float
    """Share of real balls with a synthetic image in them."""

    def to_json(self) -> dict[str, float]:
        return asdict(self)


def prdc(real: Floats, synthetic: Floats, *, neighbours: int = NEIGHBOURS) -> Prdc:
    """Of features (n, d) and (m, d). Distances are Euclidean, and a ball has its rim."""
    if min(len(real), len(synthetic)) <= neighbours:
        raise DataLensError(
            f"Precision and recall need more than {neighbours} images of each kind, got"
            f" {len(real)} real and {len(synthetic)} synthetic ones."
        )
    rim = ROUNDING * max(np.linalg.norm(each, axis=1).max() for each in (real, synthetic))
    reach, own_reach = (_reach(each, neighbours) + rim for each in (real, synthetic))
    balls = np.zeros(len(synthetic))  # real balls that each synthetic image lies in
    recalled, covered = np.zeros(len(real), bool), np.zeros(len(real), bool)
    row = 0
    for distances in pairwise_distances_chunked(real, synthetic):
        rows = slice(row, row + len(distances))
        inside = distances <= reach[rows, None]
        balls += inside.sum(0)
        covered[rows] = inside.any(1)
        recalled[rows] = (distances <= own_reach).any(1)
        row += len(distances)
    return Prdc(
        precision=float((balls > 0).mean()),
        recall=float(recalled.mean()),
        density=float(balls.mean() / neighbours),
        coverage=float(covered.mean()),
    )


def _reach(points: Floats, neighbours: int) -> Floats:
    """How far away the k-th nearest other point is."""
    search = NearestNeighbors(n_neighbors=neighbours).fit(points)
    reach: Floats = search.kneighbors()[0][:, -1]  # of each point, itself left out
    return reach
