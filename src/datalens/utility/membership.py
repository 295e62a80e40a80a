"""Membership inference on published samples: can one tell who was in the training data?

Computed on real records, so the figures stay internal. They prove nothing, since better attacks
may exist; but a generator that copies its records shows here.
"""

from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.stats import beta, norm, rankdata
from sklearn.decomposition import PCA
from sklearn.neighbors import KernelDensity, NearestNeighbors

from datalens.classifiers.simple import subset
from datalens.errors import DataLensError

Images = NDArray[np.uint8]
Floats = NDArray[np.float64]

ERROR = 0.05
"""Both intervals hold with 95 %."""
FALSE_ALARMS = 0.01
COMPONENTS = 8
"""Directions in which densities are estimated; in more, kernels see nothing."""
FEWEST = 100
ASKED, REFERENCE, SYNTHETIC = 2_000, 5_000, 10_000
"""Records of each kind that are asked about, further ones that were not seen, and samples: at
most."""


@dataclass(frozen=True, kw_only=True)
class Membership:
    """How well one attack tells members from others. An AUC of 0.5 is a blind guess."""

    attack: str
    auc: float
    auc_interval: tuple[float, float]
    hits_at_one_percent: float
    """Share of members found, at a threshold that one other record in a hundred passes."""
    hits_interval: tuple[float, float]
    members: int
    others: int
    control_auc: float | None = None
    """Of the same attack on further training records in place of the samples. What it finds there
    is no membership but a difference between training records and others."""

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


def membership(
    *, members: Images, others: Images, reference: Images, synthetic: Images
) -> list[Membership]:
    """Two attacks on synthetic images. `reference` are further records that were not members."""
    groups = (members, others, reference, synthetic)
    if min(map(len, groups)) < FEWEST:
        raise DataLensError(f"Membership inference needs {FEWEST} records or more of each kind.")
    if len({group.shape[1:] for group in groups}) > 1:
        raise DataLensError("The synthetic images and the records are of different shapes.")
    member, other, near, drawn = (group.reshape(len(group), -1) / 255.0 for group in groups)
    asked = np.concatenate([member, other])
    scores = {
        "nearest neighbour": nearest_neighbour(asked, drawn),
        "density ratio": density_ratio(asked, drawn, near),
    }
    return [
        judged(name, score[: len(member)], score[len(member) :]) for name, score in scores.items()
    ]


def attacked(
    synthetic: Images, train: Images, unseen: Images, *, seed: int = 0
) -> list[Membership]:
    """The attacks on some of the training records, and on records that were not trained on.

    With a control: the rest of the training records, as if they were samples. They know nothing of
    the members but what all training records have in common.
    """
    chance = np.random.default_rng(seed)
    members, others = (chance.permutation(len(group)) for group in (train, unseen))
    asked, beside = (min(ASKED, len(group) // 2) for group in (train, unseen))
    groups = {
        "members": train[members[:asked]],
        "others": unseen[others[:beside]],
        "reference": unseen[others[beside : beside + REFERENCE]],
    }
    samples = synthetic[subset(len(synthetic), SYNTHETIC, seed)]
    further = train[members[asked : asked + SYNTHETIC]]
    found, control = (membership(**groups, synthetic=each) for each in (samples, further))
    return [
        replace(attack, control_auc=same.auc) for attack, same in zip(found, control, strict=True)
    ]


def nearest_neighbour(asked: Floats, synthetic: Floats) -> Floats:
    """The closer a record lies to a synthetic image, the likelier it was seen."""
    search = NearestNeighbors(n_neighbors=1, algorithm="brute").fit(synthetic)
    distances: Floats = search.kneighbors(asked)[0][:, 0]
    return -distances


def density_ratio(asked: Floats, synthetic: Floats, reference: Floats) -> Floats:
    """Log density of synthetic images less that of records which were not seen (DOMIAS)."""
    parts = min(COMPONENTS, asked.shape[1])
    space = PCA(parts, whiten=True, svd_solver="full").fit(reference)
    density = [
        KernelDensity(bandwidth="scott").fit(space.transform(group)).score_samples
        for group in (synthetic, reference)
    ]
    places = space.transform(asked)
    ratio: Floats = density[0](places) - density[1](places)
    return ratio


def judged(name: str, inside: Floats, outside: Floats) -> Membership:
    """The figures of one attack's scores, with intervals."""
    auc, spread = _auc(inside, outside)
    reach = float(norm.ppf(1 - ERROR / 2)) * spread
    hits = int((inside > np.quantile(outside, 1 - FALSE_ALARMS, method="higher")).sum())
    return Membership(
        attack=name,
        auc=auc,
        auc_interval=(max(0.0, auc - reach), min(1.0, auc + reach)),
        hits_at_one_percent=hits / len(inside),
        hits_interval=_clopper_pearson(hits, len(inside)),
        members=len(inside),
        others=len(outside),
    )


def _auc(inside: Floats, outside: Floats) -> tuple[float, float]:
    """Mann and Whitney's statistic, ties counting half, and its deviation (DeLong et al. 1988)."""
    ranks = rankdata(np.concatenate([inside, outside]))
    n, m = len(inside), len(outside)
    beaten = (ranks[:n] - rankdata(inside)) / m  # share of the others below each member
    beating = 1 - (ranks[n:] - rankdata(outside)) / n
    variance = beaten.var(ddof=1) / n + beating.var(ddof=1) / m
    return float(beaten.mean()), float(np.sqrt(variance))


def _clopper_pearson(hits: int, n: int) -> tuple[float, float]:
    low = float(beta.ppf(ERROR / 2, hits, n - hits + 1)) if hits else 0.0
    high = float(beta.ppf(1 - ERROR / 2, hits + 1, n - hits)) if hits < n else 1.0
    return low, high
