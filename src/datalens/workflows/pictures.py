"""Contact sheets: images by class, one row each."""

import math
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageDraw, ImageFont

Font = ImageFont.FreeTypeFont | ImageFont.ImageFont
GAP = 2
SMALLEST = 11.0
"""Pixels of a caption's letters, below which nobody reads them."""


def contact_sheet(
    images: NDArray[np.uint8], columns: int, *, caption: str = "", scale: int = 2
) -> Image.Image:
    """Images (n, c, h, w) row by row, enlarged, with an optional caption underneath."""
    n, channels, height, width = images.shape
    rows = -(-n // columns)
    sheet = np.full(
        (channels, rows * (height + GAP) + GAP, columns * (width + GAP) + GAP), 255, np.uint8
    )
    for index, image in enumerate(images):
        top = GAP + (index // columns) * (height + GAP)
        left = GAP + (index % columns) * (width + GAP)
        sheet[:, top : top + height, left : left + width] = image
    pixels = sheet[0] if channels == 1 else sheet.transpose(1, 2, 0)
    picture = Image.fromarray(pixels).convert("RGB")
    picture = picture.resize(
        (picture.width * scale, picture.height * scale), Image.Resampling.NEAREST
    )
    if not caption:
        return picture
    font = _font(caption, picture.width)
    lines = _lines(caption, font, picture.width - 12)
    high = math.ceil(font.getbbox(caption)[3]) + 2
    captioned = Image.new("RGB", (picture.width, picture.height + high * len(lines) + 8), "white")
    captioned.paste(picture)
    pen = ImageDraw.Draw(captioned)
    for number, line in enumerate(lines):
        pen.text((6, picture.height + 4 + number * high), line, fill="black", font=font)
    return captioned


def _lines(caption: str, font: Font, width: float) -> list[str]:
    """Word by word, as many in a line as fit into it."""
    lines = [""]
    for word in caption.split(" "):
        longer = f"{lines[-1]} {word}" if lines[-1] else word
        if lines[-1] and font.getlength(longer) > width:
            lines.append(word)
        else:
            lines[-1] = longer
    return lines


def _font(caption: str, width: int) -> Font:
    """As large as the picture is wide, for pages scale both down; and not beyond its margin."""
    large = ImageFont.load_default(max(SMALLEST, width / 40))
    fits = (width - 12) / max(large.getlength(caption), 1)
    return ImageFont.load_default(max(SMALLEST, width / 40 * min(fits, 1)))


def save_sheet(picture: Image.Image, path: Path) -> None:
    """PNG without a time stamp, so that equal pictures are equal files.

    The last per cent of a file's size would take ten times as long on noisy colours.
    """
    picture.save(path, format="PNG", compress_level=6)


def tiles(images: NDArray[np.uint8], columns: int) -> Image.Image:
    """Images (n, c, h, w) row by row; between them nothing, whatever lies behind the page."""
    n, channels, height, width = images.shape
    gap = max(1, width // 14)
    rows, depth = -(-n // columns), 2 if channels == 1 else 4
    size = (rows * (height + gap) - gap, columns * (width + gap) - gap, depth)
    sheet = np.zeros(size, np.uint8)
    for index, image in enumerate(images):
        top = (index // columns) * (height + gap)
        left = (index % columns) * (width + gap)
        tile = sheet[top : top + height, left : left + width]
        tile[..., :-1] = image.transpose(1, 2, 0)
        tile[..., -1] = 255
    return Image.fromarray(sheet)
