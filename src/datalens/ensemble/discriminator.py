"""What the ensemble asks of a discriminator: the same small network for many teachers at once."""

from abc import ABC, abstractmethod
from collections.abc import Hashable, Mapping, Sequence
from math import prod
from threading import local
from typing import Any, ClassVar

import torch
from torch import Generator, Tensor

from datalens.ensemble.adam import Adam
from datalens.ensemble.layout import Layout
from datalens.errors import DataLensError

Parameters = Mapping[str, Tensor]
"""Parameters of a block of teachers: every tensor has the teacher as its leading axis."""
Shown = Sequence[tuple[int, Tensor]]
"""Batches to judge: which of the images, and their labels, (teachers, m) or common (m,)."""


class PerThread(local):
    """What each thread keeps for itself."""

    def __init__(self) -> None:
        self.kept: dict[Hashable, Any] = {}


class Discriminator(ABC):
    """A label-conditional image discriminator, evaluated for a block of teachers at a time.

    **Guarantee**: teachers never mix. Row b of the logits and of their derivatives is a function of
    row b of the parameters and of row b of the images and labels (or of the common ones), bit for
    bit.
    """

    name: ClassVar[str]
    mismatch: ClassVar[bool]
    """Whether training shows it, by default, its real images under wrong labels as negatives."""
    smallest_batch: ClassVar[int] = 1
    """Fewest images it can judge at a time."""
    block_numbers: ClassVar[int] = 5_000_000
    """Parameters and pixels in a block of teachers by default, at most: what the cache likes."""

    def __init__(
        self,
        shape: tuple[int, int, int],
        n_classes: int,
        *,
        precision: torch.dtype = torch.float32,
    ) -> None:
        """For images of ``shape`` (channels, height, width).

        ``precision`` is that of matrix products: float32, or bfloat16 for hardware that is quicker
        with it. Weights, sums and norms stay in float32.
        """
        if len(shape) != 3 or shape[0] not in (1, 3) or not all(8 <= n <= 64 for n in shape[1:]):
            raise DataLensError(
                "images are (channels, height, width) with 1 or 3 channels and sides of 8 to 64, "
                f"got {tuple(shape)}."
            )
        if not 2 <= n_classes <= 1000:
            raise DataLensError(f"a discriminator takes 2 to 1000 classes, got {n_classes!r}.")
        self.shape = shape
        self.n_classes = n_classes
        self.precision = precision
        self.layout = Layout(self.parameter_shapes())
        self._own = PerThread()

    @abstractmethod
    def parameter_shapes(self) -> dict[str, tuple[int, ...]]:
        """Shape of every parameter of one teacher."""

    @abstractmethod
    def initial(self, generator: Generator) -> dict[str, Tensor]:
        """Fresh parameters of one teacher."""

    @abstractmethod
    def logits(self, params: Parameters, images: Sequence[Tensor], shown: Shown) -> Tensor:
        """How real the images look to each teacher under the labels they are shown with.

        Images in [0, 1] are (teachers, h, c, w, m), each teacher its own, or (1, h, c, w, m),
        common to all. A batch of ``shown`` is normalised, where that is done, by itself. The
        result is (teachers, images), one batch behind the other.
        """

    def prepare(self, images: Tensor, dtype: torch.dtype) -> Any:
        """Images, or bytes from 0 to 255, as the three methods below want them.

        What can be done once for several calls is done here; ``dtype`` is that of the weights.
        """
        scaled = images.to(dtype)
        return scaled.div_(255) if images.dtype == torch.uint8 else scaled

    def learn(
        self,
        adam: Adam,
        block: slice,
        images: Sequence[Any],
        shown: Shown,
        real: Tensor,
        weight: Tensor,
    ) -> None:
        """One step of Adam down each teacher's loss, for the teachers in ``block``.

        The loss of an image is -log D if it is ``real`` (1) and -log(1 - D) if not (0); it counts
        with its ``weight``. Both are (images,).
        """
        rows = adam.weights[block]
        params = {k: p.detach().requires_grad_() for k, p in self.layout.views(rows).items()}
        with torch.enable_grad(), self._products(rows.device):
            logits = self.logits(params, images, shown)
        slope = (torch.sigmoid(logits.detach()) - real) * weight
        found = torch.autograd.grad(logits, list(params.values()), slope, materialize_grads=True)
        gradient = torch.zeros_like(rows)
        for target, part in zip(self.layout.views(gradient).values(), found, strict=True):
            target.copy_(part)
        adam.step(block, gradient)

    def realism(self, rows: Tensor, images: Any, labels: Tensor) -> Tensor:
        """d log D(x) / dx of the images of one batch, (teachers, h, c, w, m).

        ``rows`` are the teachers' parameters. Where a batch is normalised, log D is summed over it
        before it is differentiated.
        """
        free = images.expand(len(rows), *images.shape[1:]).detach().requires_grad_()
        with torch.enable_grad(), self._products(rows.device):
            logits = self.logits(self.layout.views(rows), [free], [(0, labels)])
        (gradient,) = torch.autograd.grad(logits, free, torch.sigmoid(-logits.detach()))
        return gradient

    def answers(self, rows: Tensor, images: Any, labels: Tensor) -> Tensor:
        """The logits of one batch, (teachers, m). ``rows`` are the teachers' parameters."""
        with torch.no_grad(), self._products(rows.device):
            return self.logits(self.layout.views(rows), [images], [(0, labels)])

    def _products(self, device: torch.device) -> torch.autocast:
        """Within, matrix products are in the chosen precision.

        Nothing converted is kept for a second use: all threads share that memory, each empties it
        when it is done, and whether a weight is converted once or twice is seen in its gradient.
        """
        lower = self.precision != torch.float32
        return torch.autocast(device.type, dtype=torch.bfloat16, enabled=lower, cache_enabled=False)

    @property
    def n_parameters(self) -> int:
        """Parameters of one teacher."""
        return sum(prod(shape) for shape in self.parameter_shapes().values())
