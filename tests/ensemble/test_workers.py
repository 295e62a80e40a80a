"""Workers share what is to be done, and end together."""

import threading
import time
from collections.abc import Iterator

import pytest
import torch

from datalens.ensemble.workers import Workers


def workers(count: int) -> Workers:
    found = Workers(torch.device("cpu"))
    found.count = count
    return found


def test_every_item_is_taken_once() -> None:
    taken = workers(3).share(range(100), list)
    assert sorted(item for items in taken for item in items) == list(range(100))


def test_workers_compute_alone_and_leave_others_their_threads() -> None:
    before = torch.get_num_threads()
    assert workers(2).share(range(2), lambda items: torch.get_num_threads()) == [1, 1]
    found: list[int] = []
    thread = threading.Thread(target=lambda: found.append(torch.get_num_threads()))
    thread.start()
    thread.join()
    assert (torch.get_num_threads(), found) == (before, [before])


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
