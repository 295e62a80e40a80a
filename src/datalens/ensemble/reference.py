"""The discriminator of the public DataLens code (after DCGAN): label planes and batch norm."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Generator, Tensor

from datalens.ensemble.adam import Adam
from datalens.ensemble.discriminator import Discriminator, Parameters, Shown
from datalens.ensemble.stacked import (
    KERNEL,
    batch_norm,
    convolve,
    halved,
    label_planes,
    linear,
    one_hot,
)

if TYPE_CHECKING:
    from datalens.ensemble.reference_memory import Memory, Net

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

    The biases in front of a batch norm are among the parameters and play no part: the norm takes a
    constant out again, so their derivative is zero and they stay what they are.
    """

    name = "reference"
    mismatch = False
    smallest_batch = 2

    def parameter_shapes(self) -> dict[str, tuple[int, ...]]:
        c, h, w = self.shape
        first, second = c + self.n_classes, CHANNELS + self.n_classes
        flat = halved(halved(h)) * halved(halved(w)) * second
        return {
            "conv1.weight": (first, KERNEL, KERNEL, c),
            "conv1.labels": (KERNEL, KERNEL, first, self.n_classes),
            "conv1.bias": (first,),
            "conv2.weight": (second, KERNEL, KERNEL, first),
            "conv2.labels": (KERNEL, KERNEL, second, self.n_classes),
            "conv2.bias": (second,),
            "norm2.scale": (second,),
            "norm2.shift": (second,),
            "hidden.bias": (HIDDEN,),
            "norm3.scale": (HIDDEN,),
            "norm3.shift": (HIDDEN,),
            "out.weight": (1, HIDDEN + self.n_classes),
            "out.bias": (1,),
            "hidden.weight": (HIDDEN, flat + self.n_classes),
        }

    def initial(self, generator: Generator) -> dict[str, Tensor]:
        def fresh(name: str, shape: tuple[int, ...]) -> Tensor:
            if name.endswith((".bias", ".shift")):
                return torch.zeros(shape)
            centre = 1.0 if name.endswith(".scale") else 0.0
            return torch.empty(shape).normal_(centre, SPREAD, generator=generator)

        return {name: fresh(name, shape) for name, shape in self.parameter_shapes().items()}

    def logits(self, params: Parameters, images: Sequence[Tensor], shown: Shown) -> Tensor:
        p, (_, h, w) = params, self.shape
        teachers = len(p["out.bias"])
        features = [convolve(x, p["conv1.weight"]) for x in images]
        judged = []
        for which, labels in shown:
            y = one_hot(labels, self.n_classes, teachers, p["out.bias"].dtype)
            x = features[which] + label_planes(y, p["conv1.labels"], h, w)
            x = F.leaky_relu(x + p["conv1.bias"][:, None, :, None, None], SLOPE)
            planes = label_planes(y, p["conv2.labels"], halved(h), halved(w))
            x = batch_norm(
                convolve(x, p["conv2.weight"]) + planes, p["norm2.scale"], p["norm2.shift"]
            )
            x = torch.cat([F.leaky_relu(x, SLOPE).flatten(1, 3), y], dim=1)
            x = torch.bmm(p["hidden.weight"], x)[:, None, :, None]
            x = batch_norm(x, p["norm3.scale"], p["norm3.shift"])[:, 0, :, 0]
            x = torch.cat([F.leaky_relu(x, SLOPE), y], dim=1)
            judged.append(linear(x, p["out.weight"], p["out.bias"]).squeeze(1))
        return torch.cat(judged, dim=1)

    def prepare(self, images: Tensor, dtype: torch.dtype) -> Any:
        if not self._quick(images.device, dtype):
            return super().prepare(images, dtype)
        from datalens.ensemble.reference_cpu import cut

        scale = 255.0 if images.dtype == torch.uint8 else 1.0
        return [cut(own, scale) for own in images.numpy()]

    def learn(
        self,
        adam: Adam,
        block: slice,
        images: Sequence[Any],
        shown: Shown,
        real: Tensor,
        weight: Tensor,
    ) -> None:
        if not self._quick(adam.weights.device, adam.weights.dtype):
            return super().learn(adam, block, images, shown, real, weight)
        from datalens.ensemble.reference_cpu import learn

        net, memory = self._memory(shown)
        constants = adam.constants(int(adam.steps[block.start]) + 1)
        for row in range(block.start, block.stop):
            own, labels = _of_teacher(row - block.start, images, shown)
            p, m, v = (array[row] for array in adam.arrays or ())
            aims = (real.numpy(), weight.numpy())
            learn(net, memory, own, labels, *aims, p, m, v, constants, adam.packed)
        adam.steps[block] += 1
        return None

    def realism(self, rows: Tensor, images: Any, labels: Tensor) -> Tensor:
        if not self._quick(rows.device, rows.dtype):
            return super().realism(rows, images, labels)
        from datalens.ensemble.reference_cpu import realism

        c, h, w = self.shape
        found = torch.empty(len(rows), h, c, w, labels.shape[-1])
        shown = [(0, labels)]
        net, memory = self._memory(shown)
        for row in range(len(rows)):
            own, y = _of_teacher(row, [images], shown)
            realism(net, memory, own, y, rows[row].numpy(), found[row].numpy())
        return found

    def answers(self, rows: Tensor, images: Any, labels: Tensor) -> Tensor:
        if not self._quick(rows.device, rows.dtype):
            return super().answers(rows, images, labels)
        from datalens.ensemble.reference_cpu import forward

        shown = [(0, labels)]
        net, memory = self._memory(shown)
        found = torch.empty(len(rows), labels.shape[-1])
        for row in range(len(rows)):
            own, y = _of_teacher(row, [images], shown)
            forward(net, memory, own, y, rows[row].numpy())
            found[row] = torch.from_numpy(memory.logits)
        return found

    def _quick(self, device: torch.device, dtype: torch.dtype) -> bool:
        """Whether there are compiled loops for it."""
        return device.type == "cpu" and dtype == self.precision == torch.float32

    def _memory(self, shown: Shown) -> "tuple[Net, Memory]":
        """What this thread computes in."""
        from datalens.ensemble.reference_memory import memory_for, net_of

        sizes = tuple((which, labels.shape[-1]) for which, labels in shown)
        own = self._own.kept
        if sizes not in own:
            net = net_of(self.layout, self.shape, self.n_classes)
            own[sizes] = net, memory_for(net, self.layout.size, sizes)
        return own[sizes]


def _of_teacher(
    row: int, images: Sequence[Any], shown: Shown
) -> tuple[tuple[Any, ...], NDArray[np.int64]]:
    own = tuple(batches[row if len(batches) > 1 else 0] for batches in images)
    labels = [(y if y.ndim == 1 else y[row]).numpy() for _, y in shown]
    return own, np.concatenate(labels)
