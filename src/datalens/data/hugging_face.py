"""Image data sets as Hugging Face stores them: Parquet files, or a folder of `save_to_disk`.

Using one declares public: its class names, the number of rows, and the images' size.
"""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from datalens.data.decoding import Picture, channels_of, decode, size_of_picture
from datalens.data.documents import read_json, reading
from datalens.data.folders import check_each_is_there_once, visible
from datalens.data.limits import MAX_PACKED
from datalens.data.records import (
    Keep,
    NoTestSplit,
    PublicFacts,
    Records,
    Split,
    declared_classes,
    name_of,
)
from datalens.data.resizing import check_image_size
from datalens.data.tables import arrow, batches_of, is_parquet, schema_of
from datalens.errors import DataLensError

_WHY = "declared public by the user, who passes a table with these classes and rows"
_SPLITS = {
    "train": ("train", "training"),
    "test": ("test", "testing", "eval", "evaluation"),
    "validation": ("validation", "valid", "val", "dev"),
}
"""The words for them in names of files."""
_IMAGES, _LABELS = ("image", "img", "images"), ("label", "labels")
"""What the columns are called: of images, where there are several."""
_LONGEST_METADATA = 2 * 2**20


class _Columns(NamedTuple):
    image: str
    label: str
    class_names: tuple[str, ...] | None


def is_table(path: Path) -> bool:
    """Whether a path is such a data set, by the names of its files."""
    if path.is_file():
        return is_parquet(path)
    saved = ("dataset_dict.json", "state.json")
    return any((path / name).is_file() for name in saved) or bool(_parquet_files(path))


def load_hugging_face(
    path: Path,
    *,
    split: Split = "train",
    n_classes: int | None = None,
    image_size: int | None = None,
    channels: int | None = None,
    keep: Keep | None = None,
) -> Records:
    """Records of a table with a column of packed images and one of whole numbers.

    Read twice: once for the sizes of the images, once for those that are wanted. Grey and colour
    are treated as in a folder.
    """
    if image_size is not None:
        check_image_size(image_size)
    files = table_files(path, split)
    columns = _columns(files)
    with reading(path):
        n_records, size = _counted(files, columns, image_size)
        shape = (channels_of(channels), *size)
        ahead = PublicFacts(
            name=name_of(path),
            n_records=n_records,
            shape=shape,
            class_names=declared_classes(n_classes, columns.class_names),
            why=_WHY,
        )
    positions = keep(ahead) if keep else None
    wanted = np.arange(n_records) if positions is None else positions
    images = np.empty((len(wanted), *shape), dtype=np.uint8)
    labels = np.empty(len(wanted), dtype=np.int64)
    with reading(path):
        row_of = {int(position): row for row, position in enumerate(wanted)}
        for position, (picture, label) in enumerate(_rows(files, columns)):
            if (row := row_of.get(position)) is not None:
                images[row] = decode(picture, shape, image_size)
                labels[row] = label
        return Records(images=images, labels=labels, public=ahead, positions=positions)


def table_files(path: Path, split: Split) -> list[Path]:
    """The files of a split, in the order of the records."""
    if path.is_file():
        files = [path] if split == "train" else []
    elif (path / "dataset_dict.json").is_file():
        files = _saved_files(path / split) if (path / split).is_dir() else []
    elif (path / "state.json").is_file():
        files = _saved_files(path) if split == "train" else []
    else:
        found = _parquet_files(path)
        files = [file for file in found if _split_of(file) == split]
        if split == "train" and not any(_split_of(file) for file in found):
            files = found
    if not files:
        missing = NoTestSplit if split == "test" else DataLensError
        raise missing(f"{path} has no {split} data: name a file or folder that has.")
    check_each_is_there_once(files)
    return files


def _parquet_files(folder: Path) -> list[Path]:
    folders = (folder, folder / "data", *(folder / split for split in _SPLITS))
    listed = [file for each in folders if each.is_dir() for file in visible(each)]
    return [file for file in listed if is_parquet(file) and file.is_file()]


def _split_of(file: Path) -> str | None:
    """By a word in the file's name, as in train-00000-of-00002.parquet or pets_test.parquet, or by
    its folder's."""
    words = set(re.split(r"[^a-z]+", file.stem.lower()))
    found = [split for split, known in _SPLITS.items() if words.intersection(known)]
    if len(found) > 1:
        raise DataLensError(
            f"{file} is named after several parts ({', '.join(found)}): rename it after one."
        )
    return found[0] if found else file.parent.name if file.parent.name in _SPLITS else None


def _saved_files(folder: Path) -> list[Path]:
    """What `save_to_disk` has written, if it is there as it stands."""
    state = read_json(folder / "state.json")
    with reading(folder / "state.json"):
        if state.get("_indices_files") or state.get("_indices_data_files"):
            raise DataLensError("its rows are in another order: save it after flatten_indices().")
        names = [str(entry["filename"]) for entry in state["_data_files"]]
        if len(set(names)) < len(names):
            raise DataLensError("it names a file twice.")
    files = [folder / Path(name).name for name in names]  # never outside of the folder
    for file in files:
        if not file.is_file() or file.suffix != ".arrow":
            raise DataLensError(f"{file} is no Arrow file, but {folder}/state.json names it.")
    return files


def _columns(files: list[Path]) -> _Columns:
    """Which columns to read, the same in all files."""
    found = {_columns_of(file) for file in files}
    if len(found) > 1:
        raise DataLensError(f"{files[0].parent} has files of different columns or classes.")
    return found.pop()


def _columns_of(file: Path) -> _Columns:
    types = arrow("pyarrow.types")
    schema = schema_of(file)
    with reading(file):
        features = _features(schema.metadata)
        images = [field.name for field in schema if _is_image(field.type, types)]
        labels = [field.name for field in schema if types.is_integer(field.type)]
        classed = [name for name in labels if _class_names(features.get(name)) is not None]
        image = _image(images)
        label = _label(classed, labels)
        return _Columns(image, label, _class_names(features.get(label)))


def _is_image(kind: Any, types: Any) -> bool:
    """Bytes, or bytes beside a path, as `datasets` stores an image."""
    if types.is_struct(kind):
        index = kind.get_field_index("bytes")
        return index >= 0 and _is_image(kind.field(index).type, types)
    return bool(types.is_binary(kind) or types.is_large_binary(kind))


def _image(found: list[str]) -> str:
    chosen = found if len(found) == 1 else [name for name in _IMAGES if name in found]
    if not chosen:
        raise DataLensError(
            "it must have one column of images, or one called image, but has "
            f"{', '.join(found)[:200] or 'none'}."
        )
    return chosen[0]


def _label(classed: list[str], numbers: list[str]) -> str:
    """The classes; never whatever happens to be a number, such as an age or a row's."""
    if len(classed) == 1:
        return classed[0]
    if chosen := [name for name in _LABELS if name in (classed or numbers)]:
        return chosen[0]
    raise DataLensError(
        "it must have its classes in a column of whole numbers that is called label, but its "
        f"columns of whole numbers are {', '.join(numbers)[:200] or 'none'}: rename one."
    )


def _features(metadata: dict[bytes, bytes] | None) -> dict[str, Any]:
    """What `datasets` says about the columns, if it does."""
    text = (metadata or {}).get(b"huggingface", b"{}")
    if len(text) > _LONGEST_METADATA:
        raise DataLensError("its metadata is too long.")
    try:
        features = json.loads(text)["info"]["features"]
    except (ValueError, KeyError, TypeError, RecursionError):
        return {}
    return features if isinstance(features, dict) else {}


def _class_names(feature: Any) -> tuple[str, ...] | None:
    names = feature.get("names") if isinstance(feature, dict) else None
    if isinstance(names, list) and all(isinstance(name, str) for name in names):
        return tuple(names)
    return None


class _Counted(NamedTuple):
    images: int
    size: tuple[int, int]
    """Height and width that all will have."""


def _counted(files: list[Path], columns: _Columns, image_size: int | None) -> _Counted:
    first: tuple[int, int] | None = None
    count = 0
    for picture in _pictures(files, columns):
        size = size_of_picture(picture, image_size)
        first = first or size
        count += 1
        if size != first:
            raise DataLensError(
                f"{picture.name} has {size[0]}x{size[1]} pixels, but the first image has "
                f"{first[0]}x{first[1]}: bring all to one size with --image-size (image_size=)."
            )
    if first is None:
        raise DataLensError("it has no rows.")
    return _Counted(count, first)


def _pictures(files: list[Path], columns: _Columns) -> Iterator[Picture]:
    for file in files:
        row = 0
        for batch in batches_of(file, [columns.image]):
            for value in batch.column(0):
                yield _picture(f"{columns.image} {row} of {file}", value)
                row += 1


def _rows(files: list[Path], columns: _Columns) -> Iterator[tuple[Picture, int]]:
    for file in files:
        row = 0
        for batch in batches_of(file, [columns.image, columns.label]):
            for value, label in zip(
                batch.column(columns.image), batch.column(columns.label), strict=True
            ):
                if not label.is_valid:
                    raise DataLensError(f"{columns.label} {row} of {file} is missing.")
                yield _picture(f"{columns.image} {row} of {file}", value), label.as_py()
                row += 1


def _picture(name: str, value: Any) -> Picture:
    packed = value["bytes"] if value.is_valid and hasattr(value, "keys") else value
    if not packed.is_valid:
        raise DataLensError(
            f"{name} is missing or lies elsewhere: save the data set with its images embedded."
        )
    buffer = packed.as_buffer()
    if buffer.size > MAX_PACKED:
        raise DataLensError(f"{name} has more than {MAX_PACKED:,} bytes: shrink it.")
    return Picture.of_bytes(name, buffer.to_pybytes())
