"""Feature sums: exact, and how far one record can move them."""

from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from datalens import DataLensError
from datalens.mechanism import embeddings
from datalens.mechanism.embeddings import CHUNK, FeatureSums
from datalens.mechanism.noise import Integers
from datalens.privacy.replan import sensitivities

CLASSES, WIDTH = 3, 40
Rows = NDArray[np.float64]


def sums(bound: int = 9) -> FeatureSums:
    return FeatureSums(bound=bound, sigma=1.0, n_classes=CLASSES)


def of_rows(rows: Rows) -> Callable[[NDArray[np.uint8]], Rows]:
    """Features by number: the "images" say which row is whose."""
    return lambda images: rows[images.reshape(len(images))]


def query(rows: Rows, labels: Integers, bound: int = 9) -> Integers:
    numbers = np.arange(len(rows), dtype=np.uint8).reshape(-1, 1, 1, 1)
    return sums(bound).query(numbers, labels, of_rows(rows))


def largest_moves(chance: np.random.Generator, size: float) -> tuple[int, int]:
    """Squared: with each of a few records blanked, and with it replaced by its own opposite."""
    rows = size * chance.standard_normal((5, WIDTH)) / np.sqrt(WIDTH)
    rows[0] = size / np.sqrt(WIDTH)  # rounded to the nearest integers, this one grows most
    labels = chance.integers(0, CLASSES, 5)
    whole, blanked, replaced = query(rows, labels), 0, 0
    for record in range(5):
        others = np.arange(5) != record
        without = query(rows[others], labels[others])
        blanked = max(blanked, int(((whole - without) ** 2).sum()))
        turned = np.where(others[:, None], rows, -rows)
        replaced = max(replaced, int(((whole - query(turned, labels)) ** 2).sum()))
    return blanked, replaced


@settings(max_examples=50, deadline=None, derandomize=True)
@given(seed=st.integers(0, 2**32 - 1), size=st.sampled_from([0.5, 1.0, 1.0, 7.0, 1e9]))
def test_no_record_moves_the_sums_further_than_is_paid_for(seed: int, size: float) -> None:
    blanked, replaced = largest_moves(np.random.default_rng(seed), size)
    event = sums().event
    assert blanked <= event.squared_sensitivity
    assert replaced <= event.squared_sensitivity_replace


def test_a_mutant_that_bounds_before_it_rounds_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    def naive(places: Rows, *, unit: float, bound: int) -> Integers:
        lengths = np.sqrt((places**2).sum(axis=1, keepdims=True))
        return np.rint(bound * places / np.maximum(lengths, unit)).astype(np.int64)

    monkeypatch.setattr(embeddings, "on_grid", naive)
    with pytest.raises(ArithmeticError, match="longer than its bound"):
        largest_moves(np.random.default_rng(0), 1.0)


def test_both_sensitivities_are_reached_and_the_verifier_knows_them() -> None:
    """So neither could be claimed to be smaller; a record that is replaced is turned round."""
    one, none = np.eye(1, WIDTH), np.zeros((1, WIDTH))
    label, event = np.array([1]), sums(2**20).event
    there, gone, turned = (query((1 + 1e-9) * row, label, 2**20) for row in (one, none, -one))
    nearly = pytest.approx(event.squared_sensitivity, rel=1e-5)
    assert int(((there - gone) ** 2).sum()) == nearly
    assert int(((there - turned) ** 2).sum()) / 4 == nearly
    told = sensitivities("feature-sums", {"bound": 2**20})
    assert told == (event.squared_sensitivity, event.squared_sensitivity_replace)


def test_the_sum_is_that_of_rows_one_by_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where records do not fill a chunk, and where there are none."""
    chance = np.random.default_rng(3)
    rows, labels = chance.uniform(-0.1, 0.1, (20, WIDTH)), chance.integers(0, CLASSES, 20)
    expected = np.zeros((CLASSES, WIDTH), dtype=np.int64)
    for row, label in zip(rows, labels, strict=True):
        expected[label] += np.trunc(row * 1000).astype(np.int64)
    for chunk in (CHUNK, 7):
        monkeypatch.setattr(embeddings, "CHUNK", chunk)
        assert (query(rows, labels, 1000) == expected).all()
    assert (query(rows[:0], labels[:0]) == np.zeros((CLASSES, WIDTH))).all()


def test_what_cannot_be_summed_is_refused() -> None:
    with pytest.raises(DataLensError, match="too many"):
        query(np.zeros((2, WIDTH)), np.array([0, 0]), bound=2**51)
    with pytest.raises(DataLensError, match="bound"):
        FeatureSums(bound=0, sigma=1.0, n_classes=2)
