"""Pictures as they are stored, in files or archives, decoded one by one within bounds."""

import io
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO

import numpy as np
import numpy.typing as npt
from PIL import ExifTags, Image, ImageFile, ImageOps

from datalens.data.limits import CHANNELS, MAX_PACKED, MAX_PIXELS
from datalens.data.resizing import resize_picture
from datalens.errors import DataLensError

_FORMATS = ("PNG", "JPEG", "BMP", "GIF", "WEBP", "PPM")
_GREY = ("1", "L", "LA")
_WIDE = ("I", "F")
"""Modes of more than 8 bits a channel, which PIL would cut off at 255 without a word."""
_WHITE = (255, 255, 255, 255)
_ROWS = 64

Shape = tuple[int, int, int]
"""Channels, height and width."""


@dataclass(frozen=True, kw_only=True)
class Picture:
    """A stored picture: what it is called when something is wrong with it, and how to open it."""

    name: str
    open: Callable[[], IO[bytes]]

    @classmethod
    def of_file(cls, file: Path) -> "Picture":
        def opened() -> IO[bytes]:
            if not file.is_file():  # a pipe would keep us waiting
                raise DataLensError(
                    f"{file} is no file: put images, and nothing else, into {file.parent}."
                )
            return file.open("rb")

        return cls(name=str(file), open=opened)

    @classmethod
    def of_bytes(cls, name: str, content: bytes) -> "Picture":
        def opened() -> IO[bytes]:
            if len(content) > MAX_PACKED:
                raise DataLensError(f"{name} has more than {MAX_PACKED:,} bytes: shrink it.")
            return io.BytesIO(content)

        return cls(name=name, open=opened)


def shape_of_picture(picture: Picture, image_size: int | None) -> Shape:
    """The shape that the image will have, its pixels unread."""
    with _opened(picture) as image:
        _check_depth(picture, image)
        mode, (width, height) = image.mode, image.size
        if image_size is not None:
            width = height = image_size
        elif width != height and image.getexif().get(ExifTags.Base.Orientation, 1) > 4:
            width, height = height, width  # a photograph that is to be turned
    return 1 if mode in _GREY else 3, height, width


def channels_of(where: Path, pictures: int, in_colour: int, declared: int | None) -> int:
    """1 for grey, 3 for colour: what the user says, else as all pictures are, or most.

    How many channels there are is published, so a few odd files must not decide it: a grey one
    among colour pictures is common and makes no difference, a colour one among grey ones asks.
    """
    if declared is not None:
        check_channels(declared)
        return declared
    if 0 < 2 * in_colour < pictures:
        raise DataLensError(
            f"{in_colour:,} of {pictures:,} pictures in {where} are in colour: say with --grey or "
            "--colour (channels=1 or 3) what all are to be taken for."
        )
    return 3 if in_colour else 1


def check_channels(declared: int) -> None:
    if declared not in CHANNELS:
        raise DataLensError(f"channels must be 1 (grey) or 3 (colour), got {declared!r}.")


def decoded(
    pictures: Sequence[Picture], shape: Shape, image_size: int | None, *, declared: bool = False
) -> npt.NDArray[np.uint8]:
    """Images (n, channels, height, width), grey ones in colour if that is their data set's."""
    images = np.empty((len(pictures), *shape), dtype=np.uint8)
    for row, picture in enumerate(pictures):
        images[row] = decode(picture, shape, image_size, declared=declared)
    return images


def decode(
    picture: Picture, shape: Shape, image_size: int | None, *, declared: bool = False
) -> npt.NDArray[np.uint8]:
    """One image of this height and width, and of at most so many channels.

    If the channels are `declared`, it is turned grey where that is what they are.
    """
    pixels = _pixels(picture, "L" if declared and shape[0] == 1 else None, image_size)
    if pixels.shape[0] > shape[0] or pixels.shape[1:] != shape[1:]:
        raise DataLensError(f"{picture.name} is not what its header says: save it anew.")
    return pixels


def brought_to(picture: Picture, shape: Shape) -> npt.NDArray[np.uint8]:
    """One image turned grey or RGB and, where `shape` is square, resized."""
    channels, height, width = shape
    mode = "L" if channels == 1 else "RGB"
    return _pixels(picture, mode, height if height == width else None)


def _pixels(picture: Picture, mode: str | None, image_size: int | None) -> npt.NDArray[np.uint8]:
    """Channels, height, width; grey or RGB as it is, or as `mode` says. On white, if one can see
    through it: what lies under transparency is often black, and a drawing on it would be lost."""
    with _opened(picture) as opened:
        _check_depth(picture, opened)
        image: Image.Image = ImageOps.exif_transpose(opened)
        mode = mode or ("L" if image.mode in _GREY else "RGB")
        image = _on_white(image, mode) if image.has_transparency_data else image.convert(mode)
        if image_size is not None:
            image = resize_picture(image, image_size)
        pixels = np.asarray(image)
    return pixels[None] if pixels.ndim == 2 else pixels.transpose(2, 0, 1)


def _on_white(image: Image.Image, mode: str) -> Image.Image:
    """A few rows at a time: a large picture is not held in three more forms."""
    result = Image.new(mode, image.size)
    for top in range(0, image.height, _ROWS):
        box = (0, top, image.width, min(top + _ROWS, image.height))
        rows = image.crop(box).convert("RGBA")
        ground = Image.new("RGBA", rows.size, _WHITE)
        result.paste(Image.alpha_composite(ground, rows).convert(mode), box)
    return result


@contextmanager
def _opened(picture: Picture) -> Iterator[ImageFile.ImageFile]:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of details beside the picture that are damaged
            warnings.simplefilter("error", Image.DecompressionBombWarning)
            with picture.open() as stream, Image.open(stream, formats=_FORMATS) as opened:
                if opened.width * opened.height > MAX_PIXELS:
                    raise Image.DecompressionBombError
                yield opened
    except DataLensError:
        raise
    except (Image.DecompressionBombWarning, Image.DecompressionBombError) as error:
        raise DataLensError(f"{picture.name} has too many pixels to be read: shrink it.") from error
    except Exception as error:  # a broken file makes PIL's decoders raise almost anything
        raise DataLensError(
            f"{picture.name} is no readable image: remove it, or save it as {', '.join(_FORMATS)}."
        ) from error


def _check_depth(picture: Picture, image: ImageFile.ImageFile) -> None:
    """Also of colour and transparent pictures, of which PIL keeps the upper 8 bits alone."""
    stored = [tile[3] for tile in image.tile]  # how pixels are packed: "RGB;16B", ("RGB", 4095)
    packed = any(";16" in str(each) for each in stored)
    largest = [each[-1] for each in stored if image.format == "PPM" and isinstance(each, tuple)]
    if image.mode.startswith(_WIDE) or packed or any(value > 255 for value in largest):
        raise DataLensError(f"{picture.name} has more than 8 bits a channel: save it with 8.")
