"""Sums over clusters of records: where each cluster lies, how large it is, how it spreads."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from datalens.errors import DataLensError
from datalens.mechanism.events import GaussianRelease, positive
from datalens.mechanism.noise import LARGEST, Integers
from datalens.mechanism.sums import NoisySum, OuterProducts


@dataclass(frozen=True, kw_only=True)
class ClusterSums(NoisySum):
    """For each cluster the sum of its records' rows, and `weight` for each record it has.

    A row says where a record lies, seen from the centre of its cluster, in integers. Centres are
    public: earlier releases gave them.

    Guarantee: a record belongs to one cluster, and its row has norm at most `bound`, which is
    checked. Blanked, it takes a vector of squared norm bound^2 + weight^2 away at most. Replaced
    by a record of another cluster, it moves two sums that far each. By one of the same cluster, the
    weights cancel, and the rows are at most 2 `bound` apart.
    """

    bound: int
    weight: int
    n_clusters: int
    sigma: float

    def __post_init__(self) -> None:
        positive(bound=self.bound, weight=self.weight, n_clusters=self.n_clusters)

    @property
    def event(self) -> GaussianRelease:
        squared = self.bound**2 + self.weight**2
        return GaussianRelease(
            what="cluster-sums",
            squared_sensitivity=squared,
            squared_sensitivity_replace=max(4 * self.bound**2, 2 * squared),
            sigma=self.sigma,
        )

    @property
    def parameters(self) -> dict[str, int]:
        """What the sensitivity follows from."""
        return {"bound": self.bound, "weight": self.weight}

    def query(self, rows: Integers, clusters: Integers) -> Integers:
        """From rows (n, r) and the cluster of each record: (n_clusters, r + 1)."""
        _check(rows, self.bound)
        sums = np.zeros((self.n_clusters, rows.shape[1] + 1), dtype=np.int64)
        np.add.at(sums[:, :-1], clusters, rows)
        np.add.at(sums[:, -1], clusters, self.weight)
        return sums


@dataclass(frozen=True, kw_only=True)
class ClusterMoments(OuterProducts):
    """The sum of q q^T over all records, q a row seen from the centre of its cluster.

    Guarantee: that of sums of outer products; q has norm at most `bound`, which is checked.
    """

    what: ClassVar[str] = "cluster-moments"
    bound: int
    sigma: float

    def __post_init__(self) -> None:
        positive(bound=self.bound)

    def query(self, rows: Integers) -> Integers:
        """From rows (n, r): the r (r + 1) / 2 entries of the triangle."""
        _check(rows, self.bound)
        if len(rows) * self.bound**2 >= LARGEST:
            raise DataLensError(f"{len(rows)} records are too many for exact second moments.")
        values = rows.astype(np.float64)  # exact: all sums are integers below 2^52
        return self._triangle(values.T @ values)


def on_grid(places: NDArray[np.floating], *, unit: float, bound: int) -> Integers:
    """Rows of integers, `bound` of which make a `unit`; a row longer than that is shortened."""
    places = np.asarray(places, dtype=np.float64)
    if not np.isfinite(places).all():
        raise ArithmeticError("a record is nowhere")
    lengths = np.sqrt((places * places).sum(axis=1, keepdims=True))
    rows = places * (bound / np.maximum(lengths * (1 + 1e-9), unit))
    grid: Integers = np.trunc(rows).astype(np.int64)  # towards zero: no row becomes longer
    return grid


def _check(rows: Integers, bound: int) -> None:
    if not rows.size:
        return
    farthest = max(int(rows.max()), -int(rows.min()))  # Python's integers, which do not overflow
    if farthest > bound or int((rows * rows).sum(axis=1).max()) > bound**2:
        raise ArithmeticError("a record is longer than its bound")
