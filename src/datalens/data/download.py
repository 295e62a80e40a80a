"""Fetch a published gzip file once, and keep it only if its content is the published one."""

import gzip
import hashlib
import http.client
import io
import os
import tempfile
import urllib.request
import zlib
from collections.abc import Sequence
from pathlib import Path

from datalens.errors import DataLensError

_TIMEOUT = 20.0
"""Seconds without an answer after which a mirror counts as out of reach."""
_MOST_BYTES = 64 * 2**20
"""No published file is larger than this, packed or unpacked."""


class OutOfReachError(Exception):
    """No mirror answered: the caller knows what to suggest instead."""


def download(urls: Sequence[str], target: Path, *, sha256: str) -> None:
    """Store what the first honest mirror serves at `target`, whole or not at all.

    `sha256` is that of the unpacked content: mirrors pack the same content differently.
    """
    dishonest = None
    for url in urls:
        try:
            with urllib.request.urlopen(url, timeout=_TIMEOUT) as response:
                packed = response.read(_MOST_BYTES)
        except (OSError, http.client.HTTPException):
            continue
        if _content_sha256(packed) == sha256:
            _store(packed, target)
            return
        dishonest = url
    if dishonest:
        raise DataLensError(
            f"{dishonest} does not serve the published file (its SHA-256 differs), so nothing "
            f"was kept: put the right {target.name} into {target.parent} yourself."
        )
    raise OutOfReachError


def _content_sha256(packed: bytes) -> str | None:
    try:
        with gzip.open(io.BytesIO(packed)) as stream:
            return hashlib.sha256(stream.read(_MOST_BYTES)).hexdigest()
    except (OSError, EOFError, zlib.error):
        return None


def _store(content: bytes, target: Path) -> None:
    """Rename a finished file into place: another process never sees half of one."""
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        handle, name = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name}-")
        part = Path(name)
        try:
            with os.fdopen(handle, "wb") as file:
                file.write(content)
            part.replace(target)
        finally:
            part.unlink(missing_ok=True)
    except OSError as error:
        raise DataLensError(
            f"{target} cannot be written: make its folder writable, or put the data sets into a "
            "folder named with --data-dir."
        ) from error
