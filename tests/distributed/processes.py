"""Ranks as real processes: the command line, started as torchrun would.

They are forked from a server that has imported everything once, so that a rank starts at once.
"""

import os
import runpy
import socket
import time
from collections.abc import Callable
from multiprocessing import get_context
from pathlib import Path
from typing import Any

CHILD = Path(__file__).with_name("child.py")
IMPORTED = ["datalens.workflows.fitting", "datalens.workflows.joining", "sklearn.datasets"]
IMPORTED += ["torch.distributed.rendezvous", "torch._dynamo"]  # an optimiser imports the latter


def free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])


class Processes:
    """The ranks of one command; `words` and `environment` may be given per rank."""

    def __init__(
        self,
        size: int,
        folder: Path,
        words: Callable[[int], list[object]],
        environment: Callable[[int], dict[str, str]] = lambda rank: {},
    ) -> None:
        context: Any = get_context("forkserver")
        context.set_forkserver_preload(IMPORTED)
        port, self.folder = free_port(), folder
        folder.mkdir(parents=True, exist_ok=True)
        self.processes = []
        for rank in range(size):
            known = {
                "environment": {
                    **dict(os.environ),
                    "OMP_NUM_THREADS": "1",
                    "RANK": str(rank),
                    "WORLD_SIZE": str(size),
                    "LOCAL_WORLD_SIZE": str(size),
                    "MASTER_ADDR": "127.0.0.1",
                    "MASTER_PORT": str(port),
                    **environment(rank),
                },
                "words": [str(word) for word in words(rank)],
                "stdout": str(folder / f"out-{rank}"),
                "stderr": str(folder / f"err-{rank}"),
            }
            process = context.Process(target=runpy.run_path, args=(str(CHILD), known))
            process.start()
            self.processes.append(process)

    def kill(self, rank: int, number: int) -> None:
        os.kill(self.processes[rank].pid, number)

    def codes(self, *, seconds: float = 60) -> list[int | None]:
        """Exit codes, once all have ended; None for those that have not."""
        end = time.monotonic() + seconds
        for process in self.processes:
            process.join(max(0.0, end - time.monotonic()))
        return [process.exitcode for process in self.processes]

    def err(self, rank: int) -> str:
        return (self.folder / f"err-{rank}").read_text()

    def out(self, rank: int) -> str:
        return (self.folder / f"out-{rank}").read_text()

    def sentences(self) -> list[str]:
        """What each rank says at its end."""
        lines = [self.err(rank).splitlines() for rank in range(len(self.processes))]
        return [next((x for x in found if x.startswith("datalens: ")), "") for found in lines]


def wait_for(path: Path, *, seconds: float = 60) -> None:
    end = time.monotonic() + seconds
    while not path.exists():
        if time.monotonic() > end:
            raise TimeoutError(f"{path} does not appear")
        time.sleep(0.002)
