"""A folder of class folders of images.

Using a folder declares public: its class folders' names, the number of files, and the images'
size and colour.
"""

import warnings
from pathlib import Path

import numpy as np
import numpy.typing as npt
from PIL import Image, ImageOps

from datalens.data.records import NoTestSplit, Records, Split
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
) -> Records:
    """Records of `folder/<class>/<image>`, or of `folder/train/...` and `folder/test/...`.

    Images are grey if every file is, else RGB; transparency is dropped, and of an animation
    the first frame counts. Without `image_size` all must have one size.
    """
    if image_size is not None:
        check_image_size(image_size)
    train, chosen = _split_folders(folder, split)
    names = tuple(child.name for child in _class_folders(train))
    pictures, labels = [], []
    for class_folder in _class_folders(chosen):
        if class_folder.name not in names:
            raise DataLensError(
                f"{class_folder} is a class that {train} does not have: "
                "add a folder of that name there, empty if need be."
            )
        for file in _visible(class_folder):
            pictures.append(_read(file, image_size))
            labels.append(names.index(class_folder.name))
            _check_same_size(file, pictures)
    if not pictures:
        raise DataLensError(f"{chosen} has no images: put them into one folder per class.")
    channels = max(picture.shape[0] for picture in pictures)
    height, width = pictures[0].shape[1:]
    return Records.from_arrays(
        np.stack([np.broadcast_to(picture, (channels, height, width)) for picture in pictures]),
        labels,
        n_classes=n_classes,
        class_names=names,
        name=folder.resolve().name,
        why=_WHY,
    )


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


def _read(file: Path, image_size: int | None) -> npt.NDArray[np.uint8]:
    """One image (channels, height, width)."""
    try:
        with warnings.catch_warnings():
            # PIL checks the size in the header, but only warns at first.
            warnings.simplefilter("error", Image.DecompressionBombWarning)
            with Image.open(file, formats=_FORMATS) as opened:
                picture = ImageOps.exif_transpose(opened)
    except (Image.DecompressionBombWarning, Image.DecompressionBombError) as error:
        raise DataLensError(f"{file} has too many pixels to be read: shrink it.") from error
    except Exception as error:  # a broken file makes PIL's decoders raise almost anything
        raise DataLensError(
            f"{file} is no readable image: remove it, or save it as {', '.join(_FORMATS)}."
        ) from error
    if picture.mode.startswith(_WIDE):
        raise DataLensError(f"{file} has more than 8 bits a channel: save it with 8.")
    picture = picture.convert("L" if picture.mode in _GREY else "RGB")
    if image_size is not None:
        picture = resize_picture(picture, image_size)
    pixels = np.asarray(picture)
    return pixels[None] if pixels.ndim == 2 else pixels.transpose(2, 0, 1)


def _check_same_size(file: Path, pictures: list[npt.NDArray[np.uint8]]) -> None:
    first, last = pictures[0].shape[1:], pictures[-1].shape[1:]
    if first != last:
        raise DataLensError(
            f"{file} has {last[0]}x{last[1]} pixels, but the first image has "
            f"{first[0]}x{first[1]}: bring all to one size with --image-size (image_size=)."
        )
