"""What tests run under: a number of threads, and a process that is busy with other things."""

from collections.abc import Iterator
from contextlib import contextmanager
from itertools import cycle
from threading import Event, Thread

import torch


@contextmanager
def threads(count: int) -> Iterator[None]:
    """So many in this thread; then one again, as all tests have."""
    torch.set_num_threads(count)
    try:
        yield
    finally:
        torch.set_num_threads(1)


@contextmanager
def disturbed() -> Iterator[None]:
    """Another thread computes all the time, in bfloat16, and on another number of threads."""
    over = Event()

    def disturb() -> None:
        x = torch.ones(64, 64)
        for count in cycle((4, 1, 3)):
            if over.is_set():
                return
            torch.set_num_threads(count)
            with torch.autocast("cpu", torch.bfloat16):
                torch.mm(x, x)

    other = Thread(target=disturb)
    other.start()
    try:
        yield
    finally:
        over.set()
        other.join()
