"""Noise for integer vectors, and where its randomness comes from."""

from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Literal, Protocol

import numpy as np
from numpy.typing import NDArray

from datalens.ensemble.streams import derive
from datalens.errors import DataLensError
from datalens.mechanism.events import LARGEST_SIGMA, positive

NoiseKind = Literal["exact", "float-secure", "seeded"]
Integers = NDArray[np.int64]

LARGEST = 2**52
"""Values and noise stay below this, so that no sum can overflow 64 bits."""


class Noise(Protocol):
    """Adds Gaussian noise of standard deviation `sigma` to every coordinate of `values`."""

    @property
    def kind(self) -> NoiseKind: ...

    def add(self, values: Integers, *, sigma: float, key: str) -> Integers: ...


@dataclass(frozen=True)
class ExactNoise:
    """Discrete Gaussian noise, sampled exactly from the operating system's randomness (OpenDP).

    Guarantee: on integers, a query of Euclidean sensitivity s with this noise satisfies
    s^2 / (2 sigma^2) zero-concentrated differential privacy (Canonne, Kamath and Steinke,
    2020). No floating-point number is added to a private value.
    """

    @property
    def kind(self) -> NoiseKind:
        return "exact"

    def add(self, values: Integers, *, sigma: float, key: str) -> Integers:
        _check(values, sigma)
        flat: list[int] = values.ravel().tolist()
        noisy = np.array(_discrete_gaussian(float(sigma))(flat), dtype=np.int64)
        return noisy.reshape(values.shape)


@dataclass(frozen=True)
class SeededNoise:
    """Rounded Gaussian noise from a seed: fast and reproducible, and NOT PRIVATE.

    Stateless: the same secret and key give the same noise, so a resumed run equals an
    uninterrupted one. Whoever knows the seed can subtract the noise.
    """

    secret: bytes

    @property
    def kind(self) -> NoiseKind:
        return "seeded"

    def add(self, values: Integers, *, sigma: float, key: str) -> Integers:
        _check(values, sigma)
        generator = np.random.Generator(np.random.Philox(derive(self.secret, "noise", key)))
        noise = np.rint(generator.standard_normal(values.shape) * sigma).astype(np.int64)
        return values + noise


def _check(values: Integers, sigma: float) -> None:
    positive(sigma=sigma)
    if values.dtype != np.int64:
        raise TypeError(f"noise is added to int64 values only, got {values.dtype}")
    if values.size and max(int(values.max()), -int(values.min())) >= LARGEST:
        raise OverflowError("a tally reached 2^52 and noise on it could overflow")
    if sigma >= LARGEST_SIGMA:
        raise DataLensError(f"sigma must be below 2^46, got {sigma!r}.")


@lru_cache(maxsize=32)
def _discrete_gaussian(sigma: float) -> Any:
    import opendp.prelude as dp  # half a second to import, and only private runs need it

    dp.enable_features("contrib")
    return dp.m.make_gaussian(
        dp.vector_domain(dp.atom_domain(T="i64")), dp.l2_distance(T="f64"), scale=sigma
    )
