"""Our small discriminator: one hidden layer, and a head of its own for every class."""

from collections.abc import Sequence
from math import prod
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Generator, Tensor

from datalens.ensemble.adam import Adam
from datalens.ensemble.discriminator import Discriminator, Parameters, Shown
from datalens.ensemble.stacked import KERNEL, convolve, halved, linear, one_hot

WIDEST = 1024
"""Numbers the hidden layer reads at most: larger images are convolved down first."""
CHANNELS = 8
HIDDEN = 64
SLOPE = 0.2
AT_ONCE = 30
"""Images that are convolved together at most, so that what lies between layers stays in the cache.
From 22 to 33 it made little difference."""


class Compact(Discriminator):
    """A layer of 64 and a linear head per class; 50,890 parameters for 28x28 images of ten classes.

    Images of more than 1,024 numbers are first halved by 5x5 convolutions. The head of the image's
    class reads the features, so the gradient says what *this* class lacks. No batch norm: the logit
    of an image depends on that image alone.
    """

    name = "compact"
    mismatch = True
    block_numbers = 1_500_000

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
        if not self._quick(images):
            return images
        if not self._convolves:
            return [images.flatten(1, 3).numpy()]
        from datalens.ensemble.tower_cpu import cut, layers_of

        layers = layers_of(self.layout, self.shape)
        return [cut(part.contiguous().numpy(), layers) for part in self._parts(images)]

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
        teachers = block.stop - block.start
        own = [(which, y.expand(teachers, -1)) for which, y in shown]
        p, m, v = (array[block] for array in adam.arrays or ())
        rest = (m, v, adam.constants(int(adam.steps[block.start]) + 1), adam.packed)
        if self._convolves:
            from datalens.ensemble import tower_cpu

            gradient = np.zeros_like(p)
            self._add_slopes(p, images, own, real, weight, gradient)
            tower_cpu.step(p, gradient, *rest)
        else:
            from datalens.ensemble import compact_cpu

            net, memory, _, _ = self._memory([(which, y.shape[-1]) for which, y in own])
            labels = torch.cat([y for _, y in own], dim=1).numpy()
            every = tuple(part for parts in images for part in parts)
            compact_cpu.learn(net, memory, every, labels, real.numpy(), weight.numpy(), p, *rest)
        adam.steps[block] += 1
        return None

    def realism(self, rows: Tensor, images: Any, labels: Tensor) -> Tensor:
        if not self._quick(rows):
            return super().realism(rows, images, labels)
        from datalens.ensemble import compact_cpu, tower_cpu

        c, h, w = self.shape
        found = []
        for part, own in zip(images, self._parts(labels), strict=True):
            net, memory, layers, tower = self._memory([(0, len(own))])
            slopes = torch.empty(len(rows), h, c, w, len(own))
            given = (own.numpy(), rows.numpy())
            if self._convolves:
                order = tower_cpu.first_order(layers)
                where = (net, memory, layers, tower, part, order)
                tower_cpu.realism(*where, *given, slopes.numpy())
            else:
                target = slopes.flatten(1, 3).numpy()
                compact_cpu.realism(net, memory, (part,), *given, target)
            found.append(slopes)
        return _joined(found)

    def answers(self, rows: Tensor, images: Any, labels: Tensor) -> Tensor:
        if not self._quick(rows):
            return super().answers(rows, images, labels)
        from datalens.ensemble import compact_cpu, tower_cpu

        found = []
        for part, own in zip(images, self._parts(labels), strict=True):
            net, memory, layers, tower = self._memory([(0, len(own))])
            logits = torch.empty(len(rows), len(own))
            rest = (own.numpy(), rows.numpy(), logits.numpy())
            if self._convolves:
                tower_cpu.answers(net, memory, layers, tower, part, *rest)
            else:
                compact_cpu.answers(net, memory, (part,), *rest)
            found.append(logits)
        return _joined(found)

    def _add_slopes(
        self,
        p: Any,
        images: Sequence[Any],
        shown: Shown,
        real: Tensor,
        weight: Tensor,
        gradient: Any,
    ) -> None:
        """The loss's derivative, part by part: each is shown with all its labels at once."""
        from datalens.ensemble import tower_cpu

        sizes = [y.shape[-1] for _, y in shown]
        batches = list(zip(shown, real.split(sizes), weight.split(sizes), strict=True))
        for which, parts in enumerate(images):
            own = [(labels, *aims) for (n, labels), *aims in batches if n == which]
            stacked = [torch.stack(each, dim=-2) for each in zip(*own, strict=True)]
            for part, *given in zip(parts, *map(self._parts, stacked), strict=True):
                memory = self._memory([(0, given[0].shape[-1])] * len(own))
                flat = [each.flatten(-2).contiguous().numpy() for each in given]
                tower_cpu.add_slopes(*memory, part, *flat, p, gradient)

    def _parts(self, batch: Tensor) -> Sequence[Tensor]:
        """A batch, of images or of what belongs to them, as it is computed together."""
        return batch.split(AT_ONCE, dim=-1) if self._convolves else (batch,)

    def _memory(self, shown: Sequence[tuple[int, int]]) -> tuple[Any, ...]:
        """What this thread computes in, for batches that show (which images, how many)."""
        from datalens.ensemble import compact_cpu, tower_cpu

        key, own = tuple(shown), self._own.kept
        if key not in own:
            net = compact_cpu.net_of(self.layout)
            sizes = [m for _, m in sorted(dict(shown).items())]
            which = [n for n, _ in shown]
            memory = compact_cpu.memory_for(net, self.layout.size, sizes, which)
            layers = tower_cpu.layers_of(self.layout, self.shape)
            tower = tower_cpu.tower_for(net, layers, sizes[0]) if layers else ()
            own[key] = net, memory, layers, tower
        found: tuple[Any, ...] = own[key]
        return found

    @property
    def _convolves(self) -> bool:
        """Whether images are too large for the hidden layer to read as they are."""
        return "conv1.weight" in self.layout.shapes

    def _quick(self, tensor: Tensor) -> bool:
        """Whether there are compiled loops for it."""
        return tensor.device.type == "cpu" and tensor.dtype == self.precision == torch.float32


def _joined(parts: Sequence[Tensor]) -> Tensor:
    return parts[0] if len(parts) == 1 else torch.cat(list(parts), dim=-1)
