"""Noise, and where its randomness comes from.

Three kinds. `exact` and `seeded` noise is drawn in integers, for sums of integers; for steps on
floating-point vectors (DP-SGD) there is `float-secure` noise, and `seeded` again. Every certificate
names the kind, and says `none` where a method protects nobody.
"""

import math
import os
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Literal, Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.special import ndtri

from datalens.ensemble.streams import derive
from datalens.errors import DataLensError
from datalens.mechanism.events import noise_scale

NoiseKind = Literal["exact", "float-secure", "seeded", "none"]
Integers = NDArray[np.int64]
Floats = NDArray[np.float64]

LARGEST = 2**52
"""Values stay below this, and so does noise: sigma is below 2^46, and 64 sigma are reached with
a probability below 2^-2900. So a sum needs 54 of 64 bits. Laplace noise of such a scale goes
further (64 scales with a probability of 2^-92), and reaches the end of 64 bits with one below
2^-180000."""

SMALLEST_PART = 2048
"""Values that a core is given at least: a few hundredths of a second's work."""

Shape = tuple[int, ...]


class Noise(Protocol):
    """Independent integers of a public shape, drawn before the value that they are to hide is used.

    Gaussian of standard deviation `sigma`, or Laplace of a `scale`.
    """

    @property
    def kind(self) -> NoiseKind: ...

    def draw(self, shape: Shape, *, sigma: float, key: str) -> Integers: ...

    def draw_laplace(self, shape: Shape, *, scale: float, key: str) -> Integers: ...


def check_sum(value: Integers, noise: Integers) -> None:
    """Refuse a value and noise whose sum could overflow, or would hide entries under one draw."""
    if value.dtype != np.int64 or noise.dtype != np.int64:
        raise TypeError(f"int64 noise hides int64 values, got {noise.dtype} and {value.dtype}")
    if value.shape != noise.shape:
        raise ValueError(f"noise of the shape {noise.shape} for values of {value.shape}")
    if value.size and max(int(value.max()), -int(value.min())) >= LARGEST:
        raise DataLensError(
            "A sum over the records reached 2^52, where noise could overflow; use fewer records"
            " or a coarser grid."
        )


class FloatNoise(Protocol):
    """Gaussian noise on floating-point vectors, which only the DP-SGD family releases."""

    @property
    def kind(self) -> NoiseKind: ...

    def add(self, values: Floats, *, sigma: float, key: str) -> Floats: ...


@dataclass(frozen=True)
class ExactNoise:
    """Discrete noise, sampled exactly from the operating system's randomness (OpenDP).

    Guarantee: on integers, a query of Euclidean sensitivity s with discrete Gaussian noise
    satisfies s^2 / (2 sigma^2) zero-concentrated differential privacy (Canonne, Kamath and
    Steinke, 2020), and one whose coordinates move by s in all, with discrete Laplace noise,
    s / scale pure differential privacy (Ghosh, Roughgarden and Sundararajan, 2009). No
    floating-point number is added to a private value.
    """

    @property
    def kind(self) -> NoiseKind:
        return "exact"

    def draw(self, shape: Shape, *, sigma: float, key: str) -> Integers:
        noise_scale(sigma=sigma)
        return _in_parts(_discrete_gaussian(float(sigma)), shape)

    def draw_laplace(self, shape: Shape, *, scale: float, key: str) -> Integers:
        noise_scale(scale=scale)
        return _in_parts(_discrete_laplace(float(scale)), shape)


@dataclass(frozen=True)
class SeededNoise:
    """Rounded Gaussian or discrete Laplace noise from a seed: reproducible, and NOT PRIVATE.

    Stateless: the same secret and key give the same noise, so a resumed run equals an
    uninterrupted one. Whoever knows the seed can subtract the noise.
    """

    secret: bytes

    @property
    def kind(self) -> NoiseKind:
        return "seeded"

    def draw(self, shape: Shape, *, sigma: float, key: str) -> Integers:
        noise_scale(sigma=sigma)
        return np.rint(_normal_from_a_seed(self.secret, key, shape) * sigma).astype(np.int64)

    def draw_laplace(self, shape: Shape, *, scale: float, key: str) -> Integers:
        noise_scale(scale=scale)
        generator = _from_a_seed(self.secret, key)
        ends = -np.expm1(-1 / scale)  # the difference of two geometric numbers is discrete Laplace
        up, down = (generator.geometric(ends, shape) for _ in range(2))
        noise: Integers = up - down
        return noise


@dataclass(frozen=True)
class FloatSecureNoise:
    """Floating-point Gaussian noise from the operating system's randomness.

    Guarantee: none but the operating system can tell the noise, whatever seeds were set. The
    privacy proof is that of real-valued noise, and floating-point numbers are not real numbers:
    which of them can come out depends, in the last bits, on the value beneath (Mironov 2012).
    Each noise is the sum of four, so that whoever wants to use that must search through all
    combinations of four draws (Holohan and Braghin 2021). That is a mitigation, not a proof;
    integers with exact noise need none.
    """

    @property
    def kind(self) -> NoiseKind:
        return "float-secure"

    def add(self, values: Floats, *, sigma: float, key: str) -> Floats:
        _check_floats(values, sigma)
        noise = np.zeros(values.shape)
        for _ in range(4):
            noise += _normal_from_the_system(values.size).reshape(values.shape)
        return values + noise * (sigma / 2)  # four of them have twice the deviation of one


@dataclass(frozen=True)
class SeededFloatNoise:
    """Floating-point Gaussian noise from a seed: reproducible, and NOT PRIVATE."""

    secret: bytes

    @property
    def kind(self) -> NoiseKind:
        return "seeded"

    def add(self, values: Floats, *, sigma: float, key: str) -> Floats:
        _check_floats(values, sigma)
        return values + _normal_from_a_seed(self.secret, key, values.shape) * sigma


def _normal_from_the_system(count: int) -> Floats:
    """Standard normal numbers by inversion: 63 bits for the size, one for the sign.

    Sizes come from the lower tail, where floating-point numbers are dense: up to 9.2 deviations.
    """
    bits = np.frombuffer(os.urandom(8 * count), dtype=np.uint64)
    tail = ((bits >> np.uint64(1)).astype(np.float64) + 0.5) * 2.0**-64  # in (0, 1/2]
    size: Floats = -ndtri(tail)
    return np.where(bits & np.uint64(1), size, -size)


def _normal_from_a_seed(secret: bytes, key: str, shape: Shape) -> Floats:
    return _from_a_seed(secret, key).standard_normal(shape)


def _from_a_seed(secret: bytes, key: str) -> np.random.Generator:
    return np.random.Generator(np.random.Philox(derive(secret, "noise", key)))


def _check_floats(values: Floats, sigma: float) -> None:
    noise_scale(sigma=sigma)
    if values.dtype != np.float64:
        raise TypeError(f"floating-point noise is added to float64 values only, got {values.dtype}")
    if not np.isfinite(values).all():
        raise DataLensError("Noise cannot hide NaN or infinity; bound every record's part first.")


def _in_parts(measurement: Any, shape: Shape) -> Integers:
    """What OpenDP adds to nothing: drawn for every value by itself, so that cores can share."""
    size = math.prod(shape)
    count = max(1, min(torch.get_num_threads(), size // SMALLEST_PART))
    parts = [size // count + (part < size % count) for part in range(count)]

    def noise(length: int) -> Integers:
        return np.array(measurement([0] * length), dtype=np.int64)

    with ThreadPoolExecutor(count, "noise") as pool:
        return np.concatenate(list(pool.map(noise, parts))).reshape(shape)


@lru_cache(maxsize=32)
def _discrete_gaussian(sigma: float) -> Any:
    import opendp.prelude as dp  # half a second to import, and only private runs need it

    dp.enable_features("contrib")
    return dp.m.make_gaussian(
        dp.vector_domain(dp.atom_domain(T="i64")), dp.l2_distance(T="f64"), scale=sigma
    )


@lru_cache(maxsize=32)
def _discrete_laplace(scale: float) -> Any:
    import opendp.prelude as dp

    dp.enable_features("contrib")
    return dp.m.make_laplace(
        dp.vector_domain(dp.atom_domain(T="i64")), dp.l1_distance(T="i64"), scale=scale
    )
