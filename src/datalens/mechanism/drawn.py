"""The gradient of one critic out of many, and what it costs that nobody knows which."""

from dataclasses import dataclass

import numpy as np

from datalens.mechanism.events import SampledGaussianRelease, positive
from datalens.mechanism.noise import FloatNoise, Floats

SHAVED = 1 - 1e-12
"""Of a bound, so that rounding cannot cross it."""


@dataclass(frozen=True, kw_only=True)
class DrawnCritic:
    """For an image a critic is drawn in secret, and its gradient on that image is released.

    Guarantee: every draw is uniform over all critics, independent of all others and of everything
    before, and never published, and one record reaches one critic. A gradient has norm at most
    `clip`, so two are at most 2 * clip apart, which is the unit in which `noise_multiplier`
    measures the noise. An image then costs at every Renyi order no more than a sampled Gaussian
    step in which a record takes part with probability 2 / N, blanked or replaced; m images cost m
    times that, also in one step.

    Proof. Let q = 1 / N, and let the record's critic give u with the record and v without. What is
    released has the density P = (1 - q) M + q N(u) or Q = (1 - q) M + q N(v), where M mixes the
    Gaussians of all other critics. With f = exp((a - 1) D_a), which is jointly convex:

    1. M is an average of Gaussians N(c), and P and Q are averages with the same weights, so
       f(P, Q) is at most its value for the worst single c.
    2. P is the average of (1 - 2q) N(c) + 2q N(u) and N(c), and Q that of N(c) and
       (1 - 2q) N(c) + 2q N(v). So f(P, Q) is at most the average of a step with sampling
       probability 2q in one direction, and of one in the other: at most the larger, which is what
       the accountants charge (privacy/sampling.py). They charge for one unit between u or v and
       c; whoever sees Gaussians one unit apart can bring them nearer by shrinking what he sees and
       adding noise, so less than a unit costs no more.

    One in N is not enough, although for a single step, epsilon and delta it would be: where u, v
    and c are the corners of a triangle with equal sides and q is small, D_2 is about
    2 q^2 (y^2 - y) with y = exp(1 / (2 z^2)), and a step sampled with q has q^2 (y^2 - 1), less by
    q^2 (y - 1)^2.
    """

    n_teachers: int
    """Critics, each the teacher of one shard."""
    clip: float
    noise_multiplier: float
    """Standard deviation of the noise, in units of how far one record can move a gradient."""

    def __post_init__(self) -> None:
        positive(n_teachers=self.n_teachers, clip=self.clip)

    @property
    def event(self) -> SampledGaussianRelease:
        return SampledGaussianRelease(
            what="drawn-critic",
            sampling_probability=min(2 / self.n_teachers, 1.0),
            noise_multiplier=self.noise_multiplier,
        )

    @property
    def sensitivity(self) -> float:
        return 2 * self.clip

    def bounded(self, gradients: Floats) -> Floats:
        """Every row with norm at most `clip`; one that is not finite says nothing."""
        with np.errstate(over="ignore", invalid="ignore"):
            norms = np.linalg.norm(gradients, axis=1, keepdims=True)
            shrink = np.minimum(1.0, self.clip * SHAVED / np.maximum(norms, np.finfo(float).tiny))
            return np.where(np.isfinite(norms), gradients * shrink, 0.0)

    def release(self, gradients: Floats, *, noise: FloatNoise, key: str) -> Floats:
        """Drawn critics' gradients (m, pixels), bounded, with noise on every coordinate.

        These are m releases: each row is of a critic that was drawn for it alone.
        """
        sigma = self.noise_multiplier * self.sensitivity
        return noise.add(self.bounded(gradients), sigma=sigma, key=key)
