"""Data sets by name or by path: the one door through which records come in."""

import hashlib
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from datalens.data import celeba, cifar10, places365
from datalens.data.folders import (
    count_folder,
    folder_files,
    load_folder,
    load_pictures,
    visible,
)
from datalens.data.hugging_face import is_table, load_hugging_face, table_files
from datalens.data.npz import count_npz, load_images, load_npz
from datalens.data.official import FASHION_MNIST, MNIST, N_RECORDS, OfficialSet
from datalens.data.records import (
    PUBLISHED,
    Keep,
    PublicFacts,
    Records,
    Split,
    declared_classes,
)
from datalens.errors import DataLensError

_FASHION_MINI = Path(__file__).parent / "bundled" / "fashion-mini.npz"
_DIGITS_TRAIN = 1_400


@dataclass(frozen=True, kw_only=True)
class Description:
    """What `datalens data` says about a data set, without reading it."""

    name: str
    found: str | None
    """Where it lies; None if it would have to be downloaded."""
    n_records: int | None
    """None where only the files tell."""
    n_test_records: int | None
    shape: tuple[int, int, int]
    class_names: tuple[str, ...]
    public: str
    """What is public about it, and why."""
    how_to_get: str
    """What to do where it is not found."""


_DOWNLOADED = "downloaded when used"


class _Files(NamedTuple):
    """What a data set is read from; nothing, where a library brings it along."""

    whole: Sequence[Path]
    pictures: Sequence[Path] = ()
    """Too many to be read for a fingerprint: their names and sizes stand for them."""


@dataclass(frozen=True, kw_only=True)
class _Entry:
    n_records: Mapping[Split, int | None]
    shape: tuple[int, int, int]
    class_names: tuple[str, ...]
    find: Callable[[Path | None], str | None]
    load: Callable[[Split, Path | None, int | None, Keep | None], Records]
    files: Callable[[Split, Path | None], _Files]
    why: str = f"{PUBLISHED}; of a part of it, declared public by the user"
    how_to_get: str = _DOWNLOADED


def load(
    source: str | Path,
    *,
    split: Split = "train",
    data_dir: str | Path | None = None,
    image_size: int | None = None,
    n_classes: int | None = None,
    channels: int | None = None,
    keep: Keep | None = None,
) -> Records:
    """Records of a data set by name, of an NPZ file, of a folder of class folders, or of a table
    of images as Hugging Face stores it.

    A name goes before a path: a folder that is called mnist is `./mnist` or `Path("mnist")`.
    With `keep`, only those records are held that it names, given the public facts. Pictures in a
    folder or table are read in colour, or in grey where `channels` is 1, whatever they are.
    """
    if split not in ("train", "test"):
        raise DataLensError(f"split must be train or test, got {split!r}.")
    _check_colour(source, channels)
    if isinstance(source, str) and source in _ENTRIES:
        entry = _ENTRIES[source]
        declared_classes(n_classes, entry.class_names)
        return entry.load(split, _folder(data_dir), image_size, keep)
    path = _path(source)
    given: dict[str, Any] = {"n_classes": n_classes, "image_size": image_size, "keep": keep}
    if channels is not None:
        given["channels"] = channels
    return _reader(path)(path, split=split, **given)


def count(
    source: str,
    *,
    image_size: int | None = None,
    n_classes: int | None = None,
    channels: int | None = None,
) -> PublicFacts:
    """What `load` says is public of a folder or an NPZ file. No image or label is read."""
    _check_colour(source, channels)
    path = _path(source)
    if not path.is_dir():
        return count_npz(path, image_size=image_size, n_classes=n_classes)
    if image_size is None:
        raise DataLensError(f"{source} has images whose size only they tell: give image_size.")
    return count_folder(path, image_size=image_size, n_classes=n_classes, channels=channels)


def _check_colour(source: str | Path, channels: int | None) -> None:
    if channels is not None and not holds_pictures(source):
        raise DataLensError(
            f"{source} is grey or colour as it is: leave out --grey and --colour (channels=), "
            "which are for pictures in a folder or table."
        )


def load_unlabelled(
    source: str, shape: tuple[int, int, int], *, data_dir: str | Path | None = None
) -> tuple[list[str] | None, npt.NDArray[np.uint8]]:
    """Images of `shape` to be classified, and the files they come from, if each has its own.

    Those of an NPZ file, of all files below a folder, or of a data set's test split.
    """
    size = shape[1] if shape[1] == shape[2] else None
    if source in _ENTRIES:
        return None, load(source, split="test", data_dir=data_dir, image_size=size).images
    path = _path(source)
    if not path.is_dir():
        return None, load_images(path, image_size=size)
    files, images = load_pictures(path, shape)
    named = [os.fsencode(file.relative_to(path).as_posix()) for file in files]
    return [name.decode(errors="replace") for name in named], images


def fingerprint(
    source: str | Path, *, split: Split = "train", data_dir: str | Path | None = None
) -> str:
    """Tells whether two machines have the same data: SHA-256 of a file's bytes, or of the names
    and sizes of a folder's files. A private fact, to be compared and not published."""
    digest = hashlib.sha256()
    files = _files(source, split, data_dir)
    base = os.path.commonpath(files.pictures) if files.pictures else ""
    for picture in files.pictures:
        name = os.fsencode(picture.relative_to(base).as_posix())  # any bytes can be a name
        digest.update(name + b"\0%d\0" % picture.stat().st_size)
    for file in files.whole:
        with file.open("rb") as stream:
            digest.update(hashlib.file_digest(stream, "sha256").digest())
    return digest.hexdigest()


def is_folder(source: str | Path) -> bool:
    """Whether these are pictures in a folder of class folders."""
    named = isinstance(source, str) and source in _ENTRIES
    return not named and _reader(_path(source)) is load_folder


def holds_pictures(source: str | Path) -> bool:
    """Whether these are pictures in files or in a table, each grey or in colour."""
    named = isinstance(source, str) and source in _ENTRIES
    return not named and _reader(_path(source)) is not load_npz


def is_two_things(source: str, data_dir: str | Path | None) -> bool:
    """Whether a name is a data set's and, where one stands, a folder's of class folders too.

    The folder in which that very data set lies is not meant.
    """
    folder = Path(source)
    if source not in _ENTRIES or not folder.is_dir():
        return False
    found = _ENTRIES[source].find(_folder(data_dir))
    its_own = found is not None and Path(found).resolve().is_relative_to(folder.resolve())
    return not its_own and any(child.is_dir() for child in visible(folder))


def _files(source: str | Path, split: Split, data_dir: str | Path | None) -> _Files:
    if isinstance(source, str) and source in _ENTRIES:
        return _ENTRIES[source].files(split, _folder(data_dir))
    path = _path(source)
    if is_table(path):
        return _Files(table_files(path, split))
    return _Files([], folder_files(path, split)) if path.is_dir() else _Files([path])


def _reader(path: Path) -> Callable[..., Records]:
    if is_table(path):
        return load_hugging_face
    return load_folder if path.is_dir() else load_npz


def _path(source: str | Path) -> Path:
    """A folder or a file that is there and that somebody can read."""
    try:
        path = Path(source).expanduser()
        is_folder, is_file = path.is_dir(), path.is_file()
    except (OSError, RuntimeError):  # no permission, a name too long, an unknown ~user
        is_folder = is_file = False
    if is_folder or (is_file and path.suffix.lower() in (".npz", ".parquet")):
        return path
    if is_file:
        raise DataLensError(
            f"{path} is neither an .npz or .parquet file nor a folder of class folders."
        )
    raise DataLensError(
        f"{source} is neither a data set by name ({', '.join(_ENTRIES)}) nor a file or folder "
        "that can be found."
    )


def describe(name: str, data_dir: str | Path | None = None) -> Description:
    """What there is to know about a data set by name. Nothing is downloaded or read."""
    if name not in _ENTRIES:
        raise DataLensError(f"{name} is no data set by name: there are {', '.join(_ENTRIES)}.")
    entry = _ENTRIES[name]
    return Description(
        name=name,
        found=entry.find(_folder(data_dir)),
        n_records=entry.n_records["train"],
        n_test_records=entry.n_records["test"],
        shape=entry.shape,
        class_names=entry.class_names,
        public=f"number of records, image size and class names: {entry.why}",
        how_to_get=entry.how_to_get,
    )


def catalogue(data_dir: str | Path | None = None) -> tuple[Description, ...]:
    """Every data set that has a name."""
    return tuple(describe(name, data_dir) for name in _ENTRIES)


def _folder(data_dir: str | Path | None) -> Path | None:
    """Where data sets by name are looked for first."""
    if data_dir is None:
        return None
    folder = Path(data_dir).expanduser()
    if not folder.is_dir():
        raise DataLensError(f"--data-dir (data_dir=) {data_dir} is no folder: name one that is.")
    return folder


def _load_fashion_mini(
    split: Split, data_dir: Path | None, image_size: int | None, keep: Keep | None
) -> Records:
    return load_npz(
        _FASHION_MINI,
        split=split,
        name="fashion-mini",
        why=PUBLISHED,
        image_size=image_size,
        keep=keep,
    )


def _load_digits(
    split: Split, data_dir: Path | None, image_size: int | None, keep: Keep | None
) -> Records:
    from sklearn.datasets import load_digits  # takes a second to import

    digits = load_digits()
    part = slice(_DIGITS_TRAIN) if split == "train" else slice(_DIGITS_TRAIN, None)
    records = Records.from_arrays(
        np.rint(digits.images[part] * (255 / 16)).astype(np.uint8),
        digits.target[part],
        class_names=MNIST.class_names,
        name="digits",
        image_size=image_size,
        why=PUBLISHED,
    )
    return records.only(keep(records.public)) if keep else records


def _official(official: OfficialSet) -> _Entry:
    def find(data_dir: Path | None) -> str | None:
        files = official.find("train", data_dir)
        return str(files[0].parent) if files else None

    return _Entry(
        n_records=N_RECORDS,
        shape=(1, 28, 28),
        class_names=official.class_names,
        find=find,
        load=official.load,
        files=lambda split, data_dir: _Files(official.files(split, data_dir)),
    )


def _faces(faces: celeba.FaceSet) -> _Entry:
    def files(split: Split, data_dir: Path | None) -> _Files:
        place = faces.place(data_dir)
        pictures = faces.pictures(split, data_dir)
        archive = [] if pictures else [place.pictures]
        return _Files([place.attributes, place.partition, *archive], pictures)

    return _Entry(
        n_records=faces.n_records,
        shape=(3, celeba.SIDE, celeba.SIDE),
        class_names=faces.class_names,
        find=faces.find,
        load=faces.load,
        files=files,
        how_to_get=celeba.HOW_TO_GET,
    )


_ENTRIES = {
    "fashion-mini": _Entry(
        n_records={"train": 20_000, "test": 2_000},
        shape=(1, 28, 28),
        class_names=FASHION_MNIST.class_names,
        find=lambda data_dir: "bundled with datalens",
        load=_load_fashion_mini,
        files=lambda split, data_dir: _Files([_FASHION_MINI]),
    ),
    "digits": _Entry(
        n_records={"train": _DIGITS_TRAIN, "test": 397},
        shape=(1, 8, 8),
        class_names=MNIST.class_names,
        find=lambda data_dir: "comes with scikit-learn",
        load=_load_digits,
        files=lambda split, data_dir: _Files([]),
    ),
    "mnist": _official(MNIST),
    "fashion-mnist": _official(FASHION_MNIST),
    "cifar10": _Entry(
        n_records=cifar10.N_RECORDS,
        shape=cifar10.SHAPE,
        class_names=cifar10.CLASS_NAMES,
        find=cifar10.find,
        load=cifar10.load,
        files=lambda split, data_dir: _Files(cifar10.files(split, data_dir)),
        how_to_get=cifar10.HOW_TO_GET,
    ),
    "celeba-gender": _faces(celeba.GENDER),
    "celeba-hair": _faces(celeba.HAIR),
    "places365": _Entry(
        n_records=places365.N_RECORDS,
        shape=(3, places365.SIDE, places365.SIDE),
        class_names=places365.CLASS_NAMES,
        find=places365.find,
        load=places365.load,
        files=lambda split, data_dir: _Files([], places365.pictures(split, data_dir)),
        why=places365.WHY,
        how_to_get=places365.HOW_TO_GET,
    ),
}
