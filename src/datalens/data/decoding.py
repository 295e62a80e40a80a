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
from PIL import ExifTags, Image, ImageFile, ImageOps, UnidentifiedImageError

from datalens.data.limits import CHANNELS, MAX_PACKED, MAX_PIXELS
from datalens.data.resizing import resize_picture
from datalens.errors import DataLensError

_FORMATS = ("PNG", "JPEG", "BMP", "GIF", "WEBP", "PPM")
_WIDE = ("I", "F")
"""Modes of more than 8 bits a channel, which PIL would cut off at 255 without a word."""
_WHITE = (255, 255, 255, 255)
_ROWS = 64
SHOWN_FAULTS = 6
"""Pictures that cannot be used, of which so many are named."""

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


def sizes_of(pictures: Sequence[Picture], image_size: int | None) -> list[tuple[int, int]]:
    """Height and width that each image will have, its pixels unread."""
    sizes: list[tuple[int, int]] = []
    _each(pictures, lambda row: sizes.append(size_of_picture(pictures[row], image_size)))
    return sizes


def size_of_picture(picture: Picture, image_size: int | None) -> tuple[int, int]:
    """Height and width that the image will have, its pixels unread."""
    with _opened(picture) as image:
        _check_depth(picture, image)
        width, height = image.size
        if image_size is not None:
            width = height = image_size
        elif width != height and image.getexif().get(ExifTags.Base.Orientation, 1) > 4:
            width, height = height, width  # a photograph that is to be turned
    return height, width


def channels_of(declared: int | None) -> int:
    """1 for grey, 3 for colour: what the user declares, else colour.

    The number of channels is published, so it never depends on a picture: any rule that looks at
    them lets one odd file among equal ones decide it. Colour loses nothing of a grey picture.
    """
    if declared is None:
        return 3
    if declared not in CHANNELS:
        raise DataLensError(f"channels must be 1 (grey) or 3 (colour), got {declared!r}.")
    return declared


def decoded(
    pictures: Sequence[Picture], shape: Shape, image_size: int | None
) -> npt.NDArray[np.uint8]:
    """Images (n, channels, height, width), each turned grey or RGB."""
    images = np.empty((len(pictures), *shape), dtype=np.uint8)

    def fill(row: int) -> None:
        images[row] = decode(pictures[row], shape, image_size)

    _each(pictures, fill)
    return images


def _each(pictures: Sequence[Picture], work: Callable[[int], None]) -> None:
    """Work on every picture by its number; one error names all that cannot be read."""
    faults: list[str] = []
    names: list[str] = []
    for row, picture in enumerate(pictures):
        try:
            work(row)
        except DataLensError as error:
            faults.append(str(error))
            names.append(picture.name)
    if len(faults) == 1:
        raise DataLensError(faults[0])
    if faults:
        others = ", ".join(names[1:SHOWN_FAULTS])
        more = ", ..." if len(names) > SHOWN_FAULTS else ""
        raise DataLensError(
            f"{len(faults):,} pictures cannot be used. {faults[0]} The others: {others}{more}."
        )


def decode(picture: Picture, shape: Shape, image_size: int | None) -> npt.NDArray[np.uint8]:
    """One image of this shape, turned grey or RGB."""
    pixels = _pixels(picture, shape[0], image_size)
    if pixels.shape != shape:
        raise DataLensError(f"{picture.name} is not what its header says: save it anew.")
    return pixels


def brought_to(picture: Picture, shape: Shape) -> npt.NDArray[np.uint8]:
    """One image turned grey or RGB and, where `shape` is square, resized."""
    channels, height, width = shape
    return _pixels(picture, channels, height if height == width else None)


def _pixels(picture: Picture, channels: int, image_size: int | None) -> npt.NDArray[np.uint8]:
    """Channels, height, width. On white, if one can see through it: what lies under transparency
    is often black, and a drawing on it would be lost."""
    mode = "L" if channels == 1 else "RGB"
    with _opened(picture) as opened:
        _check_depth(picture, opened)
        image: Image.Image = ImageOps.exif_transpose(opened)
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
            with picture.open() as stream:
                if not stream.read(1):
                    raise DataLensError(f"{picture.name} is empty: fetch it again, or remove it.")
                stream.seek(0)
                with Image.open(stream, formats=_FORMATS) as opened:
                    if opened.width * opened.height > MAX_PIXELS:
                        raise Image.DecompressionBombError
                    yield opened
    except DataLensError:
        raise
    except (Image.DecompressionBombWarning, Image.DecompressionBombError) as error:
        raise DataLensError(f"{picture.name} has too many pixels to be read: shrink it.") from error
    except UnidentifiedImageError as error:
        raise DataLensError(
            f"{picture.name} is no image of a format that is read: remove it, or save it as"
            f" {', '.join(_FORMATS)}."
        ) from error
    except Exception as error:  # a broken file makes PIL's decoders raise almost anything
        if isinstance(error, OSError) and error.strerror:  # the system's, not a decoder's
            raise DataLensError(
                f"{picture.name} cannot be read ({error.strerror}): allow it, or remove the file."
            ) from error
        raise DataLensError(
            f"{picture.name} is damaged or cut off: fetch it again, or remove it."
        ) from error


def _check_depth(picture: Picture, image: ImageFile.ImageFile) -> None:
    """Also of colour and transparent pictures, of which PIL keeps the upper 8 bits alone."""
    stored = [tile[3] for tile in image.tile]  # how pixels are packed: "RGB;16B", ("RGB", 4095)
    packed = any(";16" in str(each) for each in stored)
    largest = [each[-1] for each in stored if image.format == "PPM" and isinstance(each, tuple)]
    if image.mode.startswith(_WIDE) or packed or any(value > 255 for value in largest):
        raise DataLensError(f"{picture.name} has more than 8 bits a channel: save it with 8.")
