"""Sums of bounded integer records, and how far one record moves them."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from datalens.errors import DataLensError
from datalens.mechanism.moments import ClassCounts, ClassSums, SecondMoments, bounded, flat
from datalens.mechanism.noise import SeededNoise

CENTRES = np.array([[10, 0, 200, 30], [0, 0, 0, 0], [255, 255, 0, 1]], dtype=np.int64)
MECHANISMS = [
    ClassSums(bound=150, sigma=5.0, n_classes=3),
    SecondMoments(bound=90, sigma=5.0, centres=CENTRES),
    ClassCounts(sigma=2.0, n_classes=3),
]
images = st.lists(st.lists(st.integers(0, 255), min_size=4, max_size=4), min_size=5, max_size=5)
labels = st.lists(st.integers(0, 2), min_size=5, max_size=5)


def as_images(rows: list[list[int]]) -> np.ndarray:
    return np.array(rows, dtype=np.uint8).reshape(-1, 1, 2, 2)


@settings(max_examples=100, deadline=None)
@given(rows=images, bound=st.integers(1, 400))
def test_rows_are_bounded_and_short_ones_untouched(rows: list[list[int]], bound: int) -> None:
    before = flat(as_images(rows))
    after = bounded(before, bound)
    assert ((after**2).sum(axis=1) <= bound**2).all()
    short = (before**2).sum(axis=1) <= bound**2
    assert (after[short] == before[short]).all()


@pytest.mark.parametrize("mechanism", MECHANISMS, ids=lambda m: m.event.what)
@settings(max_examples=60, deadline=None)
@given(rows=images, classes=labels, other=images, other_class=st.integers(0, 2))
def test_one_record_moves_the_query_within_its_sensitivity(
    mechanism: ClassSums | SecondMoments | ClassCounts,
    rows: list[list[int]],
    classes: list[int],
    other: list[list[int]],
    other_class: int,
) -> None:
    kept, its = as_images(rows), np.array(classes, dtype=np.int64)
    query = mechanism.query(kept, its)
    blanked = mechanism.query(kept[1:], its[1:])  # a blank adds nothing
    assert ((query - blanked) ** 2).sum() <= mechanism.event.squared_sensitivity
    swapped, swapped_class = kept.copy(), its.copy()
    swapped[0], swapped_class[0] = as_images(other)[0], other_class
    moved = ((query - mechanism.query(swapped, swapped_class)) ** 2).sum()
    assert moved <= mechanism.event.squared_sensitivity_replace


def test_replacing_can_move_sums_further_than_blanking() -> None:
    """The control: the blanked sensitivity would be wrong for replacement."""
    counts = MECHANISMS[2]
    one = np.zeros((1, 1, 2, 2), dtype=np.uint8)
    first, second = (counts.query(one, np.array([label])) for label in (0, 1))
    assert ((first - second) ** 2).sum() > counts.event.squared_sensitivity


def test_second_moments_are_exact_integers() -> None:
    chance = np.random.default_rng(0)
    many = chance.integers(0, 256, (5000, 1, 4, 4), dtype=np.uint8)
    classes = np.zeros(5000, dtype=np.int64)
    centres = np.zeros((1, 16), dtype=np.int64)
    rows = [int(v) for v in many[:, 0, 0, 0]], [int(v) for v in many[:, 0, 0, 1]]
    exact = sum(a * b for a, b in zip(*rows, strict=True))
    moments = SecondMoments(bound=10_000, sigma=1.0, centres=centres)
    query = moments.query(many, classes)
    assert moments.matrix(query)[0, 1] == exact and query.shape == (16 * 17 // 2,)


def test_class_sums_add_up_by_class() -> None:
    sums = MECHANISMS[0].query(
        as_images([[1, 2, 3, 4], [5, 6, 7, 8], [1, 1, 1, 1]]), np.array([0, 2, 0])
    )
    assert sums.tolist() == [[2, 3, 4, 5], [0, 0, 0, 0], [5, 6, 7, 8]]


@pytest.mark.parametrize("n", [1, 4097])
def test_the_brightest_records_are_summed_exactly(n: int) -> None:
    """Every pixel at 255: sums and squares are the integers they should be."""
    white = np.full((n, 3, 8, 8), 255, dtype=np.uint8)
    classes = np.zeros(n, dtype=np.int64)
    longest = math.isqrt(192 * 255**2) + 1
    sums = ClassSums(bound=longest, sigma=1.0, n_classes=2).query(white, classes)
    assert sums.dtype == np.int64 and (sums == [[255 * n], [0]]).all()
    nowhere = np.zeros((1, 192), dtype=np.int64)
    moments = SecondMoments(bound=longest, sigma=1.0, centres=nowhere)
    squares = moments.query(white, classes)
    assert squares.dtype == np.int64 and (moments.matrix(squares) == 255**2 * n).all()


def test_what_could_round_or_overflow_is_refused() -> None:
    """Second moments of n records stay below n * 255^2, which floats hold up to 2^53."""

    class Many:  # as many records as it takes, and none of them in memory
        shape = (2**38, 1, 2, 2)

        def __len__(self) -> int:
            return self.shape[0]

    about = SecondMoments(bound=9, sigma=1.0, centres=CENTRES)
    with pytest.raises(DataLensError, match="too many"):
        about.query(Many(), np.zeros(0, dtype=np.int64))  # type: ignore[arg-type]
    far = SecondMoments(bound=9, sigma=1.0, centres=np.full((1, 4), 2**40))
    with pytest.raises(ArithmeticError, match="between 0 and 255"):
        far.query(as_images([[1, 2, 3, 4]]), np.array([0]))
    for value in (256, -(2**63), 2**32):  # 2^32 squared would wrap to 0, and pass as short
        with pytest.raises(ArithmeticError):
            bounded(np.array([[value, 0]]), 5)
    assert ((np.array([2**32]) ** 2) == 0).all()  # the control: it would
    with pytest.raises(DataLensError, match="bound"):
        bounded(np.array([[1, 2]]), -5)


@pytest.mark.parametrize("mechanism", MECHANISMS, ids=lambda m: m.event.what)
def test_a_query_and_its_release_are_64_bit_integers(
    mechanism: ClassSums | SecondMoments | ClassCounts,
) -> None:
    query = mechanism.query(as_images([[1, 2, 3, 4], [250, 251, 252, 253]]), np.array([0, 2]))
    noise = mechanism.draw(query.shape, noise=SeededNoise(b"s"), key="k")
    assert query.dtype == noise.dtype == np.int64 and query.shape == noise.shape
