"""A folder of class folders of images.

Using a folder declares public: its class folders' names, the number of files, and the images'
size and colour.
"""

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import numpy.typing as npt
from PIL import ExifTags, Image, ImageOps

from datalens.data.limits import MAX_PIXELS
from datalens.data.records import (
    Keep,
    NoTestSplit,
    PublicFacts,
    Records,
    Split,
    declared_classes,
)
from datalens.data.resizing import check_image_size, resize_picture
from datalens.errors import DataLensError

_FORMATS = ("PNG", "JPEG", "BMP", "GIF", "WEBP", "PPM")
_GREY = ("1", "L", "LA")
_WIDE = ("I", "F")
"""Modes of more than 8 bits a channel, which PIL would cut off at 255 without a word."""

_WHY = "declared public by the user, who passes a folder with these class folders and files"


def load_folder(
    folder: Path,
    *,
    split: Split = "train",
    n_classes: int | None = None,
    image_size: int | None = None,
    keep: Keep | None = None,
) -> Records:
    """Records of `folder/<class>/<image>`, or of `folder/train/...` and `folder/test/...`.

    Images are grey if every file is, else RGB; transparency is dropped, and of an animation
    the first frame counts. Without `image_size` all must have one size. With `keep`, only the
    wanted files are decoded; of the others the header is read.
    """
    if image_size is not None:
        check_image_size(image_size)
    names, files, labels = _files(folder, split)
    shapes = [_header(file, image_size) for file in files]
    for file, shape in zip(files, shapes, strict=True):
        _check_same_size(file, shapes[0], shape)
    channels, (height, width) = max(shape[0] for shape in shapes), shapes[0][1:]
    ahead = PublicFacts(
        name=folder.resolve().name,
        n_records=len(files),
        shape=(channels, height, width),
        class_names=declared_classes(n_classes, names),
        why=_WHY,
    )
    positions = np.arange(len(files)) if keep is None else keep(ahead)
    images = np.empty((len(positions), *ahead.shape), dtype=np.uint8)
    for row, position in enumerate(positions):
        picture = _read(files[position], image_size)
        if picture.shape[0] > channels or picture.shape[1:] != (height, width):
            raise DataLensError(f"{files[position]} is not what its header says: save it anew.")
        images[row] = picture
    return Records.from_arrays(
        images,
        labels,
        class_names=names,
        part_of=ahead,
        positions=None if keep is None else positions,
    )


def folder_files(folder: Path, split: Split) -> list[Path]:
    """The image files of a split, in the order of the records."""
    return _files(folder, split)[1]


def _files(folder: Path, split: Split) -> tuple[tuple[str, ...], list[Path], list[int]]:
    """Class names, files, and the files' labels."""
    train, chosen = _split_folders(folder, split)
    names = tuple(child.name for child in _class_folders(train))
    files: list[Path] = []
    labels: list[int] = []
    for class_folder in _class_folders(chosen):
        if class_folder.name not in names:
            raise DataLensError(
                f"{class_folder} is a class that {train} does not have: "
                "add a folder of that name there, empty if need be."
            )
        found = _visible(class_folder)
        files += found
        labels += [names.index(class_folder.name)] * len(found)
    if not files:
        raise DataLensError(f"{chosen} has no images: put them into one folder per class.")
    return names, files, labels


def _split_folders(folder: Path, split: Split) -> tuple[Path, Path]:
    """The folder that names the classes, and the folder to read."""
    train, test = folder / "train", folder / "test"
    if train.is_dir() and test.is_dir():
        return train, {"train": train, "test": test}[split]
    if split == "test":
        raise NoTestSplit(
            f"{folder} has no test data: divide it into train/ and test/, each with the class "
            "folders, or name a separate folder."
        )
    return folder, folder


def _visible(folder: Path) -> list[Path]:
    try:
        return sorted(child for child in folder.iterdir() if not child.name.startswith("."))
    except OSError as error:
        raise DataLensError(f"{folder} cannot be read as a folder.") from error


def _class_folders(folder: Path) -> list[Path]:
    # labels.csv is the list that `datalens sample` puts beside the class folders it writes.
    children = [child for child in _visible(folder) if child.name != "labels.csv"]
    for child in children:
        if not child.is_dir():
            raise DataLensError(f"{child} lies outside the class folders: move it into one.")
    return children


def _header(file: Path, image_size: int | None) -> tuple[int, int, int]:
    """Channels, height and width that the image will have, its pixels unread."""
    with _opened(file) as picture:
        mode, (width, height) = picture.mode, picture.size
        if image_size is not None:
            width = height = image_size
        elif width != height and picture.getexif().get(ExifTags.Base.Orientation, 1) > 4:
            width, height = height, width  # a photograph that is to be turned
    _check_mode(file, mode)
    return 1 if mode in _GREY else 3, height, width


def _read(file: Path, image_size: int | None) -> npt.NDArray[np.uint8]:
    """One image (channels, height, width)."""
    with _opened(file) as opened:
        picture = ImageOps.exif_transpose(opened)
        picture = picture.convert("L" if picture.mode in _GREY else "RGB")
        if image_size is not None:
            picture = resize_picture(picture, image_size)
        pixels = np.asarray(picture)
    return pixels[None] if pixels.ndim == 2 else pixels.transpose(2, 0, 1)


@contextmanager
def _opened(file: Path) -> Iterator[Image.Image]:
    if not file.is_file():  # a pipe would keep us waiting
        raise DataLensError(f"{file} is no file: put images, and nothing else, into {file.parent}.")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of details beside the picture that are damaged
            warnings.simplefilter("error", Image.DecompressionBombWarning)
            with Image.open(file, formats=_FORMATS) as opened:
                if opened.width * opened.height > MAX_PIXELS:
                    raise Image.DecompressionBombError
                yield opened
    except (Image.DecompressionBombWarning, Image.DecompressionBombError) as error:
        raise DataLensError(f"{file} has too many pixels to be read: shrink it.") from error
    except Exception as error:  # a broken file makes PIL's decoders raise almost anything
        raise DataLensError(
            f"{file} is no readable image: remove it, or save it as {', '.join(_FORMATS)}."
        ) from error


def _check_mode(file: Path, mode: str) -> None:
    if mode.startswith(_WIDE):
        raise DataLensError(f"{file} has more than 8 bits a channel: save it with 8.")


def _check_same_size(file: Path, first: tuple[int, int, int], last: tuple[int, int, int]) -> None:
    if first[1:] != last[1:]:
        raise DataLensError(
            f"{file} has {last[1]}x{last[2]} pixels, but the first image has "
            f"{first[1]}x{first[2]}: bring all to one size with --image-size (image_size=)."
        )
