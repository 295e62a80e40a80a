"""PATE-GAN's student: a discriminator that has only ever seen generated images."""

from itertools import pairwise
from math import prod

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from datalens.mechanism.blurring import blurred

HIDDEN = (256, 128)
SLOPE = 0.2
LENS = (1 / 16, 4 / 16, 6 / 16, 4 / 16, 1 / 16)
"""What is seen of a pixel and its neighbours, in each direction."""


class DenseCritic(nn.Module):
    """Two dense layers and a logit of its own for every class, behind a lens that is not sharp.

    What it sees is `soft`, so what it asks for is: a generator cannot please it with grain.
    Public from birth: its first weights come from `stream`, and what it learns from are generated
    images and releases.
    """

    def __init__(
        self,
        shape: tuple[int, int, int],
        n_classes: int,
        *,
        stream: torch.Generator,
        soft: bool = True,
    ) -> None:
        super().__init__()
        self.soft = soft
        self.layers = nn.ParameterList()
        sizes = (prod(shape), *HIDDEN, n_classes)
        for inputs, outputs in pairwise(sizes):
            weight = torch.empty(outputs, inputs).normal_(0.0, inputs**-0.5, generator=stream)
            self.layers.extend([nn.Parameter(weight), nn.Parameter(torch.zeros(outputs))])

    def forward(self, images: Tensor, labels: Tensor) -> Tensor:
        """How real the images (m, c, h, w) look under their labels: logits (m,)."""
        x = (blurred(images, images.new_tensor(LENS)) if self.soft else images).flatten(1)
        for place in range(0, len(self.layers), 2):
            x = F.leaky_relu(x, SLOPE) if place else x
            x = F.linear(x, self.layers[place], self.layers[place + 1])
        return x.gather(1, labels.unsqueeze(1)).squeeze(1)
