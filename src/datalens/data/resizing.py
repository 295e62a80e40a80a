"""Square images of another size."""

import numpy as np
import numpy.typing as npt
from PIL import Image

from datalens.data.limits import MAX_SIDE, MIN_SIDE
from datalens.errors import DataLensError


def check_image_size(size: int) -> None:
    if isinstance(size, bool) or not isinstance(size, int) or not MIN_SIDE <= size <= MAX_SIDE:
        raise DataLensError(
            f"--image-size (image_size=) must be a whole number from {MIN_SIDE} to {MAX_SIDE}, "
            f"got {size!r}."
        )


def resize_picture(picture: Image.Image, size: int) -> Image.Image:
    """Stretched to a square: cropping would be a guess at what matters in a picture."""
    # Bilinear averages over the whole area when shrinking, and never overshoots as bicubic does.
    return picture.resize((size, size), Image.Resampling.BILINEAR)


def resize(images: npt.NDArray[np.uint8], size: int) -> npt.NDArray[np.uint8]:
    """Images (n, c, h, w) resized one by one, so that no record touches another."""
    check_image_size(size)
    n, channels, height, width = images.shape
    if (height, width) == (size, size):
        return images
    if not height or not width:
        raise DataLensError(f"images must have pixels, got the shape {images.shape}.")
    result = np.empty((n, channels, size, size), dtype=np.uint8)
    for source, target in zip(
        images.reshape(-1, height, width), result.reshape(-1, size, size), strict=True
    ):
        target[:] = np.asarray(resize_picture(Image.fromarray(source), size))
    return result
