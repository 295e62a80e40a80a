"""Rule 1: a record reaches at most one teacher, whatever the records are."""

import secrets

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from datalens.data import Shards, deal
from datalens.errors import DataLensError


def keeps_rule_one(shards: Shards, n_records: int, n_teachers: int) -> bool:
    positions = shards.positions
    return (
        positions.shape == (n_teachers, n_records // n_teachers)
        and np.unique(positions).size == positions.size
        and positions.min() >= 0
        and positions.max() < n_records
        and positions.size + shards.left_over == n_records
    )


def wrapping_deal(n_records: int, n_teachers: int) -> Shards:
    """How the reference code deals: it starts over when the records run out."""
    size = n_records // n_teachers
    start = n_records // 2
    order = np.arange(start, start + n_teachers * size) % (n_records - 1)
    return Shards(
        positions=order.reshape(n_teachers, size), left_over=n_records - n_teachers * size
    )


@st.composite
def sizes(draw: st.DrawFn) -> tuple[int, int]:
    n_teachers = draw(st.integers(1, 60))
    return draw(st.integers(2 * n_teachers, 400)), n_teachers


@settings(deadline=None)
@given(sizes=sizes(), seed=st.binary(min_size=1, max_size=40))
def test_every_record_reaches_at_most_one_teacher(sizes: tuple[int, int], seed: bytes) -> None:
    assert keeps_rule_one(deal(*sizes, seed=seed), *sizes)


def test_the_check_sees_a_record_dealt_twice() -> None:
    assert not keeps_rule_one(wrapping_deal(100, 10), 100, 10)


def test_left_over_records_are_counted() -> None:
    shards = deal(107, 10, seed=b"secret")
    assert (shards.n_teachers, shards.shard_size, shards.left_over) == (10, 10, 7)


def test_the_seed_alone_decides() -> None:
    first, again, other = (deal(1000, 10, seed=seed).positions for seed in (b"a", b"a", b"b"))
    assert np.array_equal(first, again)
    assert not np.array_equal(first, other)


def test_shards_stay_the_same_between_versions() -> None:
    """A change here would give a resumed run other shards than it began with."""
    assert deal(8, 2, seed=b"datalens").positions.tolist() == [[6, 7, 1, 0], [4, 3, 5, 2]]


def test_every_position_is_as_likely_to_go_to_every_teacher() -> None:
    counts = np.zeros((12, 3))
    for number in range(3000):
        positions = deal(12, 3, seed=number.to_bytes(4, "big")).positions
        for teacher in range(3):
            counts[positions[teacher], teacher] += 1
    # 1000 expected, standard deviation 26: five of them, in 36 cells.
    assert np.abs(counts - 1000).max() < 130


@pytest.mark.parametrize(
    "n_records, n_teachers, says",
    [
        (10, 20, "at most 5 teachers"),
        (10, 10, "at most 5 teachers"),
        (19, 10, "at most 9 teachers"),
        (1, 1, "add records"),
        (10, 0, "n_teachers"),
        (10, -3, "n_teachers"),
        (0, 1, "n_records"),
        (10, 2.5, "n_teachers"),
        (10, float("nan"), "n_teachers"),
        (True, 1, "n_records"),
    ],
)
def test_bad_numbers_are_refused(n_records: int, n_teachers: int, says: str) -> None:
    with pytest.raises(DataLensError, match=says):
        deal(n_records, n_teachers, seed=secrets.token_bytes(32))


@pytest.mark.parametrize("seed", [b"", "text", 7, None])
def test_the_seed_must_be_bytes(seed: bytes) -> None:
    with pytest.raises(DataLensError, match="seed"):
        deal(10, 2, seed=seed)
