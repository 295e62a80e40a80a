"""What the ensemble refuses, and how it says so."""

import math

import torch
from torch import Tensor

from datalens.ensemble.discriminator import Discriminator
from datalens.errors import DataLensError


def check_between(name: str, value: float, low: float, high: float = math.inf) -> None:
    """A number the caller chose lies within bounds; NaN does not."""
    if not low <= value <= high:
        limits = f"at least {low}" if high == math.inf else f"from {low} to {high}"
        raise DataLensError(f"{name} must be {limits}, got {value}.")


def check_shards(discriminator: Discriminator, images: Tensor, labels: Tensor) -> None:
    """Records fit the discriminator: uint8 (teachers, shard, c, h, w), labels within classes."""
    shape = ", ".join(map(str, discriminator.shape))
    if images.dtype != torch.uint8 or images.ndim != 5 or images.shape[2:] != discriminator.shape:
        raise DataLensError(
            f"shards must be uint8 images (teachers, shard, {shape}), "
            f"got {images.dtype} {tuple(images.shape)}."
        )
    if labels.shape != images.shape[:2] or not labels.numel():
        raise DataLensError(
            f"labels must be (teachers, shard) as the images are, {tuple(images.shape[:2])} and "
            f"not empty, got {tuple(labels.shape)}."
        )
    _check_batch("shards", labels.shape[1], discriminator)
    _check_labels("the shards'", labels, discriminator.n_classes)


def check_synthetic(discriminator: Discriminator, images: Tensor, labels: Tensor) -> None:
    """A synthetic batch fits the discriminator: (m, c, h, w) in [0, 1], labels within classes."""
    shape = discriminator.shape
    if images.shape[1:] != shape or labels.shape != images.shape[:1] or not labels.numel():
        raise DataLensError(
            f"synthetic images must be (m, {', '.join(map(str, shape))}) with m labels, got "
            f"{tuple(images.shape)} and {tuple(labels.shape)}."
        )
    if not bool(((images >= 0) & (images <= 1)).all()):
        raise DataLensError("synthetic images must be numbers in [0, 1].")
    _check_batch("synthetic batches", len(labels), discriminator)
    _check_labels("synthetic", labels, discriminator.n_classes)


def _check_batch(what: str, size: int, discriminator: Discriminator) -> None:
    if size < discriminator.smallest_batch:
        raise DataLensError(
            f"the {discriminator.name} discriminator takes {what} of at least "
            f"{discriminator.smallest_batch} images, got {size}."
        )


def _check_labels(whose: str, labels: Tensor, n_classes: int) -> None:
    if labels.dtype.is_floating_point or not bool(((labels >= 0) & (labels < n_classes)).all()):
        raise DataLensError(f"{whose} labels must be integers from 0 to {n_classes - 1}.")


def check_by_class(discriminator: Discriminator, images: Tensor) -> None:
    """Images (m, classes, c, h, w) are there for every class that a record may have."""
    shape = (discriminator.n_classes, *discriminator.shape)
    if images.ndim != 5 or images.shape[1:] != shape or not len(images):
        raise DataLensError(
            f"images by class must be (m, {', '.join(map(str, shape))}), got {tuple(images.shape)}."
        )
