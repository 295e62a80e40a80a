"""IDX, the format in which MNIST and its relatives are published; plain or gzipped."""

import gzip
import math
import struct
from collections.abc import Callable
from pathlib import Path
from typing import IO, cast

import numpy as np
import numpy.typing as npt

from datalens.data.limits import MAX_BYTES
from datalens.data.rows import WrongSize, read_rows
from datalens.errors import DataLensError

_MOST_EXPANSION = 1_032
"""Deflate cannot shrink further than this: what a gzipped file claims beyond it is not there."""


Rows = Callable[[tuple[int, ...]], npt.NDArray[np.int64] | None]
"""From an array's shape, the ascending positions of the rows to read; None is all."""


def _all(shape: tuple[int, ...]) -> None:
    return None


def read_idx_images(path: Path, rows: Rows = _all) -> npt.NDArray[np.uint8]:
    """Images (n, height, width)."""
    return _read(path, dimensions=3, rows=rows)


def read_idx_labels(path: Path, rows: Rows = _all) -> npt.NDArray[np.int64]:
    """Labels (n,)."""
    return _read(path, dimensions=1, rows=rows).astype(np.int64)


def _read(path: Path, *, dimensions: int, rows: Rows) -> npt.NDArray[np.uint8]:
    try:
        with path.open("rb") as file:
            gzipped = file.read(2) == b"\x1f\x8b"
        stored = path.stat().st_size * (_MOST_EXPANSION if gzipped else 1)
        with gzip.open(path) if gzipped else path.open("rb") as stream:
            return _parse(
                cast(IO[bytes], stream), path, dimensions, rows, at_most=min(stored, MAX_BYTES)
            )
    except DataLensError:
        raise
    except Exception as error:  # gzip and zlib raise five kinds of error on broken files
        raise DataLensError(f"{path} cannot be read: fetch the file again.") from error


def _parse(
    stream: IO[bytes], path: Path, dimensions: int, rows: Rows, *, at_most: int
) -> npt.NDArray[np.uint8]:
    header = stream.read(4 + 4 * dimensions)
    magic = bytes([0, 0, 8, dimensions])  # 8: unsigned bytes
    if header[:4] != magic:
        raise DataLensError(
            f"{path} is no IDX file of {dimensions} dimensions: it starts with "
            f"{header[:4].hex() or 'nothing'} instead of {magic.hex()}."
        )
    if len(header) < 4 + 4 * dimensions:
        raise DataLensError(f"{path} is truncated within its header: fetch the file again.")
    shape = struct.unpack(f">{dimensions}I", header[4:])
    size = math.prod(shape)
    try:
        if size > at_most:  # believe the header only as far as the file can hold what it says
            raise WrongSize(longer=False)
        return read_rows(stream, shape, np.dtype(np.uint8), rows(shape))
    except WrongSize as wrong:
        fault = "goes on after" if wrong.longer else "is truncated: it ends before"
        raise DataLensError(
            f"{path} {fault} the {size:,} bytes its header announces: fetch the file again."
        ) from None
