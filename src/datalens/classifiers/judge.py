"""The judge of accuracy: train on synthetic images, test on real ones.

One small convolutional network, the same everywhere, that of the public evaluation: convolution 32
(3x3), max-pool, dropout 0.2, convolution 64 (3x3), dropout 0.25, dense 64, dense classes. Adam at
1e-3, batches of 256, ten epochs, and the figure that counts is the last epoch's. Its best epoch is
chosen on the test data, hence optimistic, and kept only for comparison with papers that report it.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from datalens.errors import DataLensError

BATCH = 256
LEARNING_RATE = 1e-3
SMALLEST_SIDE = 8

_MICRO_BATCH = 64
"""A batch is worked through in pieces that stay in the cache; their gradients add up to its own."""


@dataclass(frozen=True, kw_only=True)
class Judgement:
    """How well a classifier trained on synthetic images does on real ones (fractions)."""

    accuracy: float
    """After the last epoch: the figure to publish."""
    accuracy_best_on_test: float
    """The best epoch, chosen on the test data: optimistic, only to compare with papers."""
    per_class: tuple[float, ...]
    """Accuracy of the last epoch on each class; NaN for a class without test images."""
    per_epoch: tuple[float, ...]


def judge(
    images: np.ndarray | Tensor,
    labels: np.ndarray | Tensor,
    test_images: np.ndarray | Tensor,
    test_labels: np.ndarray | Tensor,
    n_classes: int,
    *,
    epochs: int = 10,
    seed: int,
    progress: Callable[[int, int], None] | None = None,
) -> Judgement:
    """Train the judge on `images` (uint8, or floats in [0, 1]) and test it on `test_images`.

    `progress(epochs done, epochs)` is called after each epoch.
    """
    images, labels = _checked("synthetic", images, labels, n_classes)
    test_images, test_labels = _checked("test", test_images, test_labels, n_classes)
    if images.shape[1:] != test_images.shape[1:]:
        raise DataLensError(
            f"Synthetic images have shape {tuple(images.shape[1:])} and test images "
            f"{tuple(test_images.shape[1:])}; they must agree."
        )
    if epochs < 1:
        raise DataLensError(f"epochs must be at least 1, got {epochs}.")
    network = _Network(images.shape[1:], n_classes, torch.Generator().manual_seed(seed))
    per_epoch: list[float] = []
    for epoch in range(epochs):
        network.train(images, labels)
        right = network.predict(test_images) == test_labels
        per_epoch.append(right.double().mean().item())
        if progress is not None:
            progress(epoch + 1, epochs)
    return Judgement(
        accuracy=per_epoch[-1],
        accuracy_best_on_test=max(per_epoch),
        per_class=tuple(right[test_labels == c].double().mean().item() for c in range(n_classes)),
        per_epoch=tuple(per_epoch),
    )


class _Network:
    """The judge's network, its optimiser, and the one generator all its randomness comes from."""

    def __init__(self, shape: torch.Size, n_classes: int, generator: torch.Generator) -> None:
        channels, *sides = shape
        height, width = ((side - 2) // 2 - 2 for side in sides)
        # A last row or column that the max-pool leaves over: not computing it changes nothing.
        self.crop = [2 * (side // 2) for side in sides]
        self.generator = generator
        self.layers = [
            self._layer(32, channels, 3, 3),
            self._layer(64, 32, 3, 3),
            self._layer(64, 64 * height * width),
            self._layer(n_classes, 64),
        ]
        parameters = [tensor for layer in self.layers for tensor in layer]
        self.optimiser = torch.optim.Adam(parameters, lr=LEARNING_RATE)

    def train(self, images: Tensor, labels: Tensor) -> None:
        """One epoch."""
        order = torch.randperm(len(images), generator=self.generator)
        for batch in order.split(BATCH):
            self.optimiser.zero_grad()
            for piece in batch.split(_MICRO_BATCH):
                scores = self._scores(images[piece], dropout=True)
                loss = F.cross_entropy(scores, labels[piece], reduction="sum") / len(batch)
                loss.backward()
            self.optimiser.step()

    @torch.no_grad()
    def predict(self, images: Tensor) -> Tensor:
        pieces = images.split(_MICRO_BATCH)
        return torch.cat([self._scores(piece, dropout=False).argmax(1) for piece in pieces])

    def _scores(self, images: Tensor, *, dropout: bool) -> Tensor:
        first, second, dense, output = self.layers
        x = images[:, :, : self.crop[0], : self.crop[1]]
        x = x.float() / 255 if x.dtype == torch.uint8 else x
        x = self._fired(_convolved_and_pooled(x, *first), 0.2 if dropout else 0.0)
        x = self._fired(F.conv2d(x, *second), 0.25 if dropout else 0.0)
        x = x.permute(0, 2, 3, 1).flatten(1)  # as it lies in memory
        return F.linear(F.linear(x, *dense).relu_(), *output)

    def _fired(self, x: Tensor, rate: float) -> Tensor:
        """ReLU and dropout in one pass each way; one random byte an entry (rates in 1/256)."""
        if rate == 0:
            return x.relu_()
        dropped = round(256 * rate)
        words = torch.empty(-(-x.numel() // 8), dtype=torch.int64)
        noise = words.random_(-(2**63), None, generator=self.generator).view(torch.uint8)
        with torch.no_grad():
            kept = (noise[: x.numel()] >= dropped).as_strided(x.shape, x.stride())
            gain = (x > 0).logical_and_(kept).float().mul_(256 / (256 - dropped))
        return x * gain

    def _layer(self, outputs: int, *inputs: int) -> tuple[Tensor, Tensor]:
        """Weight (Glorot uniform) and bias (zero)."""
        receptive = int(np.prod(inputs[1:]))
        limit = (6 / ((inputs[0] + outputs) * receptive)) ** 0.5
        weight = torch.empty(outputs, *inputs).uniform_(-limit, limit, generator=self.generator)
        if weight.ndim == 4:
            weight = weight.contiguous(memory_format=torch.channels_last)
        return weight.requires_grad_(), torch.zeros(outputs, requires_grad=True)


def _convolved_and_pooled(images: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    """`max_pool2d(conv2d(images, weight, bias), 2)` for a 3x3 kernel, as one matrix product.

    A pooled pixel sees a 4x4 window of the image, in which the kernel has four places. With few
    input channels this takes half the time, and it leaves the channels last in memory.
    """
    outputs, places = len(weight), [(i, j) for i in (0, 1) for j in (0, 1)]
    windows = images.unfold(2, 4, 2).unfold(3, 4, 2).permute(0, 2, 3, 1, 4, 5)
    count, height, width = windows.shape[:3]
    kernels = torch.cat([F.pad(weight, (j, 1 - j, i, 1 - i)) for i, j in places]).flatten(1)
    found = windows.reshape(count * height * width, -1) @ kernels.T
    found = found.view(count, height * width, 4, outputs).permute(0, 3, 1, 2)
    pooled = F.max_pool2d(found, (1, 4)) + bias.view(-1, 1, 1)
    return pooled.view(count, outputs, height, width)


def _checked(
    which: str, images: np.ndarray | Tensor, labels: np.ndarray | Tensor, n_classes: int
) -> tuple[Tensor, Tensor]:
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
