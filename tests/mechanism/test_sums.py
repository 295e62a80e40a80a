"""How far one record moves a sum, by brute force: every extreme blanked, and for every other."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from datalens.mechanism.clusters import ClusterMoments, ClusterSums
from datalens.mechanism.embeddings import FeatureSums
from datalens.mechanism.gradients import GradientSums
from datalens.mechanism.moments import ClassCounts, ClassSums, SecondMoments
from datalens.mechanism.noise import Integers
from datalens.mechanism.sums import BESIDE, DIAGONAL
from datalens.privacy.replan import sensitivities

BOUND = 510  # the length of four white pixels
CENTRES = np.stack([np.zeros(64), np.full(64, 128), np.arange(64) * 4]).astype(np.int64)
Parts = Callable[[Any], list[Integers]]
"""From a mechanism to what each of many records adds to its sum."""


def pictures() -> np.ndarray:
    chance = np.random.default_rng(0)
    black = np.zeros((12, 1, 8, 8), dtype=np.uint8)
    _, white, squares, inverse, pixel, left, right, corner, other, noise, *binary = black
    white[:] = squares[0, ::2, ::2] = squares[0, 1::2, 1::2] = pixel[0, 3, 3] = 255
    left[..., :4] = right[..., 4:] = corner[..., :2, :2] = other[..., 2:4, 2:4] = 255
    inverse[:] = 255 - squares
    noise[:] = chance.integers(0, 256, noise.shape)
    for each in binary:
        each[:] = 255 * chance.integers(0, 2, each.shape)
    return black


def of_pictures(mechanism: Any) -> list[Integers]:
    """Every picture in every class."""
    images = pictures()
    return [
        mechanism.query(images[i : i + 1], np.array([label]))
        for i in range(len(images))
        for label in range(3)
    ]


def rows(length: int) -> np.ndarray:
    """Integer rows of 16, all but a few nearly `length` long, and their opposites."""
    found = np.random.default_rng(0).normal(size=(20, 16))
    found[0], found[1], found[2, ::2], found[3, 1::2] = 1, np.eye(16)[0], 0, 0
    found *= length / np.sqrt((found**2).sum(axis=1, keepdims=True))
    return np.concatenate([np.trunc(found), -np.trunc(found), np.zeros((1, 16))]).astype(np.int64)


def of_rows(mechanism: Any) -> list[Integers]:
    places = ([0], [1]) if isinstance(mechanism, ClusterSums) else ([],)
    return [
        mechanism.query(row[None], *(np.array([place]) for place in own))
        for row in rows(mechanism.bound)
        for own in places
    ]


def of_features(mechanism: FeatureSums) -> list[Integers]:
    one = np.zeros((1, 1, 1, 1), dtype=np.uint8)
    return [
        mechanism.query(one, np.array([label]), lambda _, row=row: row[None] / mechanism.bound)
        for row in rows(mechanism.bound)
        for label in range(3)
    ]


def of_gradients(mechanism: GradientSums) -> list[Integers]:
    return [
        mechanism.query(x[None].astype(np.int16), r[None].astype(np.int16))
        for x in rows(mechanism.features)[:6]
        for r in rows(mechanism.residuals)
    ]


CASES: dict[str, tuple[Any, Parts, dict[str, int]]] = {
    "class-sums": (ClassSums(bound=BOUND, sigma=1.0, n_classes=3), of_pictures, {"bound": BOUND}),
    "class-counts": (ClassCounts(sigma=1.0, n_classes=3), of_pictures, {}),
    "second-moments": (
        SecondMoments(bound=BOUND, sigma=1.0, centres=CENTRES),
        of_pictures,
        {"bound": BOUND},
    ),
    "cluster-sums, light": (
        ClusterSums(bound=1000, weight=500, n_clusters=2, sigma=1.0),
        of_rows,
        {"bound": 1000, "weight": 500},
    ),
    "cluster-sums, heavy": (
        ClusterSums(bound=1000, weight=3000, n_clusters=2, sigma=1.0),
        of_rows,
        {"bound": 1000, "weight": 3000},
    ),
    "cluster-moments": (ClusterMoments(bound=5000, sigma=1.0), of_rows, {"bound": 5000}),
    "feature-sums": (FeatureSums(bound=5000, sigma=1.0, n_classes=3), of_features, {"bound": 5000}),
    "gradient-sums": (
        GradientSums(features=5000, residuals=3000, sigma=1.0),
        of_gradients,
        {"features": 5000, "residuals": 3000},
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_some_record_moves_a_sum_as_far_as_is_paid_for_and_none_further(case: str) -> None:
    """So a claim that is 1 % too small, or too large, is found."""
    mechanism, parts, parameters = CASES[case]
    event = mechanism.event
    added = np.stack([part.ravel() for part in parts(mechanism)])
    blanked = (added**2).sum(axis=1).max()
    replaced = max(((added - one) ** 2).sum(axis=1).max() for one in added)
    paid = event.squared_sensitivity, event.squared_sensitivity_replace
    for moved, price in zip((blanked, replaced), paid, strict=True):
        assert 0.99 * price < moved <= price
    assert sensitivities(event.what, parameters) == paid  # the verifier's own view


def test_entries_beside_the_diagonal_have_half_the_noise_variance_and_no_less() -> None:
    assert 0.999 < BESIDE**2 / (2 * DIAGONAL**2) < 1
    moments, d = ClusterMoments(bound=1, sigma=1e6), 300
    noise = np.random.default_rng(0).normal(0, moments.sigma, d * (d + 1) // 2)
    found = moments.matrix(np.rint(noise).astype(np.int64))
    assert (found == found.T).all()
    beside = found[np.triu_indices(d, 1)].std()
    assert beside == pytest.approx(moments.deviation, rel=0.02)
    assert np.diag(found).std() / beside == pytest.approx(2**0.5, rel=0.15)
    largest = np.linalg.eigvalsh(found).max()  # what `low_rank_factor` takes for noise
    assert largest == pytest.approx(2 * moments.deviation * d**0.5, rel=0.05)
