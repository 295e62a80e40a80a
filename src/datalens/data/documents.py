"""JSON and TOML that others may have written, read within bounds of size and depth."""

import json
import tomllib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from datalens.errors import DataLensError, brief

MAX_JSON = 32 * 2**20
"""Bytes of a certificate, or of an extract of 50,000 ledger rows; up to 30 times as much parsed."""
MAX_TOML = 2 * 2**20
"""Bytes of a configuration: a thousand class names of the longest kind."""
MAX_LINE = 1024
"""Letters in a line of TOML, whose parser takes the square of a dotted key's length."""
MAX_DEPTH = 16
"""Levels of nesting; what comes later can then print and compare without counting them."""

Document = dict[str, Any]


def read_json(file: Path) -> Document:
    """An object; refused if a name is there twice, for then two readers could read two things."""
    return _parsed(file, MAX_JSON, "JSON", lambda text: json.loads(text, object_pairs_hook=_once))


def read_toml(file: Path) -> Document:
    """A table."""
    return _parsed(file, MAX_TOML, "TOML", _toml)


def read_whole(file: Path, *, at_most: int) -> bytes:
    """A file's bytes; what is no plain file is not opened, because it may have no end."""
    with reading(file):
        if not file.exists():
            raise DataLensError(f"{file} is missing.")
        if not file.is_file():
            raise DataLensError(f"{file} is no plain file.")
        if file.stat().st_size > at_most:
            raise DataLensError(f"{file} is too large: at most {at_most:,} bytes are read.")
        return file.read_bytes()


@contextmanager
def reading(file: Path) -> Iterator[Path]:
    """Whatever goes wrong meanwhile is said of this file, in one sentence."""
    try:
        yield file
    except DataLensError as error:
        if str(file) in str(error):
            raise
        error.args = (f"{file}: {error}",)
        raise
    except Exception as error:  # parsers of broken files raise almost anything
        raise DataLensError(f"{file} cannot be read ({brief(error)}).") from error


def _parsed(file: Path, at_most: int, kind: str, parse: Callable[[str], Any]) -> Document:
    content = read_whole(file, at_most=at_most)
    try:
        found = parse(content.decode())
    except (ValueError, RecursionError) as error:
        raise DataLensError(f"{file} is no {kind} ({brief(error)}).") from None
    if not isinstance(found, dict) or not _shallow(found, MAX_DEPTH):
        raise DataLensError(f"{file} is no {kind} of ours: it must be one shallow table.")
    return found


def _toml(text: str) -> Document:
    if any(len(line) > MAX_LINE for line in text.splitlines()):
        raise ValueError(f"a line is longer than {MAX_LINE} letters")
    return tomllib.loads(text)


def _once(pairs: list[tuple[str, Any]]) -> Document:
    found = dict(pairs)
    if len(found) < len(pairs):
        raise ValueError("a name is there twice")
    return found


def _shallow(value: Any, levels: int) -> bool:
    if not isinstance(value, dict | list):
        return True
    parts = value.values() if isinstance(value, dict) else value
    return levels > 0 and all(_shallow(part, levels - 1) for part in parts)
