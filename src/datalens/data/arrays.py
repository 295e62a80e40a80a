"""Arrays as people have them, turned into the one layout that datalens uses."""

from typing import Any

import numpy as np
import numpy.typing as npt

from datalens.data.limits import CHANNELS
from datalens.errors import DataLensError


def as_images(
    images: npt.ArrayLike, positions: npt.NDArray[np.int64] | None = None
) -> npt.NDArray[np.uint8]:
    """Images as uint8 (n, channels, height, width).

    Takes (n, h, w), (n, h, w, c) or (n, c, h, w) with 1 or 3 channels, as uint8 or as floats
    in [0, 1]. `positions` are the images' numbers in a larger data set, for what is said of them.
    """
    pixels = _as_bytes(_as_array("images", images), positions)
    return np.ascontiguousarray(_channels_first(pixels))


def shape_of_images(shape: tuple[int, ...]) -> tuple[int, int, int]:
    """Channels, height and width of images that lie in an array of this shape."""
    channels, height, width = _channels_first(np.broadcast_to(np.uint8(0), shape)).shape[1:]
    return channels, height, width


def as_labels(labels: npt.ArrayLike) -> npt.NDArray[np.int64]:
    """Labels as int64 (n,); whether they fit the declared classes is for `Records` to say."""
    array = _as_array("labels", labels)
    if array.dtype.kind not in "iu":
        raise DataLensError(
            f"labels must be integers, got {array.dtype}: number the classes from 0."
        )
    if array.ndim != 1:
        raise DataLensError(
            f"labels must have the shape (n,), got {array.shape}: one integer per image."
        )
    return array.astype(np.int64)


def _as_array(what: str, values: npt.ArrayLike) -> npt.NDArray[Any]:
    try:
        return np.asarray(values)
    except Exception as error:  # ragged lists, foreign tensors: whatever cannot become an array
        raise DataLensError(f"{what} must be a NumPy array of one shape and type.") from error


def _as_bytes(
    images: npt.NDArray[Any], positions: npt.NDArray[np.int64] | None
) -> npt.NDArray[np.uint8]:
    if images.dtype == np.uint8:
        return images
    if images.dtype.kind != "f":
        raise DataLensError(
            f"images must be uint8 or floats in [0, 1], got {images.dtype}: "
            "use images.astype(np.uint8) if they hold 0 to 255."
        )
    images = np.atleast_2d(images)  # no images, but they can be spoken of
    rounded = np.empty(images.shape, dtype=np.uint8)
    for number, image in enumerate(images):  # one by one: the whole need not be there twice
        sound = (image >= 0) & (image <= 1)  # written so that NaN is not
        if not sound.all():
            raise DataLensError(
                f"images must be uint8 or floats in [0, 1], but image "
                f"{number if positions is None else positions[number]} "
                f"holds {image[~sound][0]}: mend it, or divide by 255 if that is the scale."
            )
        rounded[number] = np.rint(image * 255)
    return rounded


def _channels_first(images: npt.NDArray[Any]) -> npt.NDArray[Any]:
    if images.ndim == 3:
        return images[:, None]
    if images.ndim == 4:
        first, last = images.shape[1] in CHANNELS, images.shape[3] in CHANNELS
        if first and not last:
            return images
        if last and not first:
            return images.transpose(0, 3, 1, 2)
    raise DataLensError(
        f"images must have the shape (n, h, w), (n, h, w, c) or (n, c, h, w) with c = 1 or 3, "
        f"got {images.shape}."
    )
