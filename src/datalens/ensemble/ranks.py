"""Ranks: the processes that have the teachers of one run divided among them.

Sums over ranks, which are large, go through torch.distributed. Everything else they do together is
one kind of exchange: each rank sends its part to rank 0, and rank 0 sends all of them the same
answer. A process on its own is rank 0 of 1.

The run's secret and the ranks' tallies are sent in the clear: ranks belong on a private network.
"""

import select
import time
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress

import numpy as np
import torch
from numpy.typing import NDArray

from datalens.ensemble.group import Group
from datalens.ensemble.links import Kind, Link, Lost, Message, meet, named_ranks, subject
from datalens.errors import DataLensError

Integers = NDArray[np.int64]

TIMEOUT = 600.0
"""Seconds without a word after which a rank counts as gone."""
GRACE = 5.0
"""Seconds that the others wait longer than rank 0, which can say who is missing."""


class RankFailed(DataLensError):
    """A failure of the ranks together, or of another one: a sentence that fits every rank."""


class Ranks:
    """This process among its like.

    Guarantee: the sum over ranks is used on rank 0 alone, and what the other ranks get back is what
    rank 0 makes of it. A wait ends after `timeout` seconds at most (and GRACE for ranks other
    than 0), with a sentence that names who was waited for.
    """

    def __init__(
        self,
        rank: int = 0,
        size: int = 1,
        links: Iterable[Link] = (),
        *,
        timeout: float = TIMEOUT,
        device: torch.device | None = None,
        group: Group | None = None,
    ) -> None:
        """`device` is where this rank's teachers are. Without a `group`, links carry the sums."""
        self.rank, self.size, self.timeout = rank, size, timeout
        self.device = device or torch.device("cpu")
        self.traffic: Counter[str] = Counter()
        """Bytes sent and received, by operation. Rank 0's are all that were on the way."""
        self._links = {link.rank: link for link in links}
        self._group = group

    @classmethod
    def meet(cls, *, timeout: float = TIMEOUT, device: torch.device | None = None) -> "Ranks":
        """The ranks that torchrun has started."""
        device = device or torch.device("cpu")
        met = meet(timeout)
        links = met.links.values()
        try:
            group = Group(met, device, timeout)
        except DataLensError:
            for link in links:
                link.close()
            raise
        return cls(met.rank, met.size, links, timeout=timeout, device=device, group=group)

    def exchange(self, what: str, part: bytes, answer: Callable[[Sequence[bytes]], bytes]) -> bytes:
        """Every rank's part, in order, made into one answer by rank 0, which every rank gets."""
        if self.rank:
            return self._ask(what, part)
        reply = answer([part, *self._gather(what)])
        for rank, link in self._links.items():
            try:
                link.send(Message(Kind.DATA, subject(what), reply), seconds=self.timeout)
            except Lost:
                raise self._gone([rank]) from None
            self._count(what, reply)
        return reply

    def tell(self, what: str, content: bytes) -> bytes:
        """Rank 0's content, to all; what the others pass does not matter."""
        return self.exchange(what, b"", lambda parts: content)

    def add(self, what: str, values: Integers, then: Callable[[Integers], bytes]) -> bytes:
        """The sum over all ranks goes to rank 0, and `then(sum)` from there to all.

        Links see to it that all are there before they add up together: who is missing is then
        known by name, and nobody waits for long where no signal reaches.
        """
        if self._group is not None:
            self.agree(f"the size of {what}", str(values.shape))
            total = self._group.total(values)
            for _ in self._links:  # rank 0's count is of all that was on the way
                self._count(what, values.data)
            return self.tell(what, then(total) if self.rank == 0 else b"")

        def answer(parts: Sequence[bytes]) -> bytes:
            if any(len(part) != values.nbytes for part in parts):
                raise RankFailed(f"the ranks' sums for {what} are not of one size.")
            total = values.copy()
            for part in parts[1:]:
                total += np.frombuffer(part, dtype=np.int64).reshape(values.shape)
            return then(total)

        return self.exchange(what, values.tobytes(), answer)

    def agree(self, what: str, value: str, *, remedy: str = "give all the same") -> None:
        """Every rank has the same value, or all end with a sentence that says who has which."""

        def answer(parts: Sequence[bytes]) -> bytes:
            others = {rank: p.decode() for rank, p in enumerate(parts) if p != parts[0]}
            if others:
                found = ", ".join(f"rank {rank} has {text}" for rank, text in others.items())
                raise RankFailed(
                    f"the ranks differ in {what}: rank 0 has {value}, {found}; {remedy}."
                )
            return b""

        self.exchange(f"agree on {what}", value.encode(), answer)

    def fail(self, sentence: str, *, stop: bool = False) -> None:
        """Tell the others why this rank ends; they say so too, when they next listen."""
        kind = Kind.STOP if stop else Kind.ERROR
        for link in self._links.values():
            with suppress(Lost):
                link.send(Message(kind, 0, sentence.encode()), seconds=1.0)

    def last_word(self) -> str | None:
        """What another rank has said of the end, for one that was ended from outside."""
        end = time.monotonic() + (GRACE if self.rank else 0.5)
        links, gone = dict(self._links), []
        while links and (ready := self._ready(links, end)):
            for link in ready:
                try:
                    message = link.receive(seconds=0.5)
                    self._check(link.rank, message, None)
                except Lost:
                    gone.append(link.rank)
                    del links[link.rank]
                except RankFailed as failed:
                    return str(failed)
        return str(self._gone(gone)) if gone else None

    def close(self) -> None:
        if self._group is not None:
            self._group.close()
        for link in self._links.values():
            link.close()

    def _ask(self, what: str, part: bytes) -> bytes:
        link, patience = self._links[0], self.timeout + GRACE
        with suppress(Lost):  # rank 0 may have ended, and said why before
            link.send(Message(Kind.DATA, subject(what), part), seconds=patience)
        self._count(what, part)
        try:
            message = link.receive(seconds=patience)
        except Lost:
            raise self._gone([0]) from None
        self._check(0, message, what)
        self._count(what, message.content)
        return message.content

    def _gather(self, what: str) -> list[bytes]:
        end = time.monotonic() + self.timeout
        waiting, parts = dict(self._links), {}
        while waiting:
            ready = self._ready(waiting, end)
            if not ready:
                raise self._gone(list(waiting))
            for link in ready:
                try:
                    message = link.receive(seconds=end - time.monotonic())
                except Lost:
                    raise self._gone([link.rank]) from None
                self._check(link.rank, message, what)
                self._count(what, message.content)
                parts[link.rank] = message.content
                del waiting[link.rank]
        return [parts[rank] for rank in self._links]

    def _ready(self, links: dict[int, Link], end: float) -> list[Link]:
        patience = max(end - time.monotonic(), 0.0)
        return select.select(list(links.values()), [], [], patience)[0]

    def _check(self, rank: int, message: Message, what: str | None) -> None:
        """Raise what the message says of the end, or that it belongs to another operation."""
        if message.kind == Kind.STOP:
            raise KeyboardInterrupt
        if message.kind == Kind.ERROR:
            raise RankFailed(message.content.decode())
        if what is not None and message.subject != subject(what):
            raise RankFailed(f"rank {rank} is not at {what}, where rank {self.rank} is.")

    def _gone(self, ranks: list[int]) -> RankFailed:
        fate = "is gone or does" if len(ranks) == 1 else "are gone or do"
        return RankFailed(
            f"{named_ranks(sorted(ranks))} {fate} not answer (waited {self.timeout:g} s at most);"
            " nothing released is lost: go on with --resume."
        )

    def _count(self, what: str, content: bytes | memoryview) -> None:
        self.traffic[what.split("/")[0]] += memoryview(content).nbytes


ALONE = Ranks()
"""A process on its own."""
