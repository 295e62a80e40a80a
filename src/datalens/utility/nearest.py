"""How near synthetic images lie to the records that a generator learned from.

Nearer than other people's records do would mean that records are copied. That they are not proves
nothing. Computed on real records, so the figures stay internal.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.metrics import pairwise_distances_argmin_min

from datalens.classifiers.simple import subset

Images = NDArray[np.uint8]

ASKED = 2_000
"""Images of each kind whose nearest record is looked for."""
ROWS = 5_000
"""Training records that are turned into numbers at a time: a quarter of a gigabyte at 3x64x64."""
PERCENTILES = (1, 5, 25, 50, 75, 95, 99)


@dataclass(frozen=True, kw_only=True)
class Nearest:
    """Euclidean distances in pixels of [0, 1] to the nearest training record, as percentiles."""

    synthetic: dict[str, float]
    held_out: dict[str, float]
    """The same of records that were not trained on: what no copying looks like."""
    nearer_than_held_out: float
    """Share of synthetic images that are nearer than the nearest hundredth of held-out records:
    0.01 where both are alike."""
    copies: int
    """Synthetic images that are a training record, pixel for pixel."""
    asked: tuple[int, int]
    """Synthetic images and held-out records."""
    train: int

    def to_json(self) -> dict[str, Any]:
        return {
            "synthetic": self.synthetic,
            "held_out": self.held_out,
            "nearer_than_held_out": self.nearer_than_held_out,
            "copies": self.copies,
            "synthetic_images": self.asked[0],
            "held_out_images": self.asked[1],
            "training_images": self.train,
        }


def nearest(
    *, synthetic: Images, held_out: Images, train: Images, seed: int = 0, rows: int = ROWS
) -> Nearest:
    """Compare synthetic images and held-out records by their distance to training records."""
    chosen = [each[subset(len(each), ASKED, seed)] for each in (synthetic, held_out)]
    asked = np.concatenate(chosen)
    distances, found = _closest(asked, train, rows)
    same = (train[found] == asked).all((1, 2, 3))
    distances[same] = 0  # they are rounded, pixels are not
    ours, theirs = np.split(distances, [len(chosen[0])])
    return Nearest(
        synthetic=_percentiles(ours),
        held_out=_percentiles(theirs),
        nearer_than_held_out=float((ours < np.percentile(theirs, 1)).mean()),
        copies=int(same[: len(ours)].sum()),
        asked=(len(ours), len(theirs)),
        train=len(train),
    )


def _closest(
    asked: Images, train: Images, rows: int
) -> tuple[NDArray[np.floating], NDArray[np.intp]]:
    """Distance and position of the nearest record, looked for among so many records at a time."""
    places = _flat(asked)
    distances = np.full(len(asked), np.inf, dtype=np.float32)
    found = np.zeros(len(asked), dtype=np.intp)
    for start in range(0, len(train), rows):
        part = _flat(train[start : start + rows])
        which, far = pairwise_distances_argmin_min(places, part)
        nearer = far < distances
        distances[nearer], found[nearer] = far[nearer], start + which[nearer]
    return distances, found


def _flat(images: Images) -> NDArray[np.float32]:
    return np.divide(images.reshape(len(images), -1), 255, dtype=np.float32)


def _percentiles(distances: NDArray[np.floating]) -> dict[str, float]:
    found = np.percentile(distances, PERCENTILES)
    return {str(name): float(value) for name, value in zip(PERCENTILES, found, strict=True)}
