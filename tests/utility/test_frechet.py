"""The Frechet distance against closed forms, and its correction against the truth."""

import numpy as np
import pytest
import scipy.linalg

from datalens.errors import DataLensError
from datalens.utility.frechet import distance_of, frechet, gaussian_distance


def test_two_gaussians_by_the_closed_formula() -> None:
    """Covariances that commute: the sum over coordinates of squared differences of deviations."""
    chance = np.random.default_rng(0)
    turn = np.linalg.qr(chance.normal(size=(6, 6)))[0]
    a, b, m, n = (chance.uniform(0.1, 3, 6) for _ in range(4))
    found = gaussian_distance(m, turn @ np.diag(a**2) @ turn.T, n, turn @ np.diag(b**2) @ turn.T)
    assert found == pytest.approx(((m - n) ** 2).sum() + ((a - b) ** 2).sum())


def test_covariances_that_do_not_commute_by_the_matrix_root() -> None:
    chance = np.random.default_rng(1)
    first, second = chance.normal(size=(50, 5)), chance.normal(size=(60, 5)) @ np.tri(5)
    one, two = np.cov(first.T), np.cov(second.T)
    root = scipy.linalg.sqrtm(one @ two).real
    apart = np.square(first.mean(0) - second.mean(0)).sum()
    truth = apart + np.trace(one + two - 2 * root)
    assert distance_of(first, second) == pytest.approx(truth)
    plain = apart + np.trace(one + two - 2 * scipy.linalg.sqrtm(one) @ scipy.linalg.sqrtm(two)).real
    assert abs(plain - truth) > 1e-3  # so the order of roots and products matters here


def test_covariances_without_full_rank_are_no_trouble() -> None:
    first = np.random.default_rng(2).normal(size=(4, 30))
    assert distance_of(first, first) == pytest.approx(0, abs=1e-9)
    assert distance_of(first, first + 2) == pytest.approx(30 * 4)


@pytest.mark.parametrize("shift, truth", [(0.0, 0.0), (0.5, 32 * 0.25)])
def test_the_correction_removes_most_of_the_bias(shift: float, truth: float) -> None:
    """The same distribution, or one that is moved: of 1,200 images both look further apart."""
    plain, corrected = [], []
    for seed in range(5):
        chance = np.random.default_rng(seed)
        found = frechet(chance.normal(size=(1200, 32)), chance.normal(shift, 1, (1500, 32)))
        assert found.images == 1200 and found.sizes == (300, 400, 600, 1200)
        assert found.infinite is not None
        plain.append(found.distance - truth)
        corrected.append(found.infinite - truth)
    assert np.mean(plain) > 0.3
    assert abs(np.mean(corrected)) < 0.4 * np.mean(plain)


def test_parts_with_fewer_images_than_features_are_not_followed() -> None:
    chance = np.random.default_rng(0)
    assert frechet(chance.normal(size=(60, 20)), chance.normal(size=(60, 20))).infinite is None


def test_too_few_images_are_refused() -> None:
    with pytest.raises(DataLensError, match="8 images"):
        frechet(np.zeros((7, 2)), np.zeros((9, 2)))
