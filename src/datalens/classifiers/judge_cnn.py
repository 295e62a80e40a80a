"""The network of the public evaluation: the judge whose accuracy is reported everywhere.

Convolution 32 (3x3), max-pool, dropout 0.2, convolution 64 (3x3), dropout 0.25, dense 64, dense
classes.
"""

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from datalens.classifiers.judges import Judge


class Cnn(Judge):
    """Its features are the 64 outputs of the dense layer."""

    def __init__(
        self, shape: tuple[int, int, int], n_classes: int, generator: torch.Generator
    ) -> None:
        self._shape = tuple(shape)
        channels, *sides = shape
        # A last row or column that the max-pool leaves over: not computing it changes nothing.
        self._crop = [2 * (side // 2) for side in sides]
        weights = {}
        for name, outputs, inputs in (
            ("first", 32, (channels, 3, 3)),
            ("second", 64, (32, 3, 3)),
            ("dense", 64, (64 * places(shape),)),
            ("output", n_classes, (64,)),
        ):
            weights[f"{name}.weight"] = _glorot(outputs, inputs, generator)
            weights[f"{name}.bias"] = torch.zeros(outputs)
        super().__init__(weights, generator)

    def _hidden(self, images: Tensor, *, learning: bool) -> Tensor:
        if images.shape[1:] != self._shape:  # larger ones would be cropped without a word
            raise ValueError(f"images of {tuple(images.shape[1:])}, not {self._shape}")
        x = images[:, :, : self._crop[0], : self._crop[1]]
        x = self._fired(convolved_and_pooled(x, *self._layer("first")), 0.2 if learning else 0.0)
        x = self._fired(F.conv2d(x, *self._layer("second")), 0.25 if learning else 0.0)
        x = x.permute(0, 2, 3, 1).flatten(1)  # as it lies in memory
        return F.linear(x, *self._layer("dense")).relu_()

    def _layer(self, name: str) -> tuple[Tensor, Tensor]:
        return self.weights[f"{name}.weight"], self.weights[f"{name}.bias"]

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


def places(shape: tuple[int, int, int]) -> int:
    """Places in an image that the second convolution looks at. Its time grows with them."""
    height, width = ((side - 2) // 2 - 2 for side in shape[1:])
    return height * width


def _glorot(outputs: int, inputs: tuple[int, ...], generator: torch.Generator) -> Tensor:
    """Uniform weights; biases are zero."""
    receptive = int(np.prod(inputs[1:]))
    limit = (6 / ((inputs[0] + outputs) * receptive)) ** 0.5
    weight = torch.empty(outputs, *inputs).uniform_(-limit, limit, generator=generator)
    return weight.contiguous(memory_format=torch.channels_last) if weight.ndim == 4 else weight


def convolved_and_pooled(images: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
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
