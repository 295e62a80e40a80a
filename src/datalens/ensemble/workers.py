"""Blocks of teachers on the cores of this machine: one core a block."""

from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import FIRST_EXCEPTION, Future, ThreadPoolExecutor, wait
from threading import Lock
from typing import Generic, TypeVar

import torch

from datalens.ensemble.native import function_of_torch

Item = TypeVar("Item")
Result = TypeVar("Result")


class Workers:
    """As many threads as PyTorch has been given, each of which computes alone.

    PyTorch would divide each product and each sum over all cores. Teachers are independent, so that
    whole blocks can be divided, which needs no waiting. A GPU has one worker: it computes at once
    what it is given.

    **Guarantee**: a product or a sum in a worker is computed by that worker's thread alone, so its
    bits depend neither on the number of threads nor on time. No call of torch.set_num_threads
    elsewhere changes that, also while workers compute, and nothing of the process but its workers
    is slowed. It holds for PyTorch's loops, oneDNN and MKL, as on x86; a library that has threads
    of its own, beside OpenMP's, is not held to it (see ``blas``).
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
            self._pool = ThreadPoolExecutor(self.count, "teachers", initializer=compute_alone)
        shared = _Shared(items)
        results: list[Future[Result]] = []
        try:
            results += [self._pool.submit(work, shared) for _ in range(self.count)]
            wait(results, return_when=FIRST_EXCEPTION)
        finally:
            shared.stop()
            wait(results)
        return [result.result() for result in results]


def compute_alone() -> None:
    """From now on the calling thread divides no product and no sum; other threads stay as they are.

    OpenMP and MKL keep a number of threads for each thread. torch.set_num_threads sets those of its
    caller, and a number of the process's, which every other thread takes up when it first divides
    anything: also one that has called torch.set_num_threads itself. So this thread takes that
    number up first, and then sets its own, and only its own.
    """
    torch.get_num_threads()
    # Without OpenMP there is PyTorch's alone, which also makes 1 the number of threads to come.
    (function_of_torch("omp_set_num_threads") or torch.set_num_threads)(1)
    mkl = function_of_torch("MKL_Set_Num_Threads_Local")  # in small letters it is Fortran's
    if mkl is not None:
        mkl(1)


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
