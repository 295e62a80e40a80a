"""The discriminator of the public DataLens code (after DCGAN): label planes and batch norm."""

from collections.abc import Sequence

import torch
import torch.nn.functional as F
from torch import Generator, Tensor

from datalens.ensemble.discriminator import Discriminator, Parameters
from datalens.ensemble.stacked import (
    KERNEL,
    batch_norm,
    convolve,
    halved,
    images_last,
    label_planes,
    linear,
    one_hot,
)

CHANNELS = 32
HIDDEN = 256
SLOPE = 0.2
SPREAD = 0.02
"""Standard deviation of fresh weights."""


class Reference(Discriminator):
    """Two 5x5 stride-2 convolutions with label planes, a layer of 256, one logit.

    For 28x28 images of ten classes it has 555,655 parameters. Batch norm uses the statistics of the
    batch at hand, for each teacher its own, so the logit of an image depends on its companions, and
    real and synthetic images are separate batches.
    """

    name = "reference"
    mismatch = False
    smallest_batch = 2

    def parameter_shapes(self) -> dict[str, tuple[int, ...]]:
        c, h, w = self.shape
        first, second = c + self.n_classes, CHANNELS + self.n_classes
        flat = halved(halved(h)) * halved(halved(w)) * second
        return {
            "conv1.weight": (first, KERNEL, KERNEL, c + self.n_classes),
            "conv1.bias": (first,),
            "conv2.weight": (second, KERNEL, KERNEL, first + self.n_classes),
            "conv2.bias": (second,),
            "norm2.scale": (second,),
            "norm2.shift": (second,),
            "hidden.weight": (HIDDEN, flat + self.n_classes),
            "hidden.bias": (HIDDEN,),
            "norm3.scale": (HIDDEN,),
            "norm3.shift": (HIDDEN,),
            "out.weight": (1, HIDDEN + self.n_classes),
            "out.bias": (1,),
        }

    def initial(self, generator: Generator) -> dict[str, Tensor]:
        def fresh(name: str, shape: tuple[int, ...]) -> Tensor:
            if name.endswith((".bias", ".shift")):
                return torch.zeros(shape)
            centre = 1.0 if name.endswith(".scale") else 0.0
            return torch.empty(shape).normal_(centre, SPREAD, generator=generator)

        return {name: fresh(name, shape) for name, shape in self.parameter_shapes().items()}

    def features(self, params: Parameters, images: Tensor) -> Tensor:
        weight = params["conv1.weight"]
        return convolve(images_last(images, len(weight)), weight)

    def judge(
        self, params: Parameters, features: Tensor, labels: Tensor, batches: Sequence[int]
    ) -> Tensor:
        p = params
        y = one_hot(labels, self.n_classes, len(features), features.dtype)
        _, h, w = self.shape
        x = features + label_planes(y, h, w, p["conv1.weight"], p["conv1.bias"])
        x = F.leaky_relu(x, SLOPE)
        planes = label_planes(y, halved(h), halved(w), p["conv2.weight"], p["conv2.bias"])
        x = convolve(x, p["conv2.weight"], planes)
        x = F.leaky_relu(batch_norm(x, p["norm2.scale"], p["norm2.shift"], batches), SLOPE)
        x = torch.cat([x.flatten(1, 3), y], dim=1)
        x = linear(x, p["hidden.weight"], p["hidden.bias"])
        x = F.leaky_relu(batch_norm(x, p["norm3.scale"], p["norm3.shift"], batches), SLOPE)
        x = torch.cat([x, y], dim=1)
        return linear(x, p["out.weight"], p["out.bias"]).squeeze(1)
