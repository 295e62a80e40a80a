"""Workers share what is to be done, and end together."""

import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
import torch

from datalens.ensemble.native import function_of_torch
from datalens.ensemble.workers import Workers

from .threads import threads


def workers(count: int) -> Workers:
    found = Workers(torch.device("cpu"))
    found.count = count
    return found


def test_every_item_is_taken_once() -> None:
    taken = workers(3).share(range(100), list)
    assert sorted(item for items in taken for item in items) == list(range(100))


def in_a_thread(work: Callable[[], Any]) -> Any:
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(work).result()


def own_numbers() -> set[int]:
    """How many threads the calling one would divide its work over: PyTorch's, OpenMP's, MKL's."""
    asked = map(function_of_torch, ("omp_get_max_threads", "MKL_Get_Max_Threads"))
    return {torch.get_num_threads(), *(number() for number in asked if number is not None)}


def test_workers_compute_alone_whatever_is_set_elsewhere() -> None:
    own = workers(2)
    own.share(range(2), list)  # they have begun, and divided nothing yet

    def work(items: Iterator[int]) -> set[int]:
        in_a_thread(lambda: torch.set_num_threads(3))
        return own_numbers()

    with threads(4):
        own.share(range(2), list)
        assert own.share(range(2), work) == [{1}, {1}]
        assert workers(2).share(range(2), work) == [{1}, {1}]


def test_others_keep_their_threads() -> None:
    """While workers compute, afterwards, and after a failure; new ones too."""

    def work(items: Iterator[int]) -> int:
        return int(in_a_thread(torch.get_num_threads))

    with threads(4):
        assert workers(2).share(range(2), work) == [4, 4]
        with pytest.raises(ZeroDivisionError):
            workers(2).share(range(2), lambda items: 1 // 0)
        assert own_numbers() == in_a_thread(own_numbers) == {4}


def test_a_failure_ends_the_others_with_the_item_they_have() -> None:
    done: list[int] = []
    failed = threading.Event()

    def work(items: Iterator[int]) -> None:
        for item in items:
            if item == 1:
                failed.set()
                raise ValueError("no")
            failed.wait(10)
            time.sleep(0.05)
            done.append(item)

    with pytest.raises(ValueError, match="no"):
        workers(2).share(range(50), work)
    assert len(done) < 10
