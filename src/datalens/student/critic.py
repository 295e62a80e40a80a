"""A small convolutional critic of images and their classes, for the public side of a GAN."""

from math import ceil

import torch
import torch.nn.functional as F
from torch import Tensor, nn

SLOPE = 0.2
KERNEL = 4


class Critic(nn.Module):
    """How real an image of `shape` looks as one of its class: one number, no normalisation.

    Two strided convolutions, then a head for each class, which is what lets so small a network
    tell classes apart. Its first weights come from `stream`.
    """

    def __init__(
        self,
        shape: tuple[int, int, int],
        n_classes: int,
        width: int = 16,
        *,
        stream: torch.Generator,
    ) -> None:
        super().__init__()
        channels, height, breadth = shape
        small = ceil(ceil(height / 2) / 2) * ceil(ceil(breadth / 2) / 2)
        self.pad = (-height % 4, -breadth % 4)
        self.see = nn.Conv2d(channels, width, KERNEL, stride=2, padding=1)
        self.combine = nn.Conv2d(width, 2 * width, KERNEL, stride=2, padding=1)
        self.heads = nn.Linear(2 * width * small, n_classes)
        with torch.no_grad():
            for weight in self.parameters():
                if weight.dim() == 1:
                    weight.zero_()  # a bias
                else:
                    weight.normal_(0.0, (2 / weight[0].numel()) ** 0.5, generator=stream)

    def forward(self, images: Tensor, labels: Tensor) -> Tensor:
        """Images (m, c, h, w) in [0, 1] and labels (m,) to realism (m,)."""
        x = F.pad(2 * images - 1, (0, self.pad[1], 0, self.pad[0]))
        x = F.leaky_relu(self.see(x), SLOPE)
        x = F.leaky_relu(self.combine(x), SLOPE)
        found: Tensor = self.heads(x.flatten(1)).gather(1, labels.unsqueeze(1)).squeeze(1)
        return found
