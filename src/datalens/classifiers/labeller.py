"""A classifier that is bought: it says what a synthetic image shows.

Softmax regression on fixed features, trained by gradient descent on all records at once, with noise
on every gradient. Once bought it is public, and labels as many images as one likes.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from datalens.classifiers.features import BOUND, features, n_features
from datalens.data import PublicFacts, Records
from datalens.errors import DataLensError
from datalens.mechanism.gradients import GradientSums
from datalens.mechanism.noise import Integers
from datalens.privacy.accountants import Charge
from datalens.privacy.calibration import sigma_for
from datalens.privacy.releases import Door

RESIDUALS = 256
"""Grid steps of a residual, and its largest norm."""
LEARNING_RATE, MOMENTUM = 20.0, 0.9
"""The rate is that of up to 100 steps; who takes more has little noise, and goes faster."""
FEWEST_STEPS, MOST_STEPS, LEAST_BORNE = 20, 200, 5
LEAST_BORNE = 5
TOLERABLE_NOISE = 1.5e-3
"""Noise on the mean gradient, as a share of its bound, that steps are added up to."""

_CHUNK = 8192


def steps_borne(rho: float, public: PublicFacts) -> int:
    """As many steps as the noise bears, from public facts and the budget.

    0 if it bears so few that labels would be worse than those that images were drawn with.
    """
    borne = 2 * rho * (TOLERABLE_NOISE * public.n_records) ** 2
    return max(FEWEST_STEPS, int(min(MOST_STEPS, borne))) if borne >= LEAST_BORNE else 0


@dataclass(frozen=True, kw_only=True)
class LabellerPlan:
    """How many noisy gradients to buy, and at what noise: from public facts and the budget."""

    public: PublicFacts
    gradients: GradientSums
    steps: int

    @classmethod
    def within(cls, rho: float, *, public: PublicFacts, steps: int | None = None) -> "LabellerPlan":
        """As many steps as the noise bears, if not said, at the least noise `rho` allows."""
        steps = steps or steps_borne(rho, public) or FEWEST_STEPS
        sigma = sigma_for(rho / steps, (BOUND * RESIDUALS) ** 2)
        mechanism = GradientSums(features=BOUND, residuals=RESIDUALS, sigma=sigma)
        return cls(public=public, gradients=mechanism, steps=steps)

    @property
    def charges(self) -> list[Charge]:
        return self.charges_after(self.steps)

    def charges_after(self, steps: int) -> list[Charge]:
        """What is paid when so many gradients have been bought."""
        return [Charge(event=self.gradients.event, count=steps)]

    @property
    def parameters(self) -> dict[str, dict[str, int]]:
        """What the sensitivity follows from."""
        return {"gradient-sums": self.gradients.parameters}

    def buy(
        self,
        records: Records,
        releases: Door,
        progress: Callable[[int, int], None] = lambda done, total: None,
    ) -> "Labeller":
        """Descend along noisy gradients. One that a crash has lost is passed over."""
        seen: list[NDArray[np.int16]] = []

        def query() -> Integers:  # features are computed when they are first asked for
            if not seen:
                seen.append(features(records.images))
            now = Labeller(weights=weights)
            return self.gradients.query(seen[0], now.residuals(seen[0], records.labels))

        weights = np.zeros((n_features(self.public.shape[0]), self.public.n_classes))
        speed = np.zeros_like(weights)
        rate = LEARNING_RATE * min(max(self.steps, 100), MOST_STEPS) / 100
        scale = BOUND * RESIDUALS * self.public.n_records
        for step in range(self.steps):
            release = releases.obtain(
                f"gradients/{step}", self.gradients, query, shape=weights.shape
            )
            if release is not None:
                speed = MOMENTUM * speed + release / scale
                weights = weights - rate * speed
            progress(step + 1, self.steps)
        return Labeller(weights=weights)


@dataclass(frozen=True, kw_only=True)
class Labeller:
    """A linear classifier on fixed features. Public."""

    weights: NDArray[np.float64]
    """(n_features, classes)."""

    @classmethod
    def from_arrays(
        cls, arrays: dict[str, NDArray[np.float32]], *, channels: int, n_classes: int
    ) -> "Labeller":
        """Read back from a file, if it fits."""
        shape = (n_features(channels), n_classes)
        if set(arrays) != {"weights"} or arrays["weights"].shape != shape:
            raise DataLensError(f"its labeller must have weights of the shape {shape}.")
        return cls(weights=arrays["weights"].astype(np.float64))

    def label(
        self, images: NDArray[np.uint8], drawn_as: NDArray[np.int64], *, weight: float
    ) -> NDArray[np.int64]:
        """What each image shows; the class it was drawn as has `weight` nats more of a say."""
        scores = self._scores(features(images))
        scores[np.arange(len(scores)), drawn_as] += weight
        return np.argmax(scores, axis=1).astype(np.int64)

    def residuals(self, x: NDArray[np.int16], labels: NDArray[np.int64]) -> NDArray[np.int16]:
        """How wrong each record's label is held to be: integers, of norm at most RESIDUALS.

        Each row depends on its own record alone. One longer than 1 is shortened: a record whose
        label we are sure is wrong counts no more than one we know nothing of.
        """
        found = []
        for start in range(0, len(x), _CHUNK):
            scores = self._scores(x[start : start + _CHUNK])
            likely = np.exp(scores - scores.max(axis=1, keepdims=True))
            likely /= likely.sum(axis=1, keepdims=True)
            likely[np.arange(len(likely)), labels[start : start + _CHUNK]] -= 1
            length = np.sqrt((likely**2).sum(axis=1, keepdims=True))
            likely /= np.maximum(length, 1 + 1e-9)
            found.append(np.trunc(likely * RESIDUALS).astype(np.int16))
        return np.concatenate(found)

    def _scores(self, x: NDArray[np.int16]) -> NDArray[np.float64]:
        scores: NDArray[np.float64] = (
            x.astype(np.float32) @ self.weights.astype(np.float32)
        ) / BOUND
        return scores.astype(np.float64)
