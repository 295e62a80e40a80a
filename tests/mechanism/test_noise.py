"""Where noise comes from, what it may be added to, and that nothing overflows."""

import random
from collections.abc import Iterator
from itertools import combinations
from typing import Any

import numpy as np
import pytest
import torch

from datalens.errors import DataLensError
from datalens.mechanism.noise import (
    LARGEST,
    SMALLEST_PART,
    ExactNoise,
    FloatNoise,
    FloatSecureNoise,
    Noise,
    SeededFloatNoise,
    SeededNoise,
    check_sum,
)

INTEGER_NOISE: list[Noise] = [ExactNoise(), SeededNoise(b"a")]
FLOAT_NOISE: list[FloatNoise] = [FloatSecureNoise(), SeededFloatNoise(b"a")]


class GloballySeeded:
    """A mutant: noise from the generator that any library may seed."""

    def draw(self, shape: tuple[int, ...], *, sigma: float, key: str) -> np.ndarray:
        return np.random.normal(0, sigma, shape)  # noqa: NPY002


class FixedSeed:
    """A mutant: noise from a seed of its own."""

    def draw(self, shape: tuple[int, ...], *, sigma: float, key: str) -> np.ndarray:
        return np.random.default_rng(0).normal(0, sigma, shape)


def repeats(noise: Any) -> bool:
    """Whether the same call gives the same noise once all global generators are set alike.

    Independent integers at sigma 1000 agree in one place of 3,500, so never in most of 64.
    """
    draws = []
    for _ in range(2):
        random.seed(0)
        np.random.seed(0)  # noqa: NPY002
        torch.manual_seed(0)
        if hasattr(noise, "draw"):
            draws.append(noise.draw((64,), sigma=1000.0, key="same"))
        else:
            draws.append(noise.add(np.zeros(64), sigma=1000.0, key="same"))
    return int(np.count_nonzero(draws[0] == draws[1])) > 32


@pytest.mark.parametrize(
    "noise, known",
    [
        (ExactNoise(), False),
        (FloatSecureNoise(), False),
        (SeededNoise(b"a"), True),
        (SeededFloatNoise(b"a"), True),
        (GloballySeeded(), True),
        (FixedSeed(), True),
    ],
    ids=lambda value: type(value).__name__,
)
def test_seeds_do_not_reach_secure_noise(noise: object, known: bool) -> None:
    assert repeats(noise) is known


@pytest.fixture
def three_threads() -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(3)
    yield
    torch.set_num_threads(before)


@pytest.mark.usefixtures("three_threads")
@pytest.mark.parametrize("how", ["draw", "draw_laplace"])
def test_cores_that_share_values_draw_noise_of_their_own(how: str) -> None:
    scale = {"sigma" if how == "draw" else "scale": 1000.0}
    noise = getattr(ExactNoise(), how)((3, SMALLEST_PART + 1), **scale, key="")
    assert noise.shape == (3, SMALLEST_PART + 1) and 0 < np.abs(noise).max() < 10**6
    for one, other in combinations(noise, 2):
        assert np.mean(one == other) < 0.01


@pytest.mark.parametrize("noise", INTEGER_NOISE, ids=lambda n: n.kind)
def test_no_float_meets_a_private_integer(noise: Noise) -> None:
    for drawn in (
        noise.draw((2, 3), sigma=2.5, key=""),
        noise.draw_laplace((2, 3), scale=2.5, key=""),
    ):
        assert drawn.dtype == np.int64 and drawn.shape == (2, 3)
        check_sum(np.arange(6, dtype=np.int64).reshape(2, 3), drawn)
        for dtype in (np.float64, np.float32, np.int32, np.uint64, bool):
            with pytest.raises(TypeError, match="int64"):
                check_sum(np.zeros((2, 3), dtype=dtype), drawn)
            with pytest.raises(TypeError, match="int64"):
                check_sum(drawn, np.zeros((2, 3), dtype=dtype))


def test_one_draw_hides_one_entry() -> None:
    for shape in ((), (1,), (3, 1), (2, 3)):
        with pytest.raises(ValueError, match="shape"):
            check_sum(np.zeros(3, dtype=np.int64), np.zeros(shape, dtype=np.int64))


@pytest.mark.parametrize("value", [LARGEST, -LARGEST, 2**63 - 1, -(2**63)])
def test_values_that_could_overflow_are_refused(value: int) -> None:
    with pytest.raises(DataLensError, match="overflow"):
        check_sum(np.array([0, value]), np.zeros(2, dtype=np.int64))


@pytest.mark.parametrize("noise", INTEGER_NOISE, ids=lambda n: n.kind)
def test_the_largest_values_under_the_largest_noise_stay_apart_from_the_end(noise: Noise) -> None:
    drawn = noise.draw((200,), sigma=0.999 * 2.0**46, key="")
    assert np.abs(drawn).max() < LARGEST
    for value in (LARGEST - 1, 1 - LARGEST):
        check_sum(np.full(200, value), drawn)
        assert np.abs(np.full(200, value) + drawn).max() < 2**53  # and floats hold them exactly


def test_opendp_saturates_and_does_not_wrap() -> None:
    """What our limit keeps away from: at the end of int64 noise is cut off, one side only."""
    import opendp.prelude as dp

    dp.enable_features("contrib")
    space = dp.vector_domain(dp.atom_domain(T="i64")), dp.l2_distance(T="f64")
    release = dp.m.make_gaussian(*space, scale=1000.0)([2**63 - 1] * 64)
    assert min(release) > 2**62 and release.count(2**63 - 1) > 8


@pytest.mark.parametrize("noise", FLOAT_NOISE, ids=lambda n: type(n).__name__)
def test_float_noise_refuses_what_it_cannot_hide(noise: FloatNoise) -> None:
    for bad in (np.nan, np.inf, -np.inf):
        with pytest.raises(DataLensError, match="NaN or infinity"):
            noise.add(np.array([0.0, bad]), sigma=1.0, key="")
    for sigma in (0.0, -1.0, np.nan, np.inf, 2.0**46):
        with pytest.raises(DataLensError, match="sigma"):
            noise.add(np.zeros(2), sigma=sigma, key="")
    for dtype in (np.float32, np.int64):
        with pytest.raises(TypeError, match="float64"):
            noise.add(np.zeros(2, dtype=dtype), sigma=1.0, key="")


@pytest.mark.parametrize("noise", FLOAT_NOISE, ids=lambda n: type(n).__name__)
def test_float_noise_keeps_shape_and_leaves_its_input(noise: FloatNoise) -> None:
    values = np.full((3, 5), 7.0)
    release = noise.add(values, sigma=1e-3, key="")
    assert release.shape == (3, 5) and (values == 7.0).all() and (release != 7.0).all()
    assert np.abs(release - 7.0).max() < 1e-2
    assert noise.add(np.zeros((0, 4)), sigma=1.0, key="").shape == (0, 4)


def test_kinds() -> None:
    assert [n.kind for n in (*INTEGER_NOISE, *FLOAT_NOISE)] == [
        "exact",
        "seeded",
        "float-secure",
        "seeded",
    ]


def test_the_extremes_of_the_operating_systems_bits(monkeypatch: pytest.MonkeyPatch) -> None:
    """All bits 0 and all bits 1 are finite noise: the far tail, and the middle."""
    for byte, sizes in ((b"\x00", (17, 20)), (b"\xff", (0, 1e-9))):
        monkeypatch.setattr("os.urandom", lambda count, byte=byte: byte * count)
        noise = FloatSecureNoise().add(np.zeros(1), sigma=1.0, key="")
        assert sizes[0] <= abs(float(noise[0])) <= sizes[1]
