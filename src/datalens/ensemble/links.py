"""Connections between ranks: whole messages over TCP, and how the ranks find each other.

Plain sockets for all but the sums, because a wait on one can be interrupted by a signal, has an
end, and knows which rank it waited for. Nothing is pickled.
"""

import os
import secrets
import select
import socket
import struct
import time
from contextlib import suppress
from dataclasses import dataclass
from datetime import timedelta
from enum import IntEnum
from typing import TYPE_CHECKING
from zlib import crc32

from datalens.errors import DataLensError

if TYPE_CHECKING:
    from torch.distributed import Store

_HEADER = struct.Struct("!BIQ")
_HELLO_SECONDS = 5.0
LOOPBACK = "127.0.0.1"
LONGEST = 2**32
"""Bytes of one message, at most."""


class Kind(IntEnum):
    """What a message is: a part of the work, or a word on how the run ends."""

    DATA, ERROR, STOP = range(3)


class Lost(Exception):
    """The rank at the other end is gone, or has not answered in time."""


@dataclass(frozen=True)
class Message:
    kind: Kind
    subject: int
    """Checksum of the name of the operation it belongs to."""
    content: bytes


def subject(what: str) -> int:
    return crc32(what.encode())


class Link:
    """The connection to one other rank.

    Interrupted within a message, by a signal or by the time, it is of no more use in that
    direction: what came next would be taken for the rest of the message.
    """

    def __init__(self, rank: int, connection: socket.socket) -> None:
        self.rank = rank
        self._connection = connection
        self._may_send = self._may_receive = True

    def fileno(self) -> int:
        return self._connection.fileno()

    def send(self, message: Message, *, seconds: float) -> None:
        """Send it whole, or raise `Lost`."""
        if not self._may_send:
            raise Lost
        self._may_send = False
        header = _HEADER.pack(message.kind, message.subject, len(message.content))
        try:
            self._connection.settimeout(max(seconds, 0.001))
            self._connection.sendall(header + message.content)
        except OSError:  # also a timeout
            raise Lost from None
        self._may_send = True

    def receive(self, *, seconds: float) -> Message:
        """The next message, or `Lost`."""
        end = time.monotonic() + seconds
        # Waiting takes nothing from the link: interrupted here, it can still be used.
        if not self._may_receive or not select.select([self], [], [], max(seconds, 0.0))[0]:
            raise Lost
        self._may_receive = False
        kind, about, size = _HEADER.unpack(self._exactly(_HEADER.size, end))
        if kind not in tuple(Kind) or size > LONGEST:
            raise Lost
        message = Message(Kind(kind), about, self._exactly(size, end))
        self._may_receive = True
        return message

    def close(self) -> None:
        self._connection.close()

    def _exactly(self, size: int, end: float) -> bytes:
        content = bytearray()
        while len(content) < size:
            try:
                self._connection.settimeout(max(end - time.monotonic(), 0.001))
                piece = self._connection.recv(min(size - len(content), 1 << 20))
            except OSError:  # also a timeout
                raise Lost from None
            if not piece:
                raise Lost
            content += piece
        return bytes(content)


@dataclass(frozen=True)
class Meeting:
    """Who this process is among the ranks, and its links: rank 0 to all, the others to rank 0."""

    rank: int
    size: int
    links: dict[int, Link]
    host: str
    """Where rank 0 listens."""
    store: "Store"


def meet(seconds: float) -> Meeting:
    """Find the other ranks through what torchrun puts into the environment.

    Rank 0 listens and leaves its address and a token in torchrun's store; only who knows the token
    is let in. Where all ranks are on one machine, nobody from outside can connect.
    """
    from torch.distributed.rendezvous import rendezvous

    end = time.monotonic() + seconds
    where = f"{os.environ.get('MASTER_ADDR')}:{os.environ.get('MASTER_PORT')}"
    key = f"datalens/{os.environ.get('TORCHELASTIC_RESTART_COUNT', '0')}"
    try:
        store, rank, size = next(rendezvous("env://", timeout=timedelta(seconds=seconds)))
        if rank > 0:
            host, port, token = store.get(key).decode().split()
            links = {0: _knock((host, int(port)), token, rank, end)}
            return Meeting(rank, size, links, host, store)
        host = LOOPBACK if os.environ.get("LOCAL_WORLD_SIZE") == str(size) else ""
        with _server(host) as server:
            token, port = secrets.token_hex(16), server.getsockname()[1]
            store.set(key, f"{host or os.environ['MASTER_ADDR']} {port} {token}")
            return Meeting(rank, size, _let_in(server, token, size, end), host, store)
    except (OSError, RuntimeError, ValueError) as error:
        if isinstance(error, DataLensError):
            raise
        raise DataLensError(
            f"the ranks cannot meet at {where} within {seconds:g} s"
            f" ({str(error).splitlines()[0] if str(error) else type(error).__name__}); start them"
            " with torchrun."
        ) from None


def _server(host: str) -> socket.socket:
    if host or not socket.has_dualstack_ipv6():
        return socket.create_server((host, 0))
    return socket.create_server((host, 0), family=socket.AF_INET6, dualstack_ipv6=True)


def _knock(address: tuple[str, int], token: str, rank: int, end: float) -> Link:
    connection = socket.create_connection(address, max(end - time.monotonic(), 0.001))
    connection.sendall(token.encode() + struct.pack("!I", rank))
    return _prompt(0, connection)


def _prompt(rank: int, connection: socket.socket) -> Link:
    """A link on which small messages go out at once."""
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return Link(rank, connection)


def _let_in(server: socket.socket, token: str, size: int, end: float) -> dict[int, Link]:
    links: dict[int, Link] = {}
    while len(links) < size - 1:
        server.settimeout(max(end - time.monotonic(), 0.001))
        try:
            connection, _ = server.accept()
        except TimeoutError:
            missing = sorted(set(range(1, size)) - set(links))
            raise DataLensError(
                f"{named_ranks(missing)} did not come in time; start all ranks anew."
            ) from None
        with suppress(OSError, struct.error):
            connection.settimeout(_HELLO_SECONDS)
            hello = b""
            while piece := connection.recv(len(token) + 4 - len(hello)):
                hello += piece
            (rank,) = struct.unpack("!I", hello[len(token) :])
            if secrets.compare_digest(hello[: len(token)], token.encode()):
                links[rank] = _prompt(rank, connection)
                continue
        connection.close()  # a stranger
    return dict(sorted(links.items()))


def named_ranks(ranks: list[int]) -> str:
    """rank 1; ranks 1, 3."""
    return ("rank " if len(ranks) == 1 else "ranks ") + ", ".join(map(str, ranks))
