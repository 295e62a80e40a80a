"""Noise has the distribution it is paid for. Each test must also reject wrong scales.

Error rates: each accepting check passes at p > 1e-5, so it fails by chance once in 100,000
runs; the wrong scales are rejected with p far below that at these sample sizes.
"""

import numpy as np
import pytest
from scipy.stats import chi2, chisquare, kstest

from datalens.errors import DataLensError
from datalens.mechanism.noise import (
    ExactNoise,
    FloatNoise,
    FloatSecureNoise,
    Noise,
    SeededFloatNoise,
    SeededNoise,
)

SAMPLES = 20_000
ACCEPT = 1e-5


def discrete_gaussian_p(noise: np.ndarray, sigma: float) -> float:
    """Chi-squared test against the discrete Gaussian, tails pooled."""
    reach = int(2.5 * sigma) + 1
    support = np.arange(-60 * int(sigma + 1), 60 * int(sigma + 1) + 1)
    mass = np.exp(-(support**2) / (2 * sigma**2))
    mass /= mass.sum()
    inner = np.abs(support) <= reach
    expected = np.append(mass[inner], [mass[support < -reach].sum(), mass[support > reach].sum()])
    counts = [np.count_nonzero(noise == value) for value in support[inner]]
    counts += [np.count_nonzero(noise < -reach), np.count_nonzero(noise > reach)]
    return float(chisquare(counts, expected * len(noise)).pvalue)


def draw(noise: Noise, sigma: float) -> np.ndarray:
    return noise.draw((SAMPLES,), sigma=sigma, key="test")


@pytest.mark.parametrize("noise", [ExactNoise(), SeededNoise(b"a")], ids=lambda n: n.kind)
@pytest.mark.parametrize("claimed, fits", [(3.0, True), (2.0, False), (1.5, False), (4.5, False)])
def test_noise_matches_its_price(noise: Noise, claimed: float, fits: bool) -> None:
    assert (discrete_gaussian_p(draw(noise, 3.0), claimed) > ACCEPT) is fits


def discrete_laplace_p(noise: np.ndarray, scale: float) -> float:
    """Chi-squared test against the discrete Laplace distribution, tails pooled."""
    reach = int(3 * scale) + 1
    support = np.arange(-reach, reach + 1)
    ratio = np.exp(-1 / scale)
    mass = (1 - ratio) / (1 + ratio) * ratio ** np.abs(support)
    expected = np.append(mass, [(1 - mass.sum()) / 2] * 2)
    counts = [np.count_nonzero(noise == value) for value in support]
    counts += [np.count_nonzero(noise < -reach), np.count_nonzero(noise > reach)]
    return float(chisquare(counts, expected * len(noise)).pvalue)


@pytest.mark.parametrize("noise", [ExactNoise(), SeededNoise(b"a")], ids=lambda n: n.kind)
@pytest.mark.parametrize(
    "claimed, fits", [(3.0, True), (1 / 3, False), (2.6, False), (3 / np.sqrt(2), False)]
)
def test_laplace_noise_matches_its_price(noise: Noise, claimed: float, fits: bool) -> None:
    """Wrong scales are, among others, 1 / scale, and the deviation taken for the scale."""
    drawn = noise.draw_laplace((SAMPLES,), scale=3.0, key="test")
    assert (discrete_laplace_p(drawn, claimed) > ACCEPT) is fits
    assert discrete_laplace_p(draw(noise, 3.0 * np.sqrt(2)), 3.0) < ACCEPT  # Gaussian noise


@pytest.mark.parametrize("noise", [ExactNoise(), SeededNoise(b"a")], ids=lambda n: n.kind)
def test_large_noise_has_its_scale(noise: Noise) -> None:
    measured = draw(noise, 5000.0).std()
    assert measured == pytest.approx(5000.0, rel=6 / np.sqrt(2 * SAMPLES))
    assert measured != pytest.approx(2500.0, rel=6 / np.sqrt(2 * SAMPLES))  # half the scale


def test_exact_noise_never_repeats_and_seeded_noise_always_does() -> None:
    exact, seeded = ExactNoise(), SeededNoise(b"a")
    assert (draw(exact, 1000.0) != draw(exact, 1000.0)).any()
    assert (draw(seeded, 1000.0) == draw(seeded, 1000.0)).all()
    other_key = seeded.draw((SAMPLES,), sigma=1000.0, key="other")
    assert (draw(seeded, 1000.0) != other_key).any()


@pytest.mark.parametrize("noise", [ExactNoise(), SeededNoise(b"a")], ids=lambda n: n.kind)
def test_impossible_requests_are_refused(noise: Noise) -> None:
    for bad in (0.0, -1.0, float("nan"), float("inf"), 2.0**50):
        with pytest.raises(DataLensError, match="sigma"):
            noise.draw((3,), sigma=bad, key="")
        with pytest.raises(DataLensError, match="scale"):
            noise.draw_laplace((3,), scale=bad, key="")


FLOAT_NOISE = [FloatSecureNoise(), SeededFloatNoise(b"a")]


def scale_p(noise: np.ndarray, sigma: float) -> float:
    """Two-sided test of the variance: the squares of normal noise add up to chi-squared."""
    below = chi2.cdf(((noise / sigma) ** 2).sum(), len(noise))
    return float(2 * min(below, 1 - below))


@pytest.mark.parametrize("noise", FLOAT_NOISE, ids=lambda n: n.kind)
@pytest.mark.parametrize("claimed, fits", [(3.0, True), (6.0, False), (2.5, False), (1.5, False)])
def test_float_noise_matches_its_price(noise: FloatNoise, claimed: float, fits: bool) -> None:
    drawn = noise.add(np.zeros(SAMPLES), sigma=3.0, key="test")
    assert (scale_p(drawn, claimed) > ACCEPT) is fits
    assert (float(kstest(drawn, "norm", args=(0, claimed)).pvalue) > ACCEPT) is fits


@pytest.mark.parametrize("noise", FLOAT_NOISE, ids=lambda n: n.kind)
def test_float_noise_is_normal_and_independent(noise: FloatNoise) -> None:
    drawn = noise.add(np.full(SAMPLES, 5.0), sigma=1.0, key="test") - 5.0
    assert kstest(drawn, "norm").pvalue > ACCEPT
    neighbours = np.corrcoef(drawn[:-1], drawn[1:])[0, 1] * np.sqrt(SAMPLES)
    assert abs(neighbours) < 4.5  # 1 in 150,000


def test_the_same_tests_reject_noise_that_is_not_normal() -> None:
    """The controls: Laplace noise of the right variance, and noise that repeats itself."""
    chance = np.random.default_rng(0)
    laplace = chance.laplace(0, np.sqrt(0.5), SAMPLES)
    assert kstest(laplace, "norm").pvalue < ACCEPT
    twice = np.repeat(chance.standard_normal(SAMPLES // 2), 2)
    assert abs(np.corrcoef(twice[:-1], twice[1:])[0, 1]) * np.sqrt(SAMPLES) > 4.5
