"""Many runs of an attack, side by side on all cores."""

import os
import signal
import tempfile
from collections.abc import Callable, Iterator
from concurrent.futures import Executor, ProcessPoolExecutor, as_completed
from contextlib import contextmanager
from multiprocessing import get_context, parent_process
from pathlib import Path
from threading import Thread
from typing import Literal

import torch

from datalens.privacy.audit import Transcript

World = Literal["blanked", "present"]
WORLDS: tuple[World, World] = ("blanked", "present")
Attack = Callable[[World, int], Transcript]
"""So many runs in one world. It must be a function of a module, to reach other processes."""
Tell = Callable[[int, int], None]

BATCH = 50
"""Runs between two words of progress."""


def play(attack: Attack, trials: int, *, pool: Executor | None = None, tell: Tell) -> Transcript:
    """`trials` runs in each world; without a pool in this process, as tests like it."""
    sizes = [min(BATCH, trials - start) for start in range(0, trials, BATCH)]
    tasks = [(world, size) for size in sizes for world in WORLDS]
    if pool is None:
        found = []
        for number, (world, size) in enumerate(tasks):
            found.append(attack(world, size))
            tell(number + 1, len(tasks))
        return Transcript.joined(found)
    waiting = [pool.submit(attack, world, size) for world, size in tasks]
    for number, _ in enumerate(as_completed(waiting)):
        tell(number + 1, len(tasks))
    return Transcript.joined(done.result() for done in waiting)


@contextmanager
def all_cores() -> Iterator[Executor]:
    """A process for each core, each with one thread. If anything goes wrong, nothing new begins."""
    pool = ProcessPoolExecutor(mp_context=get_context("spawn"), initializer=_begin)
    try:
        yield pool
    finally:
        pool.shutdown(cancel_futures=True)


def _begin() -> None:
    """One thread a process; the process that asked hears Ctrl-C, and its end is ours."""
    torch.set_num_threads(1)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    Thread(target=_end_with_parent, daemon=True).start()


def _end_with_parent() -> None:
    parent = parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)  # killed: nobody is left to be told


@contextmanager
def scratch() -> Iterator[Path]:
    """A folder for ledgers and releases of runs on made-up data, in memory where there is any."""
    memory = Path("/dev/shm")
    place = memory if os.access(memory, os.W_OK) else None
    with tempfile.TemporaryDirectory(prefix="datalens-audit-", dir=place) as folder:
        yield Path(folder)
