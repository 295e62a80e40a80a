"""NPZ archives with `images` and `labels`."""

import math
import threading
import warnings
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any, NamedTuple

import numpy as np
import numpy.typing as npt

from datalens.data.arrays import as_images
from datalens.data.documents import reading
from datalens.data.limits import MAX_BYTES, MAX_CLASSES, MAX_NAME, MAX_PIXELS
from datalens.data.records import (
    DECLARED,
    Keep,
    NoTestSplit,
    Positions,
    PublicFacts,
    Records,
    Split,
    name_of,
)
from datalens.data.resizing import resize
from datalens.data.rows import WrongSize, read_rows
from datalens.errors import DataLensError

_HOW_TO_SAVE = "save it with np.savez_compressed(path, images=..., labels=...)"
_NAMES: dict[Split, tuple[str, str]] = {
    "train": ("images", "labels"),
    "test": ("test_images", "test_labels"),
}
_COMPRESSIONS = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)
"""NumPy's. The others unpack any amount at once, or ask for gigabytes to begin with."""
_ONE_AT_A_TIME = threading.Lock()
"""Python 3.11's parser now and then fails when two threads use it, and so do warning filters."""


def load_npz(
    path: Path,
    *,
    split: Split = "train",
    n_classes: int | None = None,
    image_size: int | None = None,
    name: str | None = None,
    why: str = DECLARED,
    keep: Keep | None = None,
) -> Records:
    """Records of an archive with `images`, `labels` and perhaps `class_names`.

    The test split is `test_images` and `test_labels` of the same archive. With `keep`, images
    that are not wanted are passed over as they are read.
    """
    with _opened(path) as archive:
        # Headers first: what they say is checked before any content is read.
        ahead = _announced(archive, path, split, n_classes, image_size, name, why)
        positions = keep(ahead) if keep else None
        images, labels = _NAMES[split]
        numbers = _member(archive, labels, path)
        pixels = _member(archive, images, path, positions)
    with reading(path):
        return Records.from_arrays(
            pixels,
            numbers,
            class_names=ahead.class_names,
            image_size=image_size,
            part_of=ahead,
            positions=positions,
        )


def count_npz(
    path: Path, *, n_classes: int | None = None, image_size: int | None = None
) -> PublicFacts:
    """What `load_npz` says is public, from the headers of arrays: no image or label is read."""
    with _opened(path) as archive:
        return _announced(archive, path, "train", n_classes, image_size)


def _announced(
    archive: zipfile.ZipFile,
    path: Path,
    split: Split,
    n_classes: int | None,
    image_size: int | None,
    name: str | None = None,
    why: str = DECLARED,
) -> PublicFacts:
    """By the headers of a split's arrays, and the class names."""
    images, labels = _NAMES[split]
    missing, remedy = DataLensError, _HOW_TO_SAVE
    if split == "test":
        missing, remedy = NoTestSplit, "name a separate file that holds the test data"
    for wanted in (images, labels):
        if f"{wanted}.npy" not in archive.namelist():
            raise missing(f"{path} has no array {wanted}: {remedy}.")
    class_names = None
    if "class_names.npy" in archive.namelist():
        names = _member(archive, "class_names", path, at_most=4 * MAX_CLASSES * MAX_NAME)
        if names.dtype.kind != "U" or names.ndim != 1:
            raise DataLensError(
                f"class_names of {path} must be a one-dimensional array of strings."
            )
        class_names = tuple(names.tolist())
    shape, counted = (_shape(archive, wanted, path) for wanted in (images, labels))
    with reading(path):
        ahead = PublicFacts.of_array(
            shape,
            n_classes=n_classes,
            class_names=class_names,
            name=name or name_of(path),
            image_size=image_size,
            why=why,
        )
    if counted != (ahead.n_records,):
        raise DataLensError(
            f"{labels} of {path} must be {ahead.n_records:,}, one per image, but have the shape"
            f" {counted}."
        )
    return ahead


def load_images(path: Path, *, image_size: int | None = None) -> npt.NDArray[np.uint8]:
    """The images of an archive, uint8 (n, channels, height, width), whatever else is in it."""
    with _opened(path) as archive:
        if "images.npy" not in archive.namelist():
            raise DataLensError(f"{path} has no array images: {_HOW_TO_SAVE}.")
        if math.prod(_shape(archive, "images", path)[1:]) > 3 * MAX_PIXELS:
            raise DataLensError(f"images of {path} have too many pixels: shrink them.")
        pixels = _member(archive, "images", path)
    with reading(path):
        images = as_images(pixels)
        return images if image_size is None else resize(images, image_size)


@contextmanager
def _opened(path: Path) -> Iterator[zipfile.ZipFile]:
    try:
        with zipfile.ZipFile(path) as archive:
            yield archive
    except DataLensError:
        raise
    except Exception as error:  # zip, zlib and the header's parser each have their own errors
        raise DataLensError(f"{path} is no readable NPZ archive: {_HOW_TO_SAVE}.") from error


class _Header(NamedTuple):
    shape: tuple[int, ...]
    by_column: bool
    dtype: np.dtype[Any]


def _header(stream: IO[bytes], name: str, path: Path, at_most: int = MAX_BYTES) -> _Header:
    """What there is to read. Pickled objects are refused."""
    # Version 1 only: NumPy writes it for every plain array, and its header is short.
    if np.lib.format.read_magic(stream) != (1, 0):
        raise DataLensError(f"{name} of {path} is no plain array: {_HOW_TO_SAVE}.")
    with _ONE_AT_A_TIME, warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of the Python that wrote it
        header = _Header(*np.lib.format.read_array_header_1_0(stream))
    if header.dtype.hasobject:
        raise DataLensError(
            f"{name} of {path} holds Python objects, which can run code when read: "
            "save plain numbers."
        )
    size = math.prod(header.shape) * header.dtype.itemsize
    if min(header.shape, default=0) < 0 or size > at_most:
        raise DataLensError(
            f"{name} of {path} announces too much: at most {at_most:,} bytes are read."
        )
    return header


def _shape(archive: zipfile.ZipFile, name: str, path: Path) -> tuple[int, ...]:
    with _stream(archive, name, path) as stream:
        return _header(stream, name, path).shape


def _stream(archive: zipfile.ZipFile, name: str, path: Path) -> IO[bytes]:
    if archive.getinfo(f"{name}.npy").compress_type not in _COMPRESSIONS:
        raise DataLensError(f"{name} of {path} is packed in a foreign way: {_HOW_TO_SAVE}.")
    return archive.open(f"{name}.npy")


def _member(
    archive: zipfile.ZipFile,
    name: str,
    path: Path,
    positions: Positions | None = None,
    *,
    at_most: int = MAX_BYTES,
) -> npt.NDArray[Any]:
    """One array, or its rows at `positions`.

    Not `np.load`: that allocates whatever the header claims.
    """
    with _stream(archive, name, path) as stream:
        shape, by_column, dtype = _header(stream, name, path, at_most)
        try:
            if not by_column and shape:
                return read_rows(stream, shape, dtype, positions)
            whole = read_rows(stream, (math.prod(shape),), dtype)
        except WrongSize:
            size = math.prod(shape) * dtype.itemsize
            raise DataLensError(
                f"{name} of {path} does not hold the {size:,} bytes its header announces: "
                f"{_HOW_TO_SAVE}."
            ) from None
    array = whole.reshape(shape, order="F" if by_column else "C")
    return array if positions is None else array[positions]
