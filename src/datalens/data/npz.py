"""NPZ archives with `images` and `labels`."""

import math
import zipfile
from pathlib import Path

import numpy as np
import numpy.typing as npt

from datalens.data.limits import MAX_BYTES
from datalens.data.records import DECLARED, NoTestSplit, Records, Split
from datalens.errors import DataLensError

_HOW_TO_SAVE = "save it with np.savez_compressed(path, images=..., labels=...)"


def load_npz(
    path: Path,
    *,
    split: Split = "train",
    n_classes: int | None = None,
    image_size: int | None = None,
    name: str | None = None,
    why: str = DECLARED,
) -> Records:
    """Records of an archive with `images`, `labels` and perhaps `class_names`.

    The test split is `test_images` and `test_labels` of the same archive.
    """
    prefix, remedy = "", _HOW_TO_SAVE
    if split == "test":
        prefix, remedy = "test_", "name a separate file that holds the test data"
    images, labels = f"{prefix}images", f"{prefix}labels"
    arrays = _read(path, (images, labels, "class_names"))
    for wanted in (images, labels):
        if wanted not in arrays:
            missing = NoTestSplit if split == "test" else DataLensError
            raise missing(f"{path} has no array {wanted}: {remedy}.")
    names = arrays.get("class_names")
    if names is not None and (names.dtype.kind != "U" or names.ndim != 1):
        raise DataLensError(f"class_names of {path} must be a one-dimensional array of strings.")
    try:
        return Records.from_arrays(
            arrays[images],
            arrays[labels],
            n_classes=n_classes,
            class_names=None if names is None else tuple(names.tolist()),
            name=name or path.stem,
            image_size=image_size,
            why=why,
        )
    except DataLensError as error:
        raise DataLensError(f"{path}: {error}") from None


def _read(path: Path, names: tuple[str, ...]) -> dict[str, npt.NDArray[np.generic]]:
    """Those of the named arrays that the archive has."""
    try:
        with zipfile.ZipFile(path) as archive:
            present = [name for name in names if f"{name}.npy" in archive.namelist()]
            return {name: _member(archive, name, path) for name in present}
    except DataLensError:
        raise
    except Exception as error:  # zip, zlib and the header's parser each have their own errors
        raise DataLensError(f"{path} is no readable NPZ archive: {_HOW_TO_SAVE}.") from error


def _member(archive: zipfile.ZipFile, name: str, path: Path) -> npt.NDArray[np.generic]:
    """One array, read only after its header has said how much there is to read.

    Not `np.load`: that allocates whatever the header claims. Pickled objects are refused.
    """
    with archive.open(f"{name}.npy") as stream:
        # Version 1 only: NumPy writes it for every plain array, and its header is short.
        if np.lib.format.read_magic(stream) != (1, 0):
            raise DataLensError(f"{name} of {path} is no plain array: {_HOW_TO_SAVE}.")
        shape, by_column, dtype = np.lib.format.read_array_header_1_0(stream)
        if dtype.hasobject:
            raise DataLensError(
                f"{name} of {path} holds Python objects, which can run code when read: "
                "save plain numbers."
            )
        size = math.prod(shape) * dtype.itemsize
        if min(shape, default=0) < 0 or size > MAX_BYTES:
            raise DataLensError(
                f"{name} of {path} announces {size:,} bytes: at most {MAX_BYTES:,} are read."
            )
        content = stream.read(size + 1)
    if len(content) != size:
        raise DataLensError(
            f"{name} of {path} does not hold the {size:,} bytes its header announces: "
            f"{_HOW_TO_SAVE}."
        )
    array = np.frombuffer(content, dtype=dtype).reshape(shape, order="F" if by_column else "C")
    return array.copy()
