"""A folder of class folders of images.

Using a folder declares public: its class folders' names, the number of files, and the images'
size.
"""

from contextlib import suppress
from pathlib import Path

import numpy as np
import numpy.typing as npt

from datalens.data.decoding import Picture, Shape, brought_to, channels_of, decoded, sizes_of
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
from datalens.errors import DataLensError

_BESIDE = ("labels.csv", "NOT-PRIVATE.txt")
"""What `datalens sample` puts beside the class folders it writes."""
_SYSTEM_FILES = ("thumbs.db", "desktop.ini")
"""What Windows puts into folders of pictures."""

_WHY = "declared public by the user, who passes a folder with these class folders and files"


def load_folder(
    folder: Path,
    *,
    split: Split = "train",
    n_classes: int | None = None,
    image_size: int | None = None,
    channels: int | None = None,
    keep: Keep | None = None,
) -> Records:
    """Records of `folder/<class>/<image>`, or of `folder/train/...` and `folder/test/...`.

    Images are RGB, or grey where `channels` is 1; what is transparent is laid on white, and of an
    animation the first frame counts. Without `image_size` all must have one size. With `keep`,
    only the wanted files are decoded; of the others the header is read.
    """
    if image_size is not None:
        check_image_size(image_size)
    names, files, labels = _files(folder, split)
    pictures = [Picture.of_file(file) for file in files]
    sizes = sizes_of(pictures, image_size)
    for file, size in zip(files, sizes, strict=True):
        _check_same_size(file, sizes[0], size)
    ahead = _facts(folder, names, len(files), (channels_of(channels), *sizes[0]), n_classes)
    positions = np.arange(len(files)) if keep is None else keep(ahead)
    images = decoded([pictures[position] for position in positions], ahead.shape, image_size)
    return Records.from_arrays(
        images,
        labels,
        class_names=names,
        part_of=ahead,
        positions=None if keep is None else positions,
    )


def count_folder(
    folder: Path, *, image_size: int, n_classes: int | None = None, channels: int | None = None
) -> PublicFacts:
    """What `load_folder` says is public, from the names of folders and files: none is opened."""
    check_image_size(image_size)
    names, files, _ = _files(folder, "train")
    shape = (channels_of(channels), image_size, image_size)
    return _facts(folder, names, len(files), shape, n_classes)


def _facts(
    folder: Path, names: tuple[str, ...], n_records: int, shape: Shape, n_classes: int | None
) -> PublicFacts:
    return PublicFacts(
        name=name_of(folder),
        n_records=n_records,
        shape=shape,
        class_names=declared_classes(n_classes, names),
        why=_WHY,
    )


def load_pictures(
    folder: Path, shape: tuple[int, int, int]
) -> tuple[list[Path], npt.NDArray[np.uint8]]:
    """All images below a folder, whatever they show, brought to `shape`; and which files they are.

    They are turned grey or RGB and, where `shape` is square, resized.
    """
    _, height, width = shape
    files = sorted(file for file in folder.rglob("*") if _is_picture(file, folder))
    if not files:
        raise DataLensError(f"{folder} has no images.")
    images = np.empty((len(files), *shape), dtype=np.uint8)
    for row, file in enumerate(files):
        picture = brought_to(Picture.of_file(file), shape)
        if picture.shape != shape:
            raise DataLensError(
                f"{file} has {picture.shape[1]}x{picture.shape[2]} pixels, but {height}x{width} are"
                " needed: resize it."
            )
        images[row] = picture
    return files, images


def _is_picture(file: Path, folder: Path) -> bool:
    """Not a folder, nor hidden, nor what `datalens sample` writes beside pictures."""
    below = file.relative_to(folder)
    hidden = any(map(_is_hidden, below.parts))
    return not (hidden or file.is_dir() or str(below) in _BESIDE)


def folder_files(folder: Path, split: Split) -> list[Path]:
    """The image files of a split, in the order of the records."""
    return _files(folder, split)[1]


def _files(folder: Path, split: Split) -> tuple[tuple[str, ...], list[Path], list[int]]:
    """Class names, files, and the files' labels."""
    train, chosen = _split_folders(folder, split)
    names = tuple(child.name for child in _class_folders(train))
    if len(names) == 1:
        raise DataLensError(
            f"{train} has one class folder, {names[0]}, and two at least are needed: put the images"
            " of each class into a folder of its own."
        )
    files: list[Path] = []
    labels: list[int] = []
    for class_folder in _class_folders(chosen):
        if class_folder.name not in names:
            raise DataLensError(
                f"{class_folder} is a class that {train} does not have: add images of it there, or"
                " remove this folder."
            )
        found = visible(class_folder)
        if inner := next((child for child in found if child.is_dir()), None):
            raise DataLensError(
                f"{inner} is a folder, and folders within a class are not read: put its images into"
                f" {class_folder} itself."
            )
        if not found and chosen == train:
            raise DataLensError(
                f"{class_folder} has no images, so that its samples would be noise: add some, or"
                " remove the folder."
            )
        files += found
        labels += [names.index(class_folder.name)] * len(found)
    if not files:
        raise DataLensError(
            f"{chosen} has no images: put them into one folder per class ({chosen}/cat/1.jpg)."
        )
    check_each_is_there_once(files)
    return names, files, labels


def check_each_is_there_once(files: list[Path]) -> None:
    """A picture that is reached twice, through links, would be two records of one person."""
    seen = dict[tuple[int, int], Path]()
    for file in files:
        with suppress(OSError):  # what cannot be read is refused when it is decoded
            status = file.stat()
            first = seen.setdefault((status.st_dev, status.st_ino), file)
            if first is not file:
                raise DataLensError(
                    f"{file} is the same file as {first}, through a link, and would count "
                    "twice: remove one of them."
                )


def _split_folders(folder: Path, split: Split) -> tuple[Path, Path]:
    """The folder that names the classes, and the folder to read."""
    train, test = folder / "train", folder / "test"
    if train.is_dir() and test.is_dir():
        return train, {"train": train, "test": test}[split]
    if train.is_dir() and any(child.is_dir() for child in visible(train)):
        raise DataLensError(
            f"{folder} has train/ but no test/: call the folder with the test data test/, or name "
            f"{train} itself."
        )
    if split == "test":
        raise NoTestSplit(
            f"{folder} has no test data: divide it into train/ and test/, each with the class "
            "folders, or name a separate folder."
        )
    return folder, folder


def visible(folder: Path) -> list[Path]:
    """What a folder holds, in the order of names."""
    try:
        return sorted(child for child in folder.iterdir() if not _is_hidden(child.name))
    except OSError as error:
        raise DataLensError(
            f"{folder} cannot be read as a folder ({error.strerror}): allow it, or remove it."
        ) from error


def _is_hidden(name: str) -> bool:
    return name.startswith(".") or name.lower() in _SYSTEM_FILES


def _class_folders(folder: Path) -> list[Path]:
    children = [child for child in visible(folder) if child.name not in _BESIDE]
    if stray := [child for child in children if not child.is_dir()]:
        others = f" and {len(stray) - 1:,} others lie" if len(stray) > 1 else " lies"
        raise DataLensError(
            f"{folder} needs one sub-folder per class ({folder}/cat/1.jpg); {stray[0].name}{others}"
            " directly in it."
        )
    return children


def _check_same_size(file: Path, first: tuple[int, int], last: tuple[int, int]) -> None:
    if first != last:
        raise DataLensError(
            f"{file} has {last[0]}x{last[1]} pixels, but the first image has "
            f"{first[0]}x{first[1]}: bring all to one size with --image-size (image_size=)."
        )
