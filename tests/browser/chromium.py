"""A real browser, driven over its DevTools protocol: no more than these tests need."""

import base64
import json
import os
import re
import shutil
import socket
import struct
import subprocess
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

NAMES = ("chromium", "chromium-browser", "google-chrome")
SECONDS = 120
"""Longest wait for anything: a busy machine starts a browser slowly."""
FLAGS = (
    "--headless",
    "--no-sandbox",  # tests may run as root, on pages of our own
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--disable-background-networking",
    "--no-first-run",
    "--hide-scrollbars",
    "--remote-debugging-port=0",
)


def found() -> str | None:
    """The browser's program, if there is one."""
    return next((path for name in NAMES if (path := shutil.which(name))), None)


@contextmanager
def browser(program: str, folder: Path) -> Iterator["Browser"]:
    """A browser with a profile of its own, ended when the block is left."""
    words = [program, *FLAGS, f"--user-data-dir={folder}", "about:blank"]
    process = subprocess.Popen(
        words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True
    )
    try:
        yield Browser(_port(folder / "DevToolsActivePort", process))
    finally:
        os.killpg(process.pid, 9)
        process.wait()


def _port(file: Path, process: subprocess.Popen[bytes]) -> int:
    for _ in range(10 * SECONDS):
        if file.exists() and (lines := file.read_text().splitlines()):
            return int(lines[0])
        if process.poll() is not None:
            raise RuntimeError(f"the browser ended with {process.returncode}")
        time.sleep(0.1)
    raise TimeoutError("the browser did not start")


class Browser:
    def __init__(self, port: int) -> None:
        self._port = port

    @contextmanager
    def page(self, address: str, **view: Any) -> Iterator["Page"]:
        """A tab that has loaded this address; see `Page.view` for `view`."""
        request = urllib.request.Request(
            f"http://127.0.0.1:{self._port}/json/new?about:blank", method="PUT"
        )
        with urllib.request.urlopen(request, timeout=SECONDS) as answer:
            told = json.load(answer)
        page = Page(told["webSocketDebuggerUrl"])
        try:
            for domain in ("Page", "Runtime", "Log", "Network"):
                page.call(f"{domain}.enable")
            page.view(**view)
            page.open(address)
            yield page
        finally:
            page.call("Page.close")
            page.close()


class Page:
    """One tab, and everything it complained of."""

    def __init__(self, address: str) -> None:
        self._socket = _WebSocket(address)
        self._number = 0
        self._events: list[dict[str, Any]] = []

    def close(self) -> None:
        self._socket.close()

    def call(self, method: str, **params: Any) -> Any:
        self._number += 1
        number = self._number
        self._socket.send(json.dumps({"id": number, "method": method, "params": params}))
        while True:
            told = json.loads(self._socket.receive())
            if told.get("id") == number:
                if "error" in told:
                    raise RuntimeError(f"{method}: {told['error']}")
                return told["result"]
            self._events.append(told)

    def view(
        self,
        *,
        width: int = 1200,
        height: int = 900,
        dark: bool = False,
        script: bool = True,
    ) -> None:
        self.call(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=height,
            deviceScaleFactor=1,
            mobile=width < 600,
        )
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.call("Emulation.setEmulatedMedia", features=[scheme])
        self.call("Emulation.setScriptExecutionDisabled", value=not script)

    def open(self, address: str) -> None:
        self.call("Page.navigate", url=address)
        self.wait("document.readyState === 'complete' && location.href !== 'about:blank'")

    def wait(self, condition: str) -> None:
        end = time.monotonic() + SECONDS
        while not self.ask(condition):
            if time.monotonic() > end:
                raise TimeoutError(condition)
            time.sleep(0.05)

    def ask(self, expression: str) -> Any:
        """The value of an expression, in the page."""
        told = self.call("Runtime.evaluate", expression=expression, returnByValue=True)
        if "exceptionDetails" in told:
            raise RuntimeError(str(told["exceptionDetails"]))
        return told["result"].get("value")

    def press(self, key: str, code: int) -> None:
        for kind in ("rawKeyDown", "keyUp"):
            self.call(
                "Input.dispatchKeyEvent",
                type=kind,
                key=key,
                code=key,
                windowsVirtualKeyCode=code,
            )

    def complaints(self) -> list[str]:
        """Errors and warnings on the console, exceptions, and requests that failed."""
        self.ask("0")  # what was said before has arrived by then
        said = []
        for event in self._events:
            params = event.get("params", {})
            if event["method"] == "Runtime.exceptionThrown":
                said.append(str(params["exceptionDetails"]))
            elif event["method"] == "Log.entryAdded":
                said.append(params["entry"]["text"])
            elif event["method"] == "Runtime.consoleAPICalled":
                said.append(str(params["args"]))
            elif event["method"] == "Network.loadingFailed":
                said.append(params["errorText"])
        return said

    def requests(self) -> list[str]:
        """All addresses that the page asked for, except what it carries itself."""
        asked = [e for e in self._events if e["method"] == "Network.requestWillBeSent"]
        urls = [str(event["params"]["request"]["url"]) for event in asked]
        return [url for url in urls if not url.startswith("data:")]

    def screenshot(self) -> bytes:
        told = self.call("Page.captureScreenshot", captureBeyondViewport=True)
        return base64.b64decode(told["data"])

    def printed(self) -> bytes:
        """The page as a PDF, on the paper that its style asks for."""
        return base64.b64decode(self.call("Page.printToPDF", preferCSSPageSize=True)["data"])


def pages(pdf: bytes) -> int:
    """How many there are in a PDF as this browser writes it."""
    return len(re.findall(rb"/Type\s*/Page\b(?!s)", pdf))


class _WebSocket:
    """RFC 6455 from the client's side: text messages."""

    def __init__(self, address: str) -> None:
        host, path = re.fullmatch(r"ws://([^/]+)(/.*)", address).groups()  # type: ignore[union-attr]
        name, port = host.split(":")
        self._socket = socket.create_connection((name, int(port)), timeout=SECONDS)
        key = base64.b64encode(os.urandom(16)).decode()
        lines = (f"GET {path} HTTP/1.1", f"Host: {host}", "Upgrade: websocket")
        lines += ("Connection: Upgrade", f"Sec-WebSocket-Key: {key}", "Sec-WebSocket-Version: 13")
        self._socket.sendall(("\r\n".join(lines) + "\r\n\r\n").encode())
        self._file = self._socket.makefile("rb")
        if b" 101 " not in self._file.readline():
            raise ConnectionError("the browser refused the socket")
        while self._file.readline().strip():
            pass

    def close(self) -> None:
        self._file.close()
        self._socket.close()

    def send(self, text: str) -> None:
        body, mask = text.encode(), os.urandom(4)
        size = len(body)
        if size < 126:
            head = struct.pack("!BB", 0x81, 0x80 | size)
        elif size < 2**16:
            head = struct.pack("!BBH", 0x81, 0x80 | 126, size)
        else:
            head = struct.pack("!BBQ", 0x81, 0x80 | 127, size)
        masked = bytes(byte ^ mask[index % 4] for index, byte in enumerate(body))
        self._socket.sendall(head + mask + masked)

    def receive(self) -> str:
        parts = []
        while True:
            first, size = struct.unpack("!BB", self._read(2))
            if size == 126:
                (size,) = struct.unpack("!H", self._read(2))
            elif size == 127:
                (size,) = struct.unpack("!Q", self._read(8))
            parts.append(self._read(size))
            if first & 0x0F == 8:
                raise ConnectionError("the browser closed the socket")
            if first & 0x80:
                return b"".join(parts).decode()

    def _read(self, size: int) -> bytes:
        content = self._file.read(size)
        if len(content) < size:
            raise ConnectionError("the browser went away")
        return content
