"""Networks that private steps can train: no layer mixes examples, nothing is learnt unpaid.

Inputs are prepared image by image, without statistics of the data set: those would be private.
"""

import math
from typing import Literal

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor, nn

from datalens.classifiers.features import BOUND, features, n_features
from datalens.errors import DataLensError

NetworkName = Literal["cnn", "fixed-features"]
LEAST_SIDE = 16
"""Smaller images get a margin, so that something is left of them after two convolutions."""


class SmallCnn(nn.Module):
    """The network of Opacus's MNIST example: 26,010 parameters for 10 classes of 28x28 grey pixels.

    Its first weights come from `stream`, in the way that PyTorch's layers choose theirs.
    """

    def __init__(
        self, shape: tuple[int, int, int], n_classes: int, *, stream: torch.Generator
    ) -> None:
        super().__init__()
        channels, *sides = shape
        self.margins = [max(0, LEAST_SIDE - side) for side in sides]
        height, width = (_left_of(max(side, LEAST_SIDE)) for side in sides)
        self.see = nn.Conv2d(channels, 16, 8, stride=2, padding=3)
        self.combine = nn.Conv2d(16, 32, 4, stride=2)
        self.weigh = nn.Linear(32 * height * width, 32)
        self.decide = nn.Linear(32, n_classes)
        with torch.no_grad():
            for layer in (self.see, self.combine, self.weigh, self.decide):
                limit = 1 / math.sqrt(layer.weight[0].numel())
                for weight in (layer.weight, layer.bias):
                    if weight is not None:
                        weight.uniform_(-limit, limit, generator=stream)

    def inputs(self, images: NDArray[np.uint8]) -> Tensor:
        """Images (n, channels, height, width) as they are."""
        return torch.from_numpy(images)

    def forward(self, inputs: Tensor) -> Tensor:
        """Scores (n, classes)."""
        down, across = self.margins
        x = F.pad(inputs.float() / 127.5 - 1, (0, across, 0, down), value=-1)
        x = _pooled(F.relu(self.see(x)))
        x = _pooled(F.relu(self.combine(x)))
        scores: Tensor = self.decide(F.relu(self.weigh(x.flatten(1))))
        return scores


def _pooled(x: Tensor) -> Tensor:
    """The greatest of each 2x2 pixels: nine times as fast where channels come last in memory."""
    return F.max_pool2d(x.contiguous(memory_format=torch.channels_last), 2, 1).contiguous()


def _left_of(side: int) -> int:
    """Pixels of a side after both convolutions and both poolings."""
    return ((side - 2) // 2 - 4) // 2


class OnFixedFeatures(nn.Module):
    """A linear model on wavelet features, which are public knowledge and learn nothing.

    Features are normalised channel by channel within each image (features.py), as Tramer and Boneh
    (2021) do by group normalisation, and so without statistics of the data.
    """

    def __init__(self, shape: tuple[int, int, int], n_classes: int) -> None:
        super().__init__()
        self.weigh = nn.Linear(n_features(shape[0]), n_classes, bias=False)  # a feature is constant
        nn.init.zeros_(self.weigh.weight)

    def inputs(self, images: NDArray[np.uint8]) -> Tensor:
        """Features of images (n, channels, height, width), which take a while."""
        return torch.from_numpy(features(images))

    def forward(self, inputs: Tensor) -> Tensor:
        """Scores (n, classes)."""
        scores: Tensor = self.weigh(inputs.float() / BOUND)
        return scores


Network = SmallCnn | OnFixedFeatures


def new_network(
    name: NetworkName,
    shape: tuple[int, int, int],
    n_classes: int,
    *,
    stream: torch.Generator,
) -> Network:
    """A network that has not learnt anything."""
    if name == "cnn":
        return SmallCnn(shape, n_classes, stream=stream)
    return OnFixedFeatures(shape, n_classes)


@torch.no_grad()
def probabilities(
    network: Network, images: NDArray[np.uint8], *, at_once: int = 500
) -> NDArray[np.float32]:
    """What each image shows, as a network sees it: (n, classes), rows adding up to 1."""
    parts = [images[i : i + at_once] for i in range(0, len(images), at_once)]
    found = torch.cat([network(network.inputs(part)).double().softmax(1) for part in parts])
    if not bool(found.isfinite().all()):
        raise DataLensError(
            "The model's weights are so large that its scores overflow; it has learnt nothing:"
            " train it with a smaller learning rate."
        )
    return found.float().numpy()
