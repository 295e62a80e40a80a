"""How the networks that judge images learn: Adam at 1e-3, batches of 256, one generator."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator

import torch
import torch.nn.functional as F
from torch import Tensor

BATCH = 256
LEARNING_RATE = 1e-3

_MICRO_BATCH = 64
"""A batch is worked through in pieces that stay in the cache; their gradients add up to its own."""


class Judge(ABC):
    """A network's weights, its optimiser, and the one generator all its randomness comes from.

    Images are uint8, or floats in [0, 1]: (count, channels, height, width).
    """

    def __init__(self, weights: dict[str, Tensor], generator: torch.Generator) -> None:
        """The last two weights are the output layer's, which turns features into scores."""
        self.generator = generator
        self.weights = {name: weight.requires_grad_() for name, weight in weights.items()}
        *_, self._output, self._bias = self.weights.values()
        self._optimiser = torch.optim.Adam(self.weights.values(), lr=LEARNING_RATE)

    @abstractmethod
    def _hidden(self, images: Tensor, *, learning: bool) -> Tensor:
        """The features (count, d) of floats in [0, 1]: what the output layer sees."""

    def train(self, images: Tensor, labels: Tensor) -> None:
        """One epoch."""
        order = torch.randperm(len(images), generator=self.generator)
        for batch in order.split(BATCH):
            self._optimiser.zero_grad()
            for piece in batch.split(_MICRO_BATCH):
                scores = self._scores(self._hidden(as_floats(images[piece]), learning=True))
                loss = F.cross_entropy(scores, labels[piece], reduction="sum") / len(batch)
                loss.backward()
            self._optimiser.step()

    def predict(self, images: Tensor) -> Tensor:
        """The likeliest class of each image."""
        return self._asked(images, lambda hidden: self._scores(hidden).argmax(1))

    def probabilities(self, images: Tensor) -> Tensor:
        """(count, classes), in double precision, rows adding up to 1."""
        return self._asked(images, lambda hidden: self._scores(hidden).double().softmax(1))

    def features(self, images: Tensor) -> Tensor:
        """(count, d): the penultimate layer."""
        return self._asked(images, lambda hidden: hidden)

    def take(self, weights: dict[str, Tensor]) -> None:
        """Go on with weights of another judge of the same make."""
        shapes = {name: weight.shape for name, weight in weights.items()}
        if shapes != {name: weight.shape for name, weight in self.weights.items()}:
            raise ValueError("weights of another network")
        with torch.no_grad():
            for name, weight in self.weights.items():
                weight.copy_(weights[name])

    @torch.no_grad()
    def _asked(self, images: Tensor, answer: Callable[[Tensor], Tensor]) -> Tensor:
        return torch.cat([answer(hidden) for hidden in self._seen(images)])

    def _seen(self, images: Tensor) -> Iterator[Tensor]:
        for piece in images.split(_MICRO_BATCH):
            yield self._hidden(as_floats(piece), learning=False)

    def _scores(self, hidden: Tensor) -> Tensor:
        return F.linear(hidden, self._output, self._bias)


def as_floats(images: Tensor) -> Tensor:
    """In [0, 1]."""
    return images.float() / 255 if images.dtype == torch.uint8 else images
