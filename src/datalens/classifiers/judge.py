"""The judge of accuracy: train on synthetic images, test on real ones.

One small convolutional network, the same everywhere (judge_cnn.py), ten epochs, and the figure that
counts is the last epoch's. Its best epoch is chosen on the test data, hence optimistic, and kept
only for comparison with papers that report it. Another network can be asked for beside it.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from datalens.classifiers.judge_cnn import Cnn
from datalens.classifiers.judge_residual import Residual
from datalens.classifiers.judges import Judge
from datalens.errors import DataLensError

EPOCHS = 10
SMALLEST_SIDE = 8

NetworkName = Literal["cnn", "residual"]
NETWORKS: dict[NetworkName, type[Cnn] | type[Residual]] = {"cnn": Cnn, "residual": Residual}

Pixels = np.ndarray | Tensor
Progress = Callable[[int, int], None]


@dataclass(frozen=True, kw_only=True)
class Judgement:
    """How well a classifier trained on synthetic images does on real ones (fractions)."""

    accuracy: float
    """After the last epoch: the figure to publish."""
    accuracy_best_on_test: float | None
    """The best epoch, chosen on the test data: optimistic, only to compare with papers. None
    where there are no epochs."""
    per_class: tuple[float, ...]
    """Accuracy of the last epoch on each class; NaN for a class without test images."""
    per_epoch: tuple[float, ...]
    confusion: tuple[tuple[int, ...], ...]
    """Test images by true class (rows) and answer of the last epoch (columns)."""
    learned_from: int
    """Images."""

    @classmethod
    def of(
        cls,
        predicted: NDArray[np.int64],
        truth: NDArray[np.int64],
        n_classes: int,
        *,
        learned_from: int,
        per_epoch: tuple[float, ...] = (),
    ) -> "Judgement":
        """From the answers after the last epoch."""
        cells = np.bincount(truth * n_classes + predicted, minlength=n_classes**2)
        confusion = cells.reshape(n_classes, n_classes)
        with np.errstate(invalid="ignore"):
            per_class = confusion.diagonal() / confusion.sum(1)
        return cls(
            accuracy=float(confusion.trace() / len(truth)),
            accuracy_best_on_test=max(per_epoch) if per_epoch else None,
            per_class=tuple(map(float, per_class)),
            per_epoch=per_epoch,
            confusion=tuple(tuple(map(int, row)) for row in confusion),
            learned_from=learned_from,
        )


def judge(
    images: Pixels,
    labels: Pixels,
    test_images: Pixels,
    test_labels: Pixels,
    n_classes: int,
    *,
    network: NetworkName = "cnn",
    epochs: int = EPOCHS,
    seed: int,
    progress: Progress | None = None,
) -> Judgement:
    """Train the judge on `images` (uint8, or floats in [0, 1]) and test it on `test_images`.

    `progress(epochs done, epochs)` is called after each epoch.
    """
    images, labels = checked("synthetic", images, labels, n_classes)
    test_images, test_labels = checked("test", test_images, test_labels, n_classes)
    if images.shape[1:] != test_images.shape[1:]:
        raise DataLensError(
            f"Synthetic images have shape {tuple(images.shape[1:])} and test images "
            f"{tuple(test_images.shape[1:])}; they must agree."
        )
    per_epoch: list[float] = []
    answers = torch.empty(0)

    def tested(pupil: Judge, epoch: int) -> None:
        nonlocal answers
        answers = pupil.predict(test_images)
        per_epoch.append((answers == test_labels).double().mean().item())
        if progress is not None:
            progress(epoch, epochs)

    taught(images, labels, n_classes, network=network, epochs=epochs, seed=seed, after=tested)
    return Judgement.of(
        answers.numpy(),
        test_labels.numpy(),
        n_classes,
        learned_from=len(images),
        per_epoch=tuple(per_epoch),
    )


def taught(
    images: Pixels,
    labels: Pixels,
    n_classes: int,
    *,
    network: NetworkName = "cnn",
    epochs: int = EPOCHS,
    seed: int,
    after: Callable[[Judge, int], None] | None = None,
) -> Judge:
    """A judge that has learned from `images`; `after(judge, epochs done)` is called each epoch."""
    images, labels = checked("synthetic", images, labels, n_classes)
    if epochs < 1:
        raise DataLensError(f"epochs must be at least 1, got {epochs}.")
    pupil = new_judge(network, images.shape[1:], n_classes, seed=seed)
    for epoch in range(epochs):
        pupil.train(images, labels)
        if after is not None:
            after(pupil, epoch + 1)
    return pupil


def new_judge(network: NetworkName, shape: tuple[int, ...], n_classes: int, *, seed: int) -> Judge:
    """One that has not learned anything."""
    channels, height, width = shape
    chance = torch.Generator().manual_seed(seed)
    return NETWORKS[network]((channels, height, width), n_classes, chance)


def checked(which: str, images: Pixels, labels: Pixels, n_classes: int) -> tuple[Tensor, Tensor]:
    """Images and labels as tensors, or a sentence on what is wrong with them."""
    images, labels = torch.as_tensor(images), torch.as_tensor(labels).long()
    if images.ndim != 4 or min(images.shape[2:]) < SMALLEST_SIDE or len(images) == 0:
        raise DataLensError(
            f"The judge needs {which} images of shape (count, channels, height, width) with sides "
            f"of at least {SMALLEST_SIDE}, got {tuple(images.shape)}."
        )
    if labels.shape != (len(images),):
        raise DataLensError(f"{len(images)} {which} images but labels of {tuple(labels.shape)}.")
    if not 0 <= int(labels.min()) <= int(labels.max()) < n_classes:
        raise DataLensError(f"The {which} labels must lie in 0..{n_classes - 1}.")
    if images.dtype != torch.uint8:
        images = images.float()
        if not bool(((images >= 0) & (images <= 1)).all()):
            raise DataLensError(f"The {which} images must be uint8 or floats in [0, 1].")
    return images, labels
