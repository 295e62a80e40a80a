"""Inception-v3 as a source of features, for who has its weights (Szegedy et al. 2016).

They are read from a safetensors file and never unpickled. Names are those of torchvision's
`inception_v3`. Weights of 1,008 classes are TensorFlow's of 2015, which published FIDs use, and
their network pools a little differently: averages leave out the margin, and the last block takes a
maximum.
"""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from safetensors.torch import load
from torch import Tensor

from datalens.data.documents import read_whole, reading
from datalens.errors import DataLensError

SIDE = 299
FEATURES = 2048
TENSORFLOW_CLASSES = 1008
MOST_BYTES = 2**28
EPSILON = 1e-3
"""Of its batch norms."""
AT_ONCE = 50


class Inception:
    """The network up to its last average: 2,048 features of an image of any size."""

    name = "Inception-v3"
    progress: Callable[[int, int], None] | None = None
    """Is told how many images of how many have been seen."""

    def __init__(self, weights: dict[str, Tensor]) -> None:
        bare = {name.removesuffix(".conv.weight") for name in weights if ".conv.weight" in name}
        self._layers = {name: _folded(weights, name) for name in bare if "Aux" not in name}
        output = weights.get("fc.weight")
        self._tensorflow = output is not None and len(output) == TENSORFLOW_CLASSES
        if self._features(torch.zeros(1, 3, 75, 75)).shape != (1, FEATURES):
            raise DataLensError("these are weights of another network.")

    @classmethod
    def read(cls, file: Path) -> "Inception":
        """From a safetensors file, whatever else it may be refused as."""
        with reading(file):
            if file.suffix != ".safetensors":
                raise DataLensError("weights of Inception-v3 are read from FILE.safetensors.")
            content = read_whole(file, at_most=MOST_BYTES)
            try:
                return cls({name: weight.float() for name, weight in load(content).items()})
            except (KeyError, RuntimeError, IndexError) as error:
                raise DataLensError(f"it lacks weights of Inception-v3 ({error}).") from None

    def features(self, images: NDArray[np.uint8]) -> NDArray[np.float64]:
        """(n, 2048). Grey images are shown in three equal colours."""
        found = []
        for start in range(0, len(images), AT_ONCE):
            some = torch.from_numpy(images[start : start + AT_ONCE]).float() / 127.5 - 1
            some = some.expand(-1, 3, -1, -1)
            some = F.interpolate(some, (SIDE, SIDE), mode="bilinear", align_corners=False)
            found.append(self._features(some).double().numpy())
            if self.progress is not None:
                self.progress(min(start + AT_ONCE, len(images)), len(images))
        return np.concatenate(found)

    @torch.no_grad()
    def _features(self, x: Tensor) -> Tensor:
        x = self._conv(x, "Conv2d_1a_3x3", stride=2, margin=False)
        x = self._conv(x, "Conv2d_2a_3x3", margin=False)
        x = F.max_pool2d(self._conv(x, "Conv2d_2b_3x3"), 3, 2)
        x = self._conv(x, "Conv2d_3b_1x1")
        x = F.max_pool2d(self._conv(x, "Conv2d_4a_3x3", margin=False), 3, 2)
        for name in ("Mixed_5b", "Mixed_5c", "Mixed_5d"):
            x = self._block_a(x, name)
        x = self._block_b(x, "Mixed_6a")
        for name in ("Mixed_6b", "Mixed_6c", "Mixed_6d", "Mixed_6e"):
            x = self._block_c(x, name)
        x = self._block_d(x, "Mixed_7a")
        x = self._block_e(x, "Mixed_7b", self._averages)
        last = self._maxima if self._tensorflow else self._averages
        return self._block_e(x, "Mixed_7c", last).mean((2, 3))

    def _block_a(self, x: Tensor, name: str) -> Tensor:
        return torch.cat(
            [
                self._chain(x, name, "branch1x1"),
                self._chain(x, name, "branch5x5_1", "branch5x5_2"),
                self._chain(x, name, "branch3x3dbl_1", "branch3x3dbl_2", "branch3x3dbl_3"),
                self._chain(self._averages(x), name, "branch_pool"),
            ],
            1,
        )

    def _block_b(self, x: Tensor, name: str) -> Tensor:
        double = self._chain(x, name, "branch3x3dbl_1", "branch3x3dbl_2")
        return torch.cat(
            [
                self._conv(x, f"{name}.branch3x3", stride=2, margin=False),
                self._conv(double, f"{name}.branch3x3dbl_3", stride=2, margin=False),
                F.max_pool2d(x, 3, 2),
            ],
            1,
        )

    def _block_c(self, x: Tensor, name: str) -> Tensor:
        return torch.cat(
            [
                self._chain(x, name, "branch1x1"),
                self._chain(x, name, *(f"branch7x7_{i}" for i in range(1, 4))),
                self._chain(x, name, *(f"branch7x7dbl_{i}" for i in range(1, 6))),
                self._chain(self._averages(x), name, "branch_pool"),
            ],
            1,
        )

    def _block_d(self, x: Tensor, name: str) -> Tensor:
        first = self._chain(x, name, "branch3x3_1")
        second = self._chain(x, name, *(f"branch7x7x3_{i}" for i in range(1, 4)))
        return torch.cat(
            [
                self._conv(first, f"{name}.branch3x3_2", stride=2, margin=False),
                self._conv(second, f"{name}.branch7x7x3_4", stride=2, margin=False),
                F.max_pool2d(x, 3, 2),
            ],
            1,
        )

    def _block_e(self, x: Tensor, name: str, pooled: Callable[[Tensor], Tensor]) -> Tensor:
        once = self._chain(x, name, "branch3x3_1")
        twice = self._chain(x, name, "branch3x3dbl_1", "branch3x3dbl_2")
        return torch.cat(
            [
                self._chain(x, name, "branch1x1"),
                self._chain(once, name, "branch3x3_2a"),
                self._chain(once, name, "branch3x3_2b"),
                self._chain(twice, name, "branch3x3dbl_3a"),
                self._chain(twice, name, "branch3x3dbl_3b"),
                self._chain(pooled(x), name, "branch_pool"),
            ],
            1,
        )

    def _chain(self, x: Tensor, block: str, *names: str) -> Tensor:
        for name in names:
            x = self._conv(x, f"{block}.{name}")
        return x

    def _conv(self, x: Tensor, name: str, *, stride: int = 1, margin: bool = True) -> Tensor:
        """A convolution, its batch norm, and ReLU; with a margin the size stays as it is."""
        weight, bias = self._layers[name]
        padding = [side // 2 if margin else 0 for side in weight.shape[2:]]
        return F.conv2d(x, weight, bias, stride, padding).relu_()

    def _averages(self, x: Tensor) -> Tensor:
        return F.avg_pool2d(x, 3, 1, 1, count_include_pad=not self._tensorflow)

    def _maxima(self, x: Tensor) -> Tensor:
        return F.max_pool2d(x, 3, 1, 1)


def _folded(weights: dict[str, Tensor], name: str) -> tuple[Tensor, Tensor]:
    """A convolution with its batch norm in it: weight and bias."""
    parts = ("weight", "bias", "running_mean", "running_var")
    scale, shift, mean, variance = (weights[f"{name}.bn.{part}"] for part in parts)
    gain = scale / (variance + EPSILON).sqrt()
    return weights[f"{name}.conv.weight"] * gain.view(-1, 1, 1, 1), shift - mean * gain
