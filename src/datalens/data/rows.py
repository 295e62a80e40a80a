"""All or some rows of an array that lies in a file, without holding the others."""

import math
from typing import IO, Any

import numpy as np
import numpy.typing as npt

_CHUNK = 1 << 20
"""Bytes in memory at a time, beside what is kept; one row at least."""


class WrongSize(Exception):
    """The stream ends before the array does, or goes on after it."""

    def __init__(self, *, longer: bool) -> None:
        super().__init__()
        self.longer = longer


def read_rows(
    stream: IO[bytes],
    shape: tuple[int, ...],
    dtype: np.dtype[Any],
    positions: npt.NDArray[np.int64] | None = None,
) -> npt.NDArray[Any]:
    """The rows of an array stored row after row; with `positions` (ascending) only those."""
    n, row = shape[0], math.prod(shape[1:]) * dtype.itemsize
    kept = np.empty((n if positions is None else len(positions), *shape[1:]), dtype=dtype)
    at_once = max(1, _CHUNK // row) if row else max(1, n)  # rows of nothing could go on for ever
    for start in range(0, n, at_once):
        stop = min(start + at_once, n)
        content = stream.read((stop - start) * row)
        if len(content) != (stop - start) * row:
            raise WrongSize(longer=False)
        rows = np.frombuffer(content, dtype=dtype).reshape(stop - start, *shape[1:])
        if positions is None:
            kept[start:stop] = rows
        else:
            low, high = np.searchsorted(positions, (start, stop))
            kept[low:high] = rows[positions[low:high] - start]
    if stream.read(1):
        raise WrongSize(longer=True)
    return kept
