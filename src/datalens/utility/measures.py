"""How synthetic images look beside real ones: Inception Score, FID, precision and recall.

The real ones are records that neither the generator nor the domain classifier has seen. All
figures come from real records, so they stay internal.
"""

from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from datalens.classifiers.simple import subset
from datalens.utility.domain import DomainClassifier
from datalens.utility.frechet import Frechet, frechet
from datalens.utility.inception_score import inception_score
from datalens.utility.manifold import NEIGHBOURS, Prdc, prdc

Images = NDArray[np.uint8]

MEASURED_IMAGES = 10_000
"""Of each kind, at most."""


class Features(Protocol):
    """Where distances between images are taken."""

    @property
    def name(self) -> str: ...

    def features(self, images: Images, /) -> NDArray[np.float64]: ...


@dataclass(frozen=True, kw_only=True)
class Measures:
    """The figures, and how many images they come from."""

    inception_score: float
    """By the domain classifier, always."""
    frechet: Frechet
    prdc: Prdc
    features: str
    dimensions: int
    synthetic_images: int
    real_images: int

    @property
    def fid(self) -> float:
        return self.frechet.distance

    def to_json(self) -> dict[str, Any]:
        return {
            "inception_score": self.inception_score,
            "fid": self.fid,
            "fid_infinite": self.frechet.infinite,
            "fid_images": self.frechet.images,
            "prdc": self.prdc.to_json(),
            "neighbours": NEIGHBOURS,
            "features": self.features,
            "dimensions": self.dimensions,
            "synthetic_images": self.synthetic_images,
            "real_images": self.real_images,
        }


def measured(
    synthetic: Images,
    real: Images,
    domain: DomainClassifier,
    *,
    features: Features | None = None,
    at_most: int = MEASURED_IMAGES,
    seed: int = 0,
) -> Measures:
    """Of at most so many images of each kind, drawn by the seed; `features` are the domain's
    unless given."""
    drawn, held = (each[subset(len(each), at_most, seed)] for each in (synthetic, real))
    space = features or domain
    ours, theirs = space.features(drawn), space.features(held)
    return Measures(
        inception_score=inception_score(domain.probabilities(drawn)),
        frechet=frechet(ours, theirs, seed=seed),
        prdc=prdc(theirs, ours),
        features=space.name,
        dimensions=ours.shape[1],
        synthetic_images=len(drawn),
        real_images=len(held),
    )
