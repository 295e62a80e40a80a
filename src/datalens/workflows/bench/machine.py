"""What this machine can do, measured, and what it is."""

import hashlib
import os
import platform
import resource
import time
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path
from typing import Any, ParamSpec, TypeVar

import numpy as np
import torch

from datalens import __version__

SIDE = 2048
NUMBERS = 100_000_000


P = ParamSpec("P")
R = TypeVar("R")


def timed(work: Callable[P, R], *arguments: P.args, **named: P.kwargs) -> tuple[float, R]:
    """How many seconds it takes, once, and what comes of it."""
    started = time.perf_counter()
    result = work(*arguments, **named)
    return time.perf_counter() - started, result


class Machine:
    """Its two limits. Both use all threads that PyTorch has been given."""

    def __init__(self) -> None:
        self._a, self._b = torch.rand(SIDE, SIDE), torch.rand(SIDE, SIDE)
        self._out = torch.empty(SIDE, SIDE)
        self._stream = torch.ones(NUMBERS)

    def gflops(self) -> float:
        """Matrix multiplication in float32, the best of three."""
        best = min(timed(torch.mm, self._a, self._b, out=self._out)[0] for _ in range(3))
        return 2 * SIDE**3 / best / 1e9

    def gigabytes(self) -> float:
        """Bytes a second, read and written again in place, the best of three."""
        best = min(timed(self._stream.mul_, 1.0)[0] for _ in range(3))
        return 2 * 4 * NUMBERS / best / 1e9


def peak_mib() -> float:
    """The most memory that this process has held."""
    try:
        # Not getrusage: there, a new process begins with what its parent held.
        status = Path("/proc/self/status").read_text()
        return int(status.split("VmHWM:")[1].split()[0]) / 2**10
    except (OSError, IndexError):
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**10


def description() -> dict[str, Any]:
    """For a result file: versions and hardware."""
    return {
        "datalens": __version__,
        "torch": torch.__version__,
        "numpy": np.__version__,
        "numba": version("numba"),
        "python": platform.python_version(),
        "processor": _processor(),
        "cores": os.cpu_count(),
        "threads": torch.get_num_threads(),
        "memory_gib": round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30, 1),
    }


def source_digest() -> str:
    """Tells two states of this package's source apart, which may have the same version."""
    root, digest = Path(__file__).parents[2], hashlib.sha256()
    for file in sorted(file for kind in ("*.py", "*.toml") for file in root.rglob(kind)):
        digest.update(f"{file.relative_to(root)}\0".encode() + file.read_bytes() + b"\0")
    return digest.hexdigest()[:12]


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor() or platform.machine()
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.machine()
