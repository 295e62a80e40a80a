"""Distances to the nearest training record, by loops; and a generator that copies is seen."""

import numpy as np
import pytest

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


def test_a_generator_that_copies_is_seen_and_another_is_not() -> None:
    train, held_out = images(200, 0), images(200, 1)
    copied = np.concatenate([train[:30], images(70, 2)])
    found = nearest(synthetic=copied, held_out=held_out, train=train)
    assert found.copies == 30 and found.nearer_than_held_out >= 0.3
    other = nearest(synthetic=images(100, 3), held_out=held_out, train=train)
    assert other.copies == 0 and other.nearer_than_held_out < 0.08
