"""The server behind `datalens watch`: loopback only, one token, GET only, three addresses."""

import hmac
import json
import math
import secrets
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cached_property
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import TYPE_CHECKING

from datalens.errors import DataLensError

if TYPE_CHECKING:
    from datalens.workflows.watch.state import Follower

HOST = "127.0.0.1"
POLICY = (
    "default-src 'none'; img-src 'self' data:; connect-src 'self'; base-uri 'none';"
    " form-action 'none'; style-src '{style}'; script-src '{script}'"
)
HEADERS = {
    "Cache-Control": "no-store",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Resource-Policy": "same-origin",
}
LONGEST_PATH = 200
LONGEST_GOODBYE = 5.0
"""Seconds: a page asks every two."""


class Server(ThreadingHTTPServer):
    """Serves one run to whoever knows the token, on this machine.

    Guarantee: it answers GET and no other method, under its own loopback address as Host, so
    that a name that is made to point here (DNS rebinding) gets nothing. No part of a request
    becomes part of a path: there are three addresses, and what they show is a Follower's.
    """

    daemon_threads = True

    def __init__(self, run: Path, *, port: int = 0) -> None:
        self.token = secrets.token_urlsafe(24)
        self.run = run
        self.lock = threading.Lock()
        self.asked = -math.inf
        """When somebody last asked for the state."""
        self.said_the_end = False
        try:
            super().__init__((HOST, port), _Handler)
        except (OSError, OverflowError) as error:
            raise DataLensError(f"Port {port} cannot be used ({error}); give another.") from None

    @cached_property
    def follower(self) -> "Follower":
        """Imported when a page asks: it needs PyTorch, and the address is printed at once."""
        from datalens.workflows.watch.state import Follower

        return Follower(self.run)

    @cached_property
    def page(self) -> str:
        """The page, which asks for all that changes."""
        from datalens.workflows.report.page import render

        return render("watch.html.j2", script="watch.js", policy=POLICY, run=self.follower.name)

    def handle_error(self, request: object, client_address: object) -> None:
        """A browser that goes away in the middle of an answer is nobody's concern."""

    def linger(self) -> None:
        """Wait until a page that is open has heard how it ended; none is waited for long."""
        end = time.monotonic() + LONGEST_GOODBYE
        while time.monotonic() < end and not self.said_the_end:
            if time.monotonic() - self.asked > LONGEST_GOODBYE:
                return  # nobody is looking
            time.sleep(0.05)

    @property
    def url(self) -> str:
        return f"http://{HOST}:{self.server_port}/{self.token}/"


class _Handler(BaseHTTPRequestHandler):
    server: Server
    server_version, sys_version = "datalens", ""
    timeout = 10

    def do_GET(self) -> None:
        server = self.server
        if self.headers.get_all("Host") != [f"{HOST}:{server.server_port}"]:
            return self._answer(403, b"Not here.\n")
        token, _, name = self.path[:LONGEST_PATH].removeprefix("/").partition("/")
        if not hmac.compare_digest(token.encode(), server.token.encode()):
            return self._answer(403, b"Use the address that datalens printed.\n")
        name = name.partition("?")[0]
        if name == "":
            return self._answer(
                200, server.page.encode(errors="replace"), "text/html; charset=utf-8"
            )
        if name == "state.json":
            server.asked = time.monotonic()  # before the answer: who has it is known to be there
            with server.lock:
                state = server.follower.state()
            self._answer(200, json.dumps(state).encode(), "application/json")
            server.said_the_end = state["standing"] != "under way"
            return None
        if name == "samples.png" and (picture := server.follower.picture()) is not None:
            return self._answer(200, picture, "image/png")
        return self._answer(404, b"There is nothing here.\n")

    def _answer(self, code: int, content: bytes, kind: str = "text/plain; charset=utf-8") -> None:
        self.send_response(code)
        for name, value in HEADERS.items():
            self.send_header(name, value)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, format: str, *args: object) -> None:
        """Say nothing: the token is in every address."""


@contextmanager
def serving(run: Path, *, port: int = 0, to_the_end: bool = False) -> Iterator[str]:
    """The page's address, for as long as the block lasts; `to_the_end`, until it has heard it."""
    with Server(run, port=port) as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        try:
            yield server.url
        finally:
            if to_the_end:
                server.linger()
            server.shutdown()
            thread.join()
