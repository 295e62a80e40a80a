"""Compiling loops with numba, and keeping what was compiled.

What is compiled has other files' loops within it, and numba looks only at a loop's own file to see
whether it has changed. So the folder where it is kept is named after the text of all of them.
"""

import hashlib
import os
import tempfile
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

from numba import njit
from numba.core import config as numba_config

SOURCES = (
    "adam_cpu",
    "blas",
    "compact_cpu",
    "compiling",
    "convolutions_cpu",
    "loops",
    "planes_cpu",
    "reference_cpu",
    "tower_cpu",
)


def compiled(function: Callable[..., Any]) -> Any:
    """The function as machine code, compiled when first used; it does not hold Python's lock.

    No fast mathematics: how a compiler then reorders a sum depends on what it has compiled before,
    and a run must give the same bits every time.
    """
    folder, config = _folder(), vars(numba_config)
    before = config["CACHE_DIR"]
    config["CACHE_DIR"] = folder or before
    try:
        return njit(nogil=True, cache=bool(folder), error_model="numpy")(function)
    finally:
        config["CACHE_DIR"] = before


@cache
def _folder() -> str:
    """Where compiled loops are kept; nowhere, if nothing can be written."""
    digest = hashlib.sha256()
    for name in SOURCES:
        digest.update(Path(__file__).with_name(f"{name}.py").read_bytes())
    given = os.environ.get("NUMBA_CACHE_DIR") or os.environ.get("XDG_CACHE_HOME")
    folder = Path(given or Path("~/.cache").expanduser()) / f"datalens-{digest.hexdigest()[:16]}"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            return str(folder)
    except OSError:
        return ""
