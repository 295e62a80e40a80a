"""Sums of gradients: exact, bounded, and priced by their bounds."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from datalens.errors import DataLensError
from datalens.mechanism.gradients import GradientSums

SUMS = GradientSums(features=50, residuals=20, sigma=100.0)


def rows(chance: np.random.Generator, n: int, d: int, bound: int) -> np.ndarray:
    """Integer rows, most of them as long as they may be."""
    found = chance.normal(size=(n, d))
    found *= bound / np.sqrt((found**2).sum(axis=1, keepdims=True))
    return np.trunc(found).astype(np.int16)


def test_the_sum_is_that_of_outer_products() -> None:
    chance = np.random.default_rng(0)
    x, r = rows(chance, 5000, 7, 50), rows(chance, 5000, 3, 20)
    expected = sum(np.outer(a, b) for a, b in zip(x.astype(int), r.astype(int), strict=True))
    found = SUMS.query(x, r)
    assert found.dtype == np.int64 and (found == expected).all()


@settings(max_examples=50, deadline=None)
@given(seed=st.integers(0, 2**32 - 1))
def test_one_record_moves_the_sum_by_no_more_than_is_paid_for(seed: int) -> None:
    chance = np.random.default_rng(seed)
    x, r = rows(chance, 6, 7, 50), rows(chance, 6, 3, 20)
    whole, blanked = SUMS.query(x, r), SUMS.query(x[1:], r[1:])
    other_x, other_r = x.copy(), r.copy()
    other_x[0], other_r[0] = -x[0], r[0]  # the worst replacement
    replaced = SUMS.query(other_x, other_r)
    event = SUMS.event
    assert ((whole - blanked) ** 2).sum() <= event.squared_sensitivity
    assert ((whole - replaced) ** 2).sum() <= event.squared_sensitivity_replace
    assert ((whole - replaced) ** 2).sum() > 3.2 * ((whole - blanked) ** 2).sum()  # four times


@pytest.mark.parametrize("side", ["features", "residuals"])
def test_a_row_that_is_too_long_is_refused(side: str) -> None:
    x, r = np.zeros((3, 7), dtype=np.int16), np.zeros((3, 3), dtype=np.int16)
    long = x if side == "features" else r
    long[1, 0] = 51 if side == "features" else 21
    with pytest.raises(ArithmeticError):
        SUMS.query(x, r)


def test_too_many_records_are_refused() -> None:
    many = GradientSums(features=2**30, residuals=2**20, sigma=1.0)
    with pytest.raises(DataLensError, match="too many"):
        many.query(np.zeros((4, 1), dtype=np.int16), np.zeros((4, 1), dtype=np.int16))
