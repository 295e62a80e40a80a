"""Theorem 6 of the paper, re-derived: how far compressed, clipped, noisy descent gets.

docs/theory.md has the proof, and says where the printed one goes wrong.
"""

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import gammainc

from datalens.errors import DataLensError
from datalens.mechanism.events import positive

Floats = NDArray[np.float64]


@dataclass(frozen=True, kw_only=True)
class Descent:
    """Teachers descend on the mean f of their losses: all that the bound depends on but k.

    Each step subtracts `step_size` times the mean of the teachers' gradients, each reduced to its
    top k entries, cut to [-clip, clip] entry by entry and perhaps quantised, and adds noise of
    variance `noise * k` to each of `n_values` entries of that mean.
    """

    smoothness: float
    """L: the gradient of f is L-Lipschitz."""
    gradient: float
    """M: M^2 bounds the teachers' mean squared gradient norm, on average over the run."""
    clip: float
    """c."""
    n_values: int
    """d."""
    noise: float
    """A: the noise on the mean has variance A k an entry; see `noise_constant`."""
    disagreement: tuple[float, ...]
    """sigma_i: how far, in root mean square, teachers' gradients are from their mean, by entry."""
    step_size: float
    """gamma."""
    steps: int
    """T."""
    gap: float
    """f at the start less its least value."""

    def __post_init__(self) -> None:
        positive(
            smoothness=self.smoothness,
            gradient=self.gradient,
            clip=self.clip,
            n_values=self.n_values,
            step_size=self.step_size,
            steps=self.steps,
        )
        if len(self.disagreement) != self.n_values:
            raise DataLensError(
                f"disagreement has one number for each of {self.n_values} values, got"
                f" {len(self.disagreement)}."
            )
        others = {"noise": self.noise, "gap": self.gap, "disagreement": min(self.disagreement)}
        for name, value in others.items():
            if not value >= 0:  # nor NaN
                raise DataLensError(f"{name} must be at least 0, got {value!r}.")


@dataclass(frozen=True, kw_only=True)
class Bound:
    """Term by term; `progress`, averaged over the steps, is at most the `total`."""

    start: float
    """What is left of the way from the start: falls with the steps."""
    compression: float
    """What top-k leaves out: falls with k."""
    disagreement: float
    """What teachers do not agree on: no setting changes it."""
    movement: float
    """That a step is not infinitely small."""
    noise: float
    """What privacy costs: grows with k."""
    quantisation: float
    """What signs cost."""

    @property
    def total(self) -> float:
        return (
            self.start
            + self.compression
            + self.disagreement
            + self.movement
            + self.noise
            + self.quantisation
        )


def progress(gradient: ArrayLike, clip: float) -> float:
    """How much a small clipped step would gain: the sum of min(g_i^2, clip |g_i|).

    It is the squared norm of a gradient below the clip, and clip times its 1-norm far above.
    """
    size = np.abs(np.asarray(gradient, dtype=np.float64))
    return float(np.minimum(size**2, clip * size).sum())


def bound(descent: Descent, *, top_k: int, tau: float, quantisation: float = 0.0) -> Bound:
    """Theorem 6 as it can be proven.

    `tau` is tau_k: what top-k leaves of a gradient is at most `tau` times as long as the gradient,
    in root mean square over teachers and steps. `quantisation` is the variance of the mean ballot
    about the mean of what it quantises, summed over entries: 0 without, see `sign_variance`.
    """
    if not 1 <= top_k <= descent.n_values:
        raise DataLensError(f"top-k must be 1 to {descent.n_values}, got {top_k}.")
    if not 0 <= tau <= 1:
        raise DataLensError(f"tau must lie between 0 and 1, got {tau!r}.")
    if quantisation and descent.clip > 1:
        raise DataLensError(f"Signs need a clip of at most 1, got {descent.clip!r}.")
    d, k, clip, largest = descent.n_values, top_k, descent.clip, descent.gradient
    half = descent.smoothness * descent.step_size / 2
    return Bound(
        start=descent.gap / (descent.steps * descent.step_size),
        compression=largest * min(tau * largest, clip * math.sqrt(d - k)),
        disagreement=largest * math.hypot(*descent.disagreement),
        movement=half * min(k * clip**2, largest**2),
        noise=half * d * descent.noise * k,
        quantisation=half * quantisation,
    )


def best_k(descent: Descent, taus: ArrayLike, *, signs_of: int | None = None) -> int:
    """The k with the least bound, given tau_1 to tau_d; `signs_of` so many teachers, if any."""
    totals = [
        bound(descent, top_k=k, tau=tau, quantisation=sign_variance(k, signs_of)).total
        for k, tau in enumerate(np.asarray(taus, dtype=np.float64).tolist(), 1)
    ]
    return 1 + int(np.argmin(totals))


def sign_variance(top_k: int, n_teachers: int | None) -> float:
    """Of the mean of `n_teachers` ballots of stochastic signs, about what they stand for, at most.

    Entry v becomes +1 or -1 with mean v, so its variance is 1 - v^2, and teachers' dice are
    independent. None is no quantisation.
    """
    return 0.0 if n_teachers is None else top_k / n_teachers


def noise_constant(*, rho: float, releases: int, n_teachers: int) -> float:
    """A, where so many releases together cost `rho`.

    A tally moves by 2 sqrt(k), so noise of variance 4 k / (2 rho / releases) is added to it, and
    the mean ballot has 1 / n_teachers^2 of that.
    """
    positive(rho=rho, releases=releases, n_teachers=n_teachers)
    return 2 * releases / (rho * n_teachers**2)


def measured_taus(gradients: ArrayLike) -> Floats:
    """tau_1 to tau_d of gradients (..., d), in root mean square, which is what the proof needs."""
    squares = np.square(np.asarray(gradients, dtype=np.float64))
    squares = np.sort(squares.reshape(-1, squares.shape[-1]), axis=1)[:, ::-1].sum(axis=0)
    if not squares.sum() > 0:
        raise DataLensError("tau_k needs gradients that are finite and not all zero.")
    left = squares.sum() - np.cumsum(squares)
    taus: Floats = np.sqrt(np.clip(left / squares.sum(), 0, 1))
    taus[-1] = 0.0
    return taus


def weibull_taus(n_values: int, shape: float) -> Floats:
    """tau_1 to tau_d where entries' sizes are Weibull, in the limit of many values.

    The k largest of d are beyond the quantile x^shape = log(d / k), and below it lies the share
    P(1 + 2 / shape, log(d / k)) of the second moment, P being the regularised incomplete gamma.
    """
    positive(n_values=n_values, shape=shape)
    k = np.arange(1, n_values + 1)
    taus: Floats = np.sqrt(gammainc(1 + 2 / shape, np.log(n_values / k)))
    return taus
