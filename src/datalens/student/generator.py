"""The student's network: a class and a latent vector in, an image out."""

from math import ceil

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from datalens.errors import DataLensError

SIDES = range(8, 65)
CHANNELS = (32, 16)
EMBEDDING = 32
SLOPE = 0.2


class Generator(nn.Module):
    """A small conditional DC-GAN generator for images of `shape` (channels, height, width).

    A dense layer reads the latent vector and the embedding of the class and paints an image of a
    quarter of the size; two transposed convolutions double it, and what a side has too much is
    cropped. No batch norm: an image depends on its own latent vector and class alone, in training
    as afterwards. Public from birth: its first weights come from `stream`, never from records.
    """

    def __init__(
        self,
        shape: tuple[int, int, int],
        n_classes: int,
        latent: int = 64,
        *,
        stream: torch.Generator,
    ) -> None:
        super().__init__()
        check_generator(shape, n_classes, latent)
        self.shape, self.n_classes, self.latent = shape, n_classes, latent
        self.seed = (CHANNELS[0], ceil(shape[1] / 4), ceil(shape[2] / 4))
        """Shape of the small image that the dense layer paints."""

        def weights(*size: int, fan_in: int, gain: float = 2.0) -> nn.Parameter:
            scale = (gain / fan_in) ** 0.5
            return nn.Parameter(torch.empty(size).normal_(0.0, scale, generator=stream))

        inputs, painted = latent + EMBEDDING, CHANNELS[0] * self.seed[1] * self.seed[2]
        self.embedding = weights(n_classes, EMBEDDING, fan_in=1, gain=1.0)
        self.dense = weights(painted, inputs, fan_in=inputs)
        self.dense_bias = nn.Parameter(torch.zeros(painted))
        # Of a 4x4 kernel at stride 2, four places reach each pixel.
        self.enlarge = weights(*CHANNELS, 4, 4, fan_in=4 * CHANNELS[0])
        self.enlarge_bias = nn.Parameter(torch.zeros(CHANNELS[1]))
        self.paint = weights(CHANNELS[1], shape[0], 4, 4, fan_in=4 * CHANNELS[1], gain=1.0)
        self.paint_bias = nn.Parameter(torch.zeros(shape[0]))

    def latents(self, count: int, chance: torch.Generator) -> Tensor:
        """Latent vectors (count, latent) from a standard normal distribution."""
        return torch.randn(count, self.latent, generator=chance)

    def forward(self, latents: Tensor, labels: Tensor, start: Tensor | None = None) -> Tensor:
        """Images in [0, 1], (m, c, h, w), from latents (m, latent) and labels (m,).

        Given images to start from, what is painted is put on them, between -1 and 1.
        """
        inputs = torch.cat([latents, self.embedding[labels]], dim=1)
        x = F.leaky_relu(F.linear(inputs, self.dense, self.dense_bias), SLOPE)
        x = x.view(-1, *self.seed).contiguous(memory_format=torch.channels_last)
        x = F.conv_transpose2d(x, self.enlarge, self.enlarge_bias, stride=2, padding=1)
        x = F.leaky_relu(x, SLOPE)
        x = F.conv_transpose2d(x, self.paint, self.paint_bias, stride=2, padding=1)
        x = x[:, :, : self.shape[1], : self.shape[2]]
        return torch.sigmoid(x) if start is None else (start + torch.tanh(x)).clamp(0, 1)


def check_generator(shape: tuple[int, int, int], n_classes: int, latent: int) -> None:
    """Refuse sizes that no generator here can make."""
    if len(shape) != 3 or shape[0] < 1 or shape[1] not in SIDES or shape[2] not in SIDES:
        raise DataLensError(
            f"The generator makes images with sides of {SIDES[0]} to {SIDES[-1]} pixels, "
            f"got the shape {tuple(shape)}."
        )
    if n_classes < 1 or latent < 1:
        raise DataLensError(
            f"The generator needs classes and latent values, got {n_classes} and {latent}."
        )
