"""Our small discriminator: one hidden layer, and a head of its own for every class."""

from collections.abc import Sequence
from math import prod
from typing import TYPE_CHECKING, Any

import torch
import torch.nn.functional as F
from torch import Generator, Tensor

from datalens.ensemble.adam import Adam
from datalens.ensemble.discriminator import Discriminator, Parameters, PerThread, Shown
from datalens.ensemble.stacked import KERNEL, convolve, halved, linear, one_hot

if TYPE_CHECKING:
    from datalens.ensemble.compact_cpu import Memory, Net

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
    block_numbers = 1_500_000

    def __init__(
        self,
        shape: tuple[int, int, int],
        n_classes: int,
        *,
        precision: torch.dtype = torch.float32,
    ) -> None:
        super().__init__(shape, n_classes, precision=precision)
        self._own = PerThread()

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

    def logits(self, params: Parameters, images: Sequence[Tensor], shown: Shown) -> Tensor:
        p, teachers = params, len(params["hidden.bias"])
        own = [x.expand(teachers, *x.shape[1:]) for x in images]
        x = own[0] if len(own) == 1 else torch.cat(own, dim=-1)
        layer = 1
        while f"conv{layer}.weight" in p:
            bias = p[f"conv{layer}.bias"][:, None, :, None, None]
            x = F.leaky_relu(convolve(x, p[f"conv{layer}.weight"]) + bias, SLOPE)
            layer += 1
        x = F.leaky_relu(linear(x.flatten(1, 3), p["hidden.weight"], p["hidden.bias"]), SLOPE)
        features = x.split([part.shape[-1] for part in own], dim=-1)
        judged = []
        for which, labels in shown:
            y = one_hot(labels, self.n_classes, teachers, x.dtype)
            head, bias = torch.bmm(p["head.weight"], y), torch.bmm(p["head.bias"], y)
            judged.append((head * features[which]).sum(1) + bias.squeeze(1))
        return torch.cat(judged, dim=1)

    def prepare(self, images: Tensor, dtype: torch.dtype) -> Any:
        images = super().prepare(images, dtype)
        return images.flatten(1, 3).numpy() if self._quick(images) else images

    def learn(
        self,
        adam: Adam,
        block: slice,
        images: Sequence[Any],
        shown: Shown,
        real: Tensor,
        weight: Tensor,
    ) -> None:
        if not self._quick(adam.weights):
            return super().learn(adam, block, images, shown, real, weight)
        from datalens.ensemble.compact_cpu import learn

        net, memory = self._memory(images, [which for which, _ in shown])
        teachers = block.stop - block.start
        labels = torch.cat([y.expand(teachers, -1) for _, y in shown], dim=1).numpy()
        p, m, v = (array[block] for array in adam.arrays or ())
        constants = adam.constants(int(adam.steps[block.start]) + 1)
        aims = (real.numpy(), weight.numpy())
        learn(net, memory, tuple(images), labels, *aims, p, m, v, constants, adam.packed)
        adam.steps[block] += 1
        return None

    def realism(self, rows: Tensor, images: Any, labels: Tensor) -> Tensor:
        if not self._quick(rows):
            return super().realism(rows, images, labels)
        from datalens.ensemble.compact_cpu import realism

        c, h, w = self.shape
        net, memory = self._memory([images], [0])
        found = torch.empty(len(rows), c * h * w, len(labels))
        realism(net, memory, (images,), labels.numpy(), rows.numpy(), found.numpy())
        return found.view(len(rows), h, c, w, -1)

    def _memory(self, images: Sequence[Any], which: Sequence[int]) -> "tuple[Net, Memory]":
        """What this thread computes in."""
        from datalens.ensemble.compact_cpu import memory_for, net_of

        sizes = (*(x.shape[-1] for x in images), -1, *which)
        own = self._own.kept
        if sizes not in own:
            net = net_of(self.layout)
            counts = [x.shape[-1] for x in images]
            own[sizes] = net, memory_for(net, self.layout.size, counts, which)
        return own[sizes]

    def _quick(self, tensor: Tensor) -> bool:
        """Whether there are compiled loops for it."""
        plain = "conv1.weight" not in self.layout.shapes
        whole = tensor.dtype == self.precision == torch.float32
        return plain and whole and tensor.device.type == "cpu"
