"""ResNet-18 (He et al. 2016) up to its 512 pooled features: the backbone of the paper's CIFAR-10.

Weights as torchvision names them, in a safetensors file, for instance `model.safetensors` of
`timm/resnet18.tv_in1k` at the Hugging Face hub, which are torchvision's own.
"""

from pathlib import Path

import torch
import torch.nn.functional as F
from torch import Tensor

from classifying.weights import Weights, check_shapes, read_safetensors

WIDTHS = (64, 128, 256, 512)
STABLE = 1e-5
"""Added to variances."""
MEAN, DEVIATION = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
"""Of ImageNet's channels: public, and what the weights were made for."""


class ResNet18:
    """From images (n, 3, side, side) in [0, 1] to features (n, 512). It learns nothing.

    Batch norm is frozen: its statistics are those of ImageNet, and no image sees another.
    """

    name = "resnet18"
    side = 224

    def __init__(self, weights: Weights, path: Path) -> None:
        check_shapes(weights, _shapes(), path)
        self._weights = weights

    @classmethod
    def from_file(cls, path: Path) -> "ResNet18":
        return cls(read_safetensors(path), path)

    @torch.no_grad()
    def __call__(self, images: Tensor) -> Tensor:
        mean, deviation = (torch.tensor(each).view(3, 1, 1) for each in (MEAN, DEVIATION))
        x = self._convolve((images - mean) / deviation, "conv1", "bn1", stride=2)
        x = F.max_pool2d(F.relu(x), 3, stride=2, padding=1)
        for stage in range(len(WIDTHS)):
            for place in range(2):
                x = self._block(x, f"layer{stage + 1}.{place}.", 2 if stage and not place else 1)
        return x.mean((2, 3))

    def _block(self, x: Tensor, at: str, stride: int) -> Tensor:
        inner = F.relu(self._convolve(x, f"{at}conv1", f"{at}bn1", stride=stride))
        inner = self._convolve(inner, f"{at}conv2", f"{at}bn2")
        if stride > 1:
            x = self._convolve(x, f"{at}downsample.0", f"{at}downsample.1", stride=stride)
        return F.relu(inner + x)

    def _convolve(self, x: Tensor, convolution: str, norm: str, *, stride: int = 1) -> Tensor:
        weight = self._weights[f"{convolution}.weight"]
        x = F.conv2d(x, weight, stride=stride, padding=weight.shape[-1] // 2)
        names = ("running_mean", "running_var", "weight", "bias")
        return F.batch_norm(x, *(self._weights[f"{norm}.{name}"] for name in names), eps=STABLE)


def _shapes() -> dict[str, tuple[int, ...]]:
    """Of all weights that are used."""
    found: dict[str, tuple[int, ...]] = {}

    def add(convolution: str, norm: str, out: int, into: int, kernel: int) -> None:
        found[f"{convolution}.weight"] = (out, into, kernel, kernel)
        for name in ("weight", "bias", "running_mean", "running_var"):
            found[f"{norm}.{name}"] = (out,)

    add("conv1", "bn1", 64, 3, 7)
    before = WIDTHS[0]
    for stage, width in enumerate(WIDTHS):
        for place in range(2):
            at = f"layer{stage + 1}.{place}."
            add(f"{at}conv1", f"{at}bn1", width, before, 3)
            add(f"{at}conv2", f"{at}bn2", width, width, 3)
            if stage and not place:
                add(f"{at}downsample.0", f"{at}downsample.1", width, before, 1)
            before = width
    return found
