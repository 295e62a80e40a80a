"""What the ensemble asks of a discriminator: the same small network for many teachers at once."""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from math import prod
from typing import ClassVar

from torch import Generator, Tensor

from datalens.errors import DataLensError

Parameters = Mapping[str, Tensor]
"""Parameters of a block of teachers: every tensor has the teacher as its leading axis."""


class Discriminator(ABC):
    """A label-conditional image discriminator, evaluated for a block of teachers at a time.

    **Guarantee**: teachers never mix. Row b of ``logits`` and of its derivatives is a function of
    row b of the parameters and of row b of the images and labels (or of the common ones), bit for
    bit.
    """

    name: ClassVar[str]
    mismatch: ClassVar[bool]
    """Whether training shows it, by default, its real images under wrong labels as negatives."""
    smallest_batch: ClassVar[int] = 1
    """Fewest images it can judge at a time."""

    def __init__(self, shape: tuple[int, int, int], n_classes: int) -> None:
        """For images of ``shape`` (channels, height, width)."""
        if len(shape) != 3 or shape[0] not in (1, 3) or not all(8 <= n <= 64 for n in shape[1:]):
            raise DataLensError(
                "images are (channels, height, width) with 1 or 3 channels and sides of 8 to 64, "
                f"got {tuple(shape)}."
            )
        if not 2 <= n_classes <= 1000:
            raise DataLensError(f"a discriminator takes 2 to 1000 classes, got {n_classes!r}.")
        self.shape = shape
        self.n_classes = n_classes

    @abstractmethod
    def parameter_shapes(self) -> dict[str, tuple[int, ...]]:
        """Shape of every parameter of one teacher."""

    @abstractmethod
    def initial(self, generator: Generator) -> dict[str, Tensor]:
        """Fresh parameters of one teacher."""

    @abstractmethod
    def features(self, params: Parameters, images: Tensor) -> Tensor:
        """What the teachers make of each image before they look at its label: (teachers, ..., m).

        Images in [0, 1] are (teachers, m, c, h, w), each teacher its own, or (m, c, h, w), common
        to all.
        """

    @abstractmethod
    def judge(
        self, params: Parameters, features: Tensor, labels: Tensor, batches: Sequence[int]
    ) -> Tensor:
        """Logits (teachers, m) of the images behind ``features``, shown under ``labels``.

        Labels are (teachers, m), each teacher its own, or (m,), common to all. ``batches`` are the
        sizes of the batches that stand one behind the other in the m images.
        """

    def logits(self, params: Parameters, images: Tensor, labels: Tensor) -> Tensor:
        """How real each image of one batch looks to each teacher under its label: (teachers, m)."""
        return self.judge(params, self.features(params, images), labels, [labels.shape[-1]])

    @property
    def n_parameters(self) -> int:
        """Parameters of one teacher."""
        return sum(prod(shape) for shape in self.parameter_shapes().values())
