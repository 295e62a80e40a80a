"""Sums over clusters: exact, bounded, and priced by their bounds."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from datalens.errors import DataLensError
from datalens.mechanism.clusters import ClusterMoments, ClusterSums, on_grid

SUMS = ClusterSums(bound=100, weight=50, n_clusters=3, sigma=10.0)
MOMENTS = ClusterMoments(bound=100, sigma=10.0)


def drawn(seed: int, n: int = 8) -> tuple[np.ndarray, np.ndarray]:
    """Rows, some of them cut to the bound, and their clusters."""
    chance = np.random.default_rng(seed)
    rows = on_grid(3 * chance.normal(size=(n, 5)), unit=2.0, bound=100)
    return rows, chance.integers(0, 3, n)


def test_sums_are_what_they_are_called() -> None:
    rows, clusters = drawn(0, 500)
    found = SUMS.query(rows, clusters)
    for k in range(3):
        own = clusters == k
        assert (found[k, :-1] == rows[own].sum(axis=0)).all()
        assert found[k, -1] == 50 * own.sum()
    whole = sum(np.outer(row, row) for row in rows)
    assert (MOMENTS.matrix(MOMENTS.query(rows)) == whole).all()


@settings(max_examples=100, deadline=None)
@given(seed=st.integers(0, 2**32 - 1))
def test_one_record_moves_them_by_no_more_than_is_paid_for(seed: int) -> None:
    rows, clusters = drawn(seed)
    other, elsewhere = rows.copy(), clusters.copy()
    other[0], elsewhere[0] = -rows[0], (clusters[0] + seed) % 3
    for mechanism, whole, blanked, replaced in (
        (
            SUMS,
            SUMS.query(rows, clusters),
            SUMS.query(rows[1:], clusters[1:]),
            SUMS.query(other, elsewhere),
        ),
        (
            MOMENTS,
            MOMENTS.query(rows),
            MOMENTS.query(rows[1:]),
            MOMENTS.query(np.vstack([np.roll(rows[:1], 1), rows[1:]])),
        ),
    ):
        event = mechanism.event
        assert ((whole - blanked) ** 2).sum() <= event.squared_sensitivity
        assert ((whole - replaced) ** 2).sum() <= event.squared_sensitivity_replace


def test_a_record_in_another_cluster_moves_more_than_a_blanked_one() -> None:
    """The control: the price of a blanked record would not pay for a replaced one."""
    rows = np.array([[100, 0, 0, 0, 0]])
    moved = SUMS.query(rows, np.array([0])) - SUMS.query(rows, np.array([1]))
    assert (moved**2).sum() > SUMS.event.squared_sensitivity


def test_a_row_that_is_too_long_is_refused() -> None:
    rows, clusters = np.zeros((4, 5), dtype=np.int64), np.zeros(4, dtype=np.int64)
    rows[2, :2] = 80, 61
    for ask in (lambda: SUMS.query(rows, clusters), lambda: MOMENTS.query(rows)):
        with pytest.raises(ArithmeticError):
            ask()
    rows[2] = 2**40  # whose square overflows
    with pytest.raises(ArithmeticError):
        SUMS.query(rows, clusters)
    rows[2] = -(2**63)  # which has no absolute value
    with pytest.raises(ArithmeticError):
        SUMS.query(rows, clusters)
    with pytest.raises(ArithmeticError):
        on_grid(np.array([[np.nan, 0.0]]), unit=1.0, bound=10)


@settings(max_examples=100, deadline=None)
@given(
    seed=st.integers(0, 2**32 - 1),
    scale=st.floats(1e-6, 1e6),
    kind=st.sampled_from([np.float32, np.float64]),
)
def test_rows_on_the_grid_are_never_too_long(seed: int, scale: float, kind: type) -> None:
    places = (scale * np.random.default_rng(seed).normal(size=(20, 3))).astype(kind)
    rows = on_grid(places, unit=1.0, bound=1024)
    assert ((rows**2).sum(axis=1) <= 1024**2).all()
    short = np.sqrt((places.astype(float) ** 2).sum(axis=1)) < 0.999
    np.testing.assert_allclose(rows[short], places[short] * 1024, atol=1.01)


def test_too_many_records_are_refused() -> None:
    many = ClusterMoments(bound=2**26, sigma=1.0)
    with pytest.raises(DataLensError, match="too many"):
        many.query(np.zeros((2, 1), dtype=np.int64))
