"""The mean embedding of images, and how a generator is fitted to one that was released."""

import math
from collections.abc import Callable

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from datalens.ensemble.streams import stream
from datalens.student.generator import Generator

PUBLIC = b"datalens"
"""What the frequencies are drawn from: known to everybody, and the same in every run."""


class Waves:
    """Random Fourier features of a Gaussian kernel (Rahimi and Recht 2007).

    An image's features are the cosine and the sine of its place on each of `count` random waves,
    over sqrt(count): a vector of length one, whatever the image. The inner product of two such
    vectors is close to exp(-|x - y|^2 / (2 l^2)). Here l is `length_scale` times the square root
    of the number of values in an image: two images whose pixels differ by `length_scale`, as a
    root mean square, are at that distance. Of several `scales`, each has its share of the waves,
    and is half as long as the one before.

    Public: the waves come from a constant, never from records.
    """

    def __init__(
        self, shape: tuple[int, int, int], count: int, *, length_scale: float, scales: int = 1
    ) -> None:
        values = math.prod(shape)
        lengths = length_scale * math.sqrt(values) * 0.5 ** (torch.arange(count) % scales)
        drawn = torch.randn(values, count, generator=stream(PUBLIC, "waves"), dtype=torch.float64)
        self._frequencies = drawn / lengths
        self.frequencies = self._frequencies.float()

    def of_records(self, images: NDArray[np.uint8]) -> NDArray[np.float64]:
        """A row of 2 * count features for each image.

        In float64: so that how records are divided into chunks is not seen on the grid.
        """
        pixels = torch.from_numpy(images).flatten(1).double() / 255
        return _features(pixels, self._frequencies).numpy()

    def of_images(self, images: Tensor) -> Tensor:
        """The same for images in [0, 1], in float32, through which gradients pass."""
        return _features(images.flatten(1), self.frequencies)


def _features(pixels: Tensor, frequencies: Tensor) -> Tensor:
    places = pixels @ frequencies
    return torch.cat([places.cos(), places.sin()], dim=1) / math.sqrt(frequencies.shape[1])


def squared_distances(features: Tensor, targets: Tensor) -> Tensor:
    """How far the mean embeddings of classes are from their targets, without the targets' length.

    `features` are those of m images of each class, (classes, m, features). The squared length of
    their mean is too large, on average, by what one image's features vary over m, and a generator
    that followed it would make its images all alike. Features have length one, so a factor and a
    constant put that right exactly.
    """
    m = features.shape[1]
    means = features.mean(1)
    lengths = (m * means.square().sum(1) - 1) / (m - 1)
    return lengths - 2 * (means * targets).sum(1)


def match(
    generator: Generator,
    waves: Waves,
    sums: Tensor,
    counts: Tensor,
    *,
    updates: int,
    batch_size: int,
    learning_rate: float,
    secret: bytes,
    progress: Callable[[int, int], None] = lambda done, total: None,
) -> None:
    """Train the generator until its images have the mean embedding that was released.

    `sums` is a row of features for each class, added up over its records, of which there are
    `counts`. Every update draws images of every class and takes a step of Adam, at a rate that
    falls to nothing, down the squared distance between the two embeddings.
    """
    m = max(2, batch_size // len(counts))
    labels = torch.arange(len(counts)).repeat_interleave(m)
    targets, weights = sums / counts[:, None], (counts / counts.sum()).square()
    optimiser = torch.optim.Adam(generator.parameters(), lr=learning_rate)
    falling = torch.optim.lr_scheduler.CosineAnnealingLR(optimiser, updates)
    for update in range(updates):
        chance = stream(secret, "student", "match", update)
        latents = torch.randn(len(labels), generator.latent, generator=chance)
        features = waves.of_images(generator(latents, labels)).view(len(counts), m, -1)
        optimiser.zero_grad()
        (weights * squared_distances(features, targets)).sum().backward()
        optimiser.step()
        falling.step()
        progress(update + 1, updates)
