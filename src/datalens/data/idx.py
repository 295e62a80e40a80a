"""IDX, the format in which MNIST and its relatives are published; plain or gzipped."""

import gzip
import io
import math
import struct
from pathlib import Path

import numpy as np
import numpy.typing as npt

from datalens.data.limits import MAX_BYTES
from datalens.errors import DataLensError

_MOST_EXPANSION = 1_032
"""Deflate cannot shrink further than this: what a gzipped file claims beyond it is not there."""


def read_idx_images(path: Path) -> npt.NDArray[np.uint8]:
    """Images (n, height, width)."""
    return _read(path, dimensions=3)


def read_idx_labels(path: Path) -> npt.NDArray[np.int64]:
    """Labels (n,)."""
    return _read(path, dimensions=1).astype(np.int64)


def _read(path: Path, *, dimensions: int) -> npt.NDArray[np.uint8]:
    try:
        with path.open("rb") as file:
            gzipped = file.read(2) == b"\x1f\x8b"
        stored = path.stat().st_size * (_MOST_EXPANSION if gzipped else 1)
        with gzip.open(path) if gzipped else path.open("rb") as stream:
            return _parse(stream, path, dimensions, at_most=min(stored, MAX_BYTES))
    except DataLensError:
        raise
    except Exception as error:  # gzip and zlib raise five kinds of error on broken files
        raise DataLensError(f"{path} cannot be read: fetch the file again.") from error


def _parse(
    stream: io.BufferedIOBase, path: Path, dimensions: int, *, at_most: int
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
    # Believe the header only as far as the file can hold what it says, then look.
    content = stream.read(size + 1) if size <= at_most else b""
    if len(content) != size:
        fault = "goes on after" if len(content) > size else "is truncated: it ends before"
        raise DataLensError(
            f"{path} {fault} the {size:,} bytes its header announces: fetch the file again."
        )
    return np.frombuffer(content, dtype=np.uint8).reshape(shape).copy()
