"""Membership inference finds a generator that copies, and accuses no other."""

import numpy as np
import pytest
from sklearn.metrics import roc_auc_score

from datalens.errors import DataLensError
from datalens.utility.membership import Membership, judged, membership


def people(count: int, seed: int) -> np.ndarray:
    """Images of one population: smooth blobs at chance places."""
    chance = np.random.default_rng(seed)
    centre, size = chance.uniform(2, 10, (count, 2, 1, 1)), chance.uniform(1, 3, (count, 1, 1))
    row, column = np.mgrid[:12, :12]
    away = (row - centre[:, 0]) ** 2 + (column - centre[:, 1]) ** 2
    noise = chance.normal(0, 0.05, (count, 12, 12))
    return (255 * np.clip(np.exp(-away / size**2) + noise, 0, 1)).astype(np.uint8)[:, None]


def attacked(synthetic: np.ndarray) -> dict[str, Membership]:
    found = membership(
        members=people(500, 1), others=people(500, 2), reference=people(800, 3), synthetic=synthetic
    )
    return {figures.attack: figures for figures in found}


def test_a_generator_that_copies_is_flagged() -> None:
    found = attacked(people(500, 1))
    assert found["nearest neighbour"].auc > 0.99
    assert found["nearest neighbour"].hits_at_one_percent > 0.9
    for figures in found.values():
        assert figures.auc_interval[0] > 0.6, figures


def test_a_generator_that_never_saw_the_members_is_not() -> None:
    for figures in attacked(people(500, 4)).values():
        low, high = figures.auc_interval
        assert low < 0.5 < high, figures
        assert figures.hits_interval[0] < 0.02, figures


def test_the_area_is_the_usual_one_and_its_interval_covers_it() -> None:
    chance = np.random.default_rng(0)
    truth, covered = 0.7602, 0  # of two normals one deviation apart: Phi(1 / sqrt(2))
    for _ in range(200):
        inside, outside = chance.normal(1, 1, 60), chance.normal(0, 1, 80)
        figures = judged("test", inside, outside)
        known = np.repeat([1, 0], [60, 80])
        expected = roc_auc_score(known, np.concatenate([inside, outside]))
        assert figures.auc == pytest.approx(expected)
        covered += figures.auc_interval[0] < truth < figures.auc_interval[1]
    assert 178 <= covered < 200  # 190 expected; and intervals are not all of [0, 1]


def test_ties_count_half() -> None:
    figures = judged("test", np.ones(100), np.ones(100))
    assert figures.auc == 0.5 and figures.hits_at_one_percent == 0


def test_what_cannot_be_compared_is_refused() -> None:
    with pytest.raises(DataLensError, match="100 records"):
        attacked(people(50, 1))
    with pytest.raises(DataLensError, match="different shapes"):
        attacked(people(500, 1)[:, :, :8])
