"""A small modern network beside the judge: residual blocks, group norms, averages over the image.

A convolution 24 (3x3, stride 2), then three residual blocks of 24, 48 and 96 channels, each after
the first at half the size; their averages over all places are the 96 features.
"""

import math

import torch
import torch.nn.functional as F
from torch import Tensor

from datalens.classifiers.judges import Judge

WIDTHS = (24, 48, 96)
GROUP = 8
"""Channels that are normalised together."""


class Residual(Judge):
    """Sees no batch statistics, so one image's scores depend on that image alone."""

    def __init__(
        self, shape: tuple[int, int, int], n_classes: int, generator: torch.Generator
    ) -> None:
        weights = {"stem": _he(WIDTHS[0], shape[0], 3, generator)}
        before = WIDTHS[0]
        for number, width in enumerate(WIDTHS):
            name = f"block{number}"
            weights[f"{name}.first"] = _he(width, before, 3, generator)
            weights[f"{name}.second"] = _he(width, width, 3, generator)
            for norm, channels in (("a", before), ("b", width)):
                weights[f"{name}.{norm}.scale"] = torch.ones(channels)
                weights[f"{name}.{norm}.shift"] = torch.zeros(channels)
            if before != width:
                weights[f"{name}.past"] = _he(width, before, 1, generator)
            before = width
        weights["last.scale"], weights["last.shift"] = torch.ones(before), torch.zeros(before)
        weights["output.weight"] = _he(n_classes, before, 1, generator).flatten(1)
        weights["output.bias"] = torch.zeros(n_classes)
        super().__init__(weights, generator)

    def _hidden(self, images: Tensor, *, learning: bool) -> Tensor:
        x = F.conv2d(2 * images - 1, self.weights["stem"], stride=2, padding=1)
        for number in range(len(WIDTHS)):
            x = self._block(x, f"block{number}", stride=1 if number == 0 else 2)
        return self._normed(x, "last").mean((2, 3))

    def _block(self, x: Tensor, name: str, *, stride: int) -> Tensor:
        """Norm, activation and convolution twice, added to what came in."""
        y = self._normed(x, f"{name}.a")
        past = self.weights.get(f"{name}.past")
        x = x if past is None else F.conv2d(y, past, stride=stride)
        y = F.conv2d(y, self.weights[f"{name}.first"], stride=stride, padding=1)
        y = self._normed(y, f"{name}.b")
        return x + F.conv2d(y, self.weights[f"{name}.second"], padding=1)

    def _normed(self, x: Tensor, name: str) -> Tensor:
        scale, shift = self.weights[f"{name}.scale"], self.weights[f"{name}.shift"]
        return F.gelu(F.group_norm(x, x.shape[1] // GROUP, scale, shift))


def _he(outputs: int, inputs: int, side: int, generator: torch.Generator) -> Tensor:
    """Normal weights that keep the variance of what passes through an activation."""
    weight = torch.empty(outputs, inputs, side, side)
    weight.normal_(0, math.sqrt(2 / (inputs * side * side)), generator=generator)
    return weight.contiguous(memory_format=torch.channels_last)
