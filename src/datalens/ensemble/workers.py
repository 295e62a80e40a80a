"""Blocks of teachers on the cores of this machine: one core a block."""

from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import FIRST_EXCEPTION, Future, ThreadPoolExecutor, wait
from threading import Lock
from typing import Generic, TypeVar

import torch

Item = TypeVar("Item")
Result = TypeVar("Result")


class Workers:
    """As many threads as PyTorch has been given, each of which computes alone.

    PyTorch would divide each product and each sum over all cores. Teachers are independent, so that
    whole blocks can be divided, which needs no waiting; and a block's numbers are then the same
    however many cores there are. A GPU has one worker: it computes at once what it is given.
    """

    def __init__(self, device: torch.device) -> None:
        self.count = torch.get_num_threads() if device.type == "cpu" else 1
        self._pool: ThreadPoolExecutor | None = None

    def share(
        self, items: Iterable[Item], work: Callable[[Iterator[Item]], Result]
    ) -> list[Result]:
        """Every worker takes items as it has time, and makes one result of those it took.

        If one fails, or the caller is interrupted, the others end with the item they have.
        """
        if self._pool is None:
            self._pool = ThreadPoolExecutor(
                self.count, "teachers", initializer=torch.set_num_threads, initargs=(1,)
            )
        shared = _Shared(items)
        results: list[Future[Result]] = []
        try:
            results += [self._pool.submit(work, shared) for _ in range(self.count)]
            wait(results, return_when=FIRST_EXCEPTION)
        finally:
            shared.stop()
            wait(results)
            # A worker's choice is also the default of threads to come: put that right again.
            torch.set_num_threads(torch.get_num_threads())
        return [result.result() for result in results]


class _Shared(Generic[Item]):
    """An iterator that several threads may draw from."""

    def __init__(self, items: Iterable[Item]) -> None:
        self._items = iter(items)
        self._lock = Lock()
        self._stopped = False

    def __iter__(self) -> "_Shared[Item]":
        return self

    def __next__(self) -> Item:
        with self._lock:
            if self._stopped:
                raise StopIteration
            return next(self._items)

    def stop(self) -> None:
        with self._lock:
            self._stopped = True
