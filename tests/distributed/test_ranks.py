"""What ranks do together: exchange, add, agree; and which teachers each has."""

import socket
import threading
import time

import numpy as np
import pytest

from datalens.ensemble import ALONE, RankFailed, Ranks, own_teachers
from datalens.ensemble.links import Kind, Link, Lost, Message
from datalens.errors import DataLensError

from .linked import linked, together


def test_the_sum_is_rank_0_s_alone_and_the_answer_everybody_s() -> None:
    seen = {}

    def work(ranks: Ranks) -> bytes:
        def then(total: np.ndarray) -> bytes:
            seen[ranks.rank] = total.tolist()
            return b"answer"

        return ranks.add("votes/0", np.array([[ranks.rank, -(2**40)]]), then)

    assert together(linked(4), work) == [b"answer"] * 4
    assert seen == {0: [[6, -4 * 2**40]]}


def test_alone_is_a_case_of_it() -> None:
    assert ALONE.add("votes", np.array([3]), lambda total: bytes(total.tolist())) == b"\x03"
    assert ALONE.tell("out", b"here") == b"here"
    ALONE.agree("anything", "at all")
    assert not ALONE.traffic["votes"]


def test_traffic_is_what_was_on_the_way() -> None:
    ranks = linked(3)
    together(ranks, lambda r: r.add("votes/7", np.zeros(100, np.int64), lambda total: b"12345"))
    assert [r.traffic["votes"] for r in ranks] == [2 * 805, 805, 805]


class Adding:
    """What torch.distributed does, between threads."""

    def __init__(self, size: int) -> None:
        self.parts: list[np.ndarray] = []
        self.all_there = threading.Barrier(size)

    def total(self, values: np.ndarray) -> np.ndarray:
        self.parts.append(values)
        self.all_there.wait(10)
        return np.sum(self.parts, axis=0)


def test_sums_by_a_group_are_the_same_and_count_as_traffic() -> None:
    ranks, adding = linked(3), Adding(3)
    for rank in ranks:
        rank._group = adding  # type: ignore[assignment]
    found = together(ranks, lambda r: r.add("votes/7", np.full(100, r.rank), np.ndarray.tobytes))
    assert found == [np.full(100, 3).tobytes()] * 3
    assert [r.traffic["votes"] for r in ranks] == [2 * 1600, 1600, 1600]


def test_a_sum_of_another_size_is_named() -> None:
    ranks, adding = linked(2), Adding(2)
    for rank in ranks:
        rank._group = adding  # type: ignore[assignment]
    errors = together(ranks, lambda r: r.add("votes", np.zeros(1 + r.rank, np.int64), bytes))
    assert all("differ in the size of votes" in str(error) for error in errors)


def test_those_who_differ_are_named() -> None:
    def work(ranks: Ranks) -> None:
        ranks.agree("the data", "this" if ranks.rank in (0, 2) else "that")

    sentence = "the ranks differ in the data: rank 0 has this, rank 1 has that, rank 3 has that;"
    for error in together(linked(4), work):
        assert isinstance(error, RankFailed) and str(error).startswith(sentence)


def test_ranks_at_different_points_of_the_run_do_not_mix() -> None:
    def work(ranks: Ranks) -> bytes:
        return ranks.tell(f"recall/votes/{ranks.rank}", b"release")

    first, second = together(linked(2), work)
    assert isinstance(first, RankFailed) and "rank 1 is not at recall/votes/0" in str(first)
    assert str(second) == str(first)


def test_sums_of_different_sizes_are_refused() -> None:
    def work(ranks: Ranks) -> bytes:
        return ranks.add("votes", np.zeros(2 + ranks.rank, np.int64), lambda total: b"")

    assert all("not of one size" in str(error) for error in together(linked(2), work))


def test_silence_has_an_end_and_a_name() -> None:
    """Rank 2 says nothing; rank 1 is told by rank 0, which waits less long."""
    ranks = linked(3, timeout=0.3)
    started = time.monotonic()
    for error in together(ranks[:2], lambda r: r.tell("x", b"")):
        assert "rank 2 is gone or does not answer (waited 0.3 s at most)" in str(error)
    assert time.monotonic() - started < 60


def test_a_message_that_was_cut_off_is_never_taken_for_another() -> None:
    """After an interrupted send the link is of no more use, so that no two messages run into
    each other and pass for a release."""
    mine, its = socket.socketpair()
    link, other = Link(1, mine), Link(0, its)
    big = Message(Kind.DATA, 0, bytes(1 << 24))
    with pytest.raises(Lost):
        link.send(big, seconds=0.1)  # nobody reads
    with pytest.raises(Lost):
        link.send(Message(Kind.ERROR, 0, b"word"), seconds=0.1)
    threading.Timer(0.2, link.close).start()
    with pytest.raises(Lost):
        other.receive(seconds=5)


def test_every_teacher_has_one_rank_and_blocks_stay_whole() -> None:
    for n_teachers, block_size, size in [(10, 2, 4), (9, 2, 5), (100, 7, 3), (8, 8, 1), (5, 1, 5)]:
        parts = [
            own_teachers(rank, size, n_teachers=n_teachers, block_size=block_size)
            for rank in range(size)
        ]
        assert [number for part in parts for number in part] == list(range(n_teachers))
        assert all(part.start % block_size == 0 for part in parts)
        blocks = [-(-len(part) // block_size) for part in parts]
        assert max(blocks) - min(blocks) <= 1
    with pytest.raises(DataLensError, match="over 5 ranks at most, not 6"):
        own_teachers(0, 6, n_teachers=9, block_size=2)
