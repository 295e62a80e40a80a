"""Distances to the nearest training record, by loops; and a generator that copies is seen."""

import tracemalloc

import numpy as np
import pytest
from scipy.spatial.distance import cdist

from datalens.utility.nearest import PERCENTILES, nearest


def images(count: int, seed: int) -> np.ndarray:
    return np.random.default_rng(seed).integers(0, 256, (count, 1, 6, 6)).astype(np.uint8)


def test_the_percentiles_are_those_of_the_loops() -> None:
    synthetic, held_out, train = images(40, 0), images(30, 1), images(60, 2)
    found = nearest(synthetic=synthetic, held_out=held_out, train=train)
    for group, shown in ((synthetic, found.synthetic), (held_out, found.held_out)):
        least = [min(np.linalg.norm((a / 255 - b / 255).ravel()) for b in train) for a in group]
        expected = {str(p): np.percentile(least, p) for p in PERCENTILES}
        assert shown == pytest.approx(expected, rel=1e-3)
    assert found.asked == (40, 30) and found.train == 60 and found.copies == 0


def test_a_copy_is_at_no_distance_at_all() -> None:
    """Held out or synthetic, whatever rounding says; so copies of both kinds are alike."""
    train = images(300, 0)
    synthetic = np.concatenate([train[:100], images(100, 1)])
    held_out = np.concatenate([train[100:120], images(180, 2)])  # a tenth of them
    found = nearest(synthetic=synthetic, held_out=held_out, train=train)
    assert found.synthetic["1"] == found.synthetic["25"] == 0 == found.held_out["5"]
    assert found.synthetic["75"] > 0 and found.copies == 100
    assert found.nearer_than_held_out == 0  # none is nearer than 0


@pytest.mark.parametrize("rows", [1, 7, 59, 60, 1000])
def test_parts_of_any_size_give_the_same_as_all_at_once(rows: int) -> None:
    train = images(60, 2)
    synthetic, held_out = np.concatenate([images(40, 0), train[[3, 59]]]), images(30, 1)
    found = nearest(synthetic=synthetic, held_out=held_out, train=train, rows=rows)
    flat = [each.reshape(len(each), -1) / 255 for each in (synthetic, held_out, train)]
    ours, theirs = (cdist(each, flat[2]).min(1) for each in flat[:2])
    for distances, shown in ((ours, found.synthetic), (theirs, found.held_out)):
        expected = {str(p): np.percentile(distances, p) for p in PERCENTILES}
        assert shown == pytest.approx(expected, rel=1e-3, abs=1e-3)
    assert found.nearer_than_held_out == (ours < np.percentile(theirs, 1)).mean()
    assert found.copies == 2


def test_training_records_are_never_numbers_all_at_once() -> None:
    train = images(40_000, 0)
    as_numbers = train.size * 4

    def peak(rows: int) -> int:
        tracemalloc.start()
        nearest(synthetic=train[:20], held_out=train[20:40], train=train, rows=rows)
        most = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        return most

    assert peak(1_001) < as_numbers / 4
    assert peak(40_000) > as_numbers  # so that the other could fail


def test_a_generator_that_copies_is_seen_and_another_is_not() -> None:
    train, held_out = images(200, 0), images(200, 1)
    copied = np.concatenate([train[:30], images(70, 2)])
    found = nearest(synthetic=copied, held_out=held_out, train=train)
    assert found.copies == 30 and found.nearer_than_held_out >= 0.3
    other = nearest(synthetic=images(100, 3), held_out=held_out, train=train)
    assert other.copies == 0 and other.nearer_than_held_out < 0.08
