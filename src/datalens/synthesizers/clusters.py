"""Buying clusters within each class: a noisy k-means among the directions that records vary in."""

from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray

from datalens.data import PublicFacts, Records
from datalens.mechanism.clusters import ClusterMoments, ClusterSums, on_grid
from datalens.mechanism.noise import Integers
from datalens.privacy.accountants import Charge
from datalens.privacy.calibration import sigma_for
from datalens.privacy.releases import Door
from datalens.student.gaussian import GaussianModel
from datalens.student.mixture import MixtureModel
from datalens.synthesizers.moments import block_side, coarse

Floats = NDArray[np.float64]

ROUNDS = 3
MOMENTS_SHARE = 0.15
"""Share of the budget that buys how clusters spread; the rest is for the rounds."""
BOUND = 1024
"""Grid steps of the longest row."""
WEIGHT = BOUND // 2
SUMS_REACH, MOMENTS_REACH = 0.5, 1.0
"""The longest row, as a share of the root mean square length of all records in the basis."""
FIRST_SPREAD, NEW_SPREAD = 0.7, 0.3
"""How far centres first lie from the mean, and new ones from an old one, in the data's spread."""
FEWEST_CLUSTERS, MOST_CLUSTERS = 10, 200
"""In a class: fewer are not worth what they take from the moments."""
CLEAR = 8.0
"""Records of a cluster, as a multiple of the noise on their number, that clusters are added to."""
DISTANCES = 2**23
"""Between records and centres, computed at a time."""


@dataclass(frozen=True, kw_only=True)
class ClusterPlan:
    """How many clusters in each class, and at what noise: from public facts and the budget."""

    public: PublicFacts
    clusters: int
    """In each class."""
    sums: ClusterSums
    moments: ClusterMoments

    @classmethod
    def within(
        cls, rho: float, *, public: PublicFacts, clusters: int | None = None
    ) -> "ClusterPlan":
        """As many clusters as the noise bears, if not said, at the least noise `rho` allows."""
        each, squared = rho * (1 - MOMENTS_SHARE) / ROUNDS, BOUND**2 + WEIGHT**2
        sigma = sigma_for(each, squared)
        if clusters is None:
            a_class = public.n_records / public.n_classes
            borne = int(a_class / (CLEAR * sigma / WEIGHT))
            clusters = min(MOST_CLUSTERS, borne) if borne >= FEWEST_CLUSTERS else 1
        return cls(
            public=public,
            clusters=clusters,
            sums=ClusterSums(
                bound=BOUND, weight=WEIGHT, n_clusters=clusters * public.n_classes, sigma=sigma
            ),
            moments=ClusterMoments(
                bound=BOUND,
                sigma=sigma_for(rho * MOMENTS_SHARE, ClusterMoments.squared_sensitivity(BOUND)),
            ),
        )

    @property
    def charges(self) -> list[Charge]:
        return [
            Charge(event=self.sums.event, count=ROUNDS),
            Charge(event=self.moments.event, count=1),
        ]

    @property
    def parameters(self) -> dict[str, dict[str, int]]:
        """What the sensitivities follow from."""
        return {
            "cluster-sums": self.sums.parameters,
            "cluster-moments": self.moments.parameters,
        }

    def buy(
        self, records: Records, releases: Door, model: GaussianModel, chance: torch.Generator
    ) -> MixtureModel:
        """The mixture that a bought Gaussian is refined to. A round that a crash lost is passed
        over; with the spread lost, clusters spread as their class does."""
        found = _Clusters(records, model, self.clusters, chance)
        for round_ in range(ROUNDS):
            release = releases.obtain(
                f"clusters/{round_}",
                self.sums,
                lambda: self.sums.query(*found.rows(SUMS_REACH)),
                shape=(self.sums.n_clusters, model.rank + 1),
            )
            if release is not None:
                found.move(release, sigma=self.sums.sigma, last=round_ == ROUNDS - 1)
        found.drop_empty()
        triangle = releases.obtain(
            "cluster-moments",
            self.moments,
            lambda: self.moments.query(found.rows(MOMENTS_REACH)[0]),
            shape=(model.rank * (model.rank + 1) // 2,),
        )
        unit = MOMENTS_REACH * found.reach / BOUND
        factor = (
            np.diag(found.lengths)
            if triangle is None
            else spread_of(
                self.moments.matrix(triangle) * unit**2 / self.public.n_records,
                noise=self.moments.deviation * unit**2 / self.public.n_records,
            )
        )
        return MixtureModel(
            means=model.means,
            basis=found.basis.reshape(model.factor.shape).astype(np.float32),
            centres=found.centres.astype(np.float32),
            shares=found.shares.astype(np.float32),
            factor=factor.astype(np.float32),
            grain=model.grain,
        )


class _Clusters:
    """Centres in the model's own directions. Public, but for what `rows` returns."""

    def __init__(
        self, records: Records, model: GaussianModel, clusters: int, chance: torch.Generator
    ) -> None:
        factor = model.factor.reshape(model.rank, model.means[0].size).astype(np.float64)
        self.lengths = np.sqrt((factor**2).sum(axis=1))
        self.basis = factor / self.lengths[:, None]
        self.reach = float(np.sqrt((self.lengths**2).sum())) or 1.0
        self.chance, self.model, self.records = chance, model, records
        classes = len(model.means)
        self.centres = FIRST_SPREAD * self._normal(classes, clusters) * self.lengths
        self.shares = np.full((classes, clusters), 1 / clusters)

    def rows(self, reach: float) -> tuple[Integers, Integers]:
        """Private: where each record lies, seen from its nearest centre, and in which cluster.

        A record can only belong to a cluster of its own class, and to one that is not empty.

        Guarantee: what is said of a record depends on that record alone, and on what is public.
        """
        labels, (classes, clusters, rank) = self.records.labels, self.centres.shape
        centres = self.centres.reshape(classes * clusters, rank)
        squares = np.where(self.shares.ravel() > 0, (centres**2).sum(axis=1), np.inf)
        nearest = np.empty(len(labels), dtype=np.int64)
        away = np.empty((len(labels), rank), dtype=np.float64)
        chunk = max(1, DISTANCES // (classes * clusters))
        for start in range(0, len(labels), chunk):  # rounding depends on a record's position alone
            part = slice(start, start + chunk)
            places = self._places_of(part)
            distances = (squares - 2 * places @ centres.T).reshape(-1, classes, clusters)
            own = distances[np.arange(len(places)), labels[part]]
            nearest[part] = labels[part] * clusters + own.argmin(axis=1)
            away[part] = places - centres[nearest[part]]
        rows = on_grid(away, unit=reach * self.reach, bound=BOUND)
        return rows, nearest

    def move(self, release: Integers, *, sigma: float, last: bool) -> None:
        """Every centre goes to the middle of its records, as far as that is more than noise.

        One with too few records to tell starts again beside a fuller one, or is empty at last.
        """
        sums = release.reshape(*self.shares.shape, len(self.lengths) + 1).astype(np.float64)
        counts = sums[..., -1] / WEIGHT
        unit = SUMS_REACH * self.reach / BOUND
        certain = counts > 2 * sigma / WEIGHT
        steps = sums[..., :-1] * unit / np.maximum(counts, 1)[..., None]
        noise = steps.shape[-1] * (sigma * unit / np.maximum(counts, 1)) ** 2
        squared = np.maximum((steps**2).sum(axis=-1), 1e-300)
        kept = np.where(certain, np.clip(1 - noise / squared, 0, 1), 0)
        self.centres = self.centres + kept[..., None] * steps
        counts = np.where(certain, counts, 0)
        counts[counts.sum(axis=1) == 0] = 1  # nothing is certain: all stay as they were
        self.shares = counts / counts.sum(axis=1, keepdims=True)
        if last:
            return
        for c, k in np.argwhere(self.shares == 0):
            shares = torch.from_numpy(self.shares[c])
            fuller = int(torch.multinomial(shares, 1, generator=self.chance))
            beside = NEW_SPREAD * self._normal(1, 1)[0, 0] * self.lengths
            self.centres[c, k] = self.centres[c, fuller] + beside
        self.shares = np.full(self.shares.shape, 1 / self.shares.shape[1])

    def drop_empty(self) -> None:
        self.centres[self.shares == 0] = 0

    def _places_of(self, part: slice) -> Floats:
        """Private: these records in the model's directions, less the mean of their class."""
        pixels = coarse(self.records.images[part], block_side(self.records.public.shape))
        means = self.model.means.reshape(len(self.model.means), -1).astype(np.float64)
        away = pixels.reshape(len(pixels), -1) / 255 - means[self.records.labels[part]]
        places: Floats = away @ self.basis.T
        return places

    def _normal(self, *size: int) -> Floats:
        drawn = torch.randn(*size, len(self.lengths), generator=self.chance, dtype=torch.float64)
        return drawn.numpy()


def spread_of(covariance: Floats, *, noise: float) -> Floats:
    """The factor of a covariance with noise of the deviation `noise` beside the diagonal.

    Of a direction that noise hides we know that it varies by less than the noise does, and let it
    vary by a quarter.
    """
    values, vectors = np.linalg.eigh(covariance)
    least = noise * len(values) ** 0.5 / 2  # a quarter of the largest eigenvalue of noise alone
    factor: Floats = (vectors * np.sqrt(np.maximum(values, least))).T
    return factor
