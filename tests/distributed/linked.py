"""Ranks as threads of this process, linked by socket pairs: for what needs no processes."""

import socket
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from datalens.ensemble import Ranks
from datalens.ensemble.links import Link


def linked(size: int, *, timeout: float = 10.0) -> list[Ranks]:
    pairs = {rank: socket.socketpair() for rank in range(1, size)}
    first = Ranks(0, size, [Link(r, mine) for r, (mine, _) in pairs.items()], timeout=timeout)
    others = [Ranks(r, size, [Link(0, its)], timeout=timeout) for r, (_, its) in pairs.items()]
    return [first, *others]


def together(ranks: list[Ranks], work: Callable[[Ranks], Any]) -> list[Any]:
    """What `work` returns or raises on each rank; one that fails tells the others."""

    def one(rank: Ranks) -> Any:
        try:
            return work(rank)
        except Exception as error:
            rank.fail(str(error))
            return error

    with ThreadPoolExecutor(len(ranks)) as pool:
        return list(pool.map(one, ranks))
