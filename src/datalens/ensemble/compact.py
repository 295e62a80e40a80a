"""Our small discriminator: one hidden layer, and a head of its own for every class."""

from collections.abc import Sequence
from math import prod

import torch
import torch.nn.functional as F
from torch import Generator, Tensor

from datalens.ensemble.discriminator import Discriminator, Parameters
from datalens.ensemble.stacked import KERNEL, convolve, halved, images_last, linear, one_hot

WIDEST = 1024
"""Numbers the hidden layer reads at most: larger images are convolved down first."""
CHANNELS = 8
HIDDEN = 64
SLOPE = 0.2


class Compact(Discriminator):
    """A layer of 64 and a linear head per class; 50,890 parameters for 28x28 images of ten classes.

    Images of more than 1,024 numbers are first halved by 5x5 convolutions. The head of the image's
    class reads the features, so the gradient says what *this* class lacks. No batch norm: the logit
    of an image depends on that image alone.
    """

    name = "compact"
    mismatch = True

    def parameter_shapes(self) -> dict[str, tuple[int, ...]]:
        c, h, w = self.shape
        shapes: dict[str, tuple[int, ...]] = {}
        layer = 0
        while c * h * w > WIDEST:
            layer += 1
            shapes[f"conv{layer}.weight"] = (CHANNELS, KERNEL, KERNEL, c)
            shapes[f"conv{layer}.bias"] = (CHANNELS,)
            c, h, w = CHANNELS, halved(h), halved(w)
        return shapes | {
            "hidden.weight": (HIDDEN, c * h * w),
            "hidden.bias": (HIDDEN,),
            "head.weight": (HIDDEN, self.n_classes),
            "head.bias": (1, self.n_classes),
        }

    def initial(self, generator: Generator) -> dict[str, Tensor]:
        def fresh(name: str, shape: tuple[int, ...]) -> Tensor:
            if name.endswith(".bias"):
                return torch.zeros(shape)
            inputs = HIDDEN if name == "head.weight" else prod(shape[1:])
            return torch.empty(shape).normal_(0.0, inputs**-0.5, generator=generator)

        return {name: fresh(name, shape) for name, shape in self.parameter_shapes().items()}

    def features(self, params: Parameters, images: Tensor) -> Tensor:
        p = params
        x = images_last(images, len(p["hidden.bias"]))
        layer = 1
        while f"conv{layer}.weight" in p:
            bias = p[f"conv{layer}.bias"][:, :, None, None, None]
            x = F.leaky_relu(convolve(x, p[f"conv{layer}.weight"]) + bias, SLOPE)
            layer += 1
        return F.leaky_relu(linear(x.flatten(1, 3), p["hidden.weight"], p["hidden.bias"]), SLOPE)

    def judge(
        self, params: Parameters, features: Tensor, labels: Tensor, batches: Sequence[int]
    ) -> Tensor:
        y = one_hot(labels, self.n_classes, len(features), features.dtype)
        head, bias = torch.bmm(params["head.weight"], y), torch.bmm(params["head.bias"], y)
        return (head * features).sum(1) + bias.squeeze(1)
