"""The DC-GAN generator of the public code: wide layers, batch norm, labels joined at each layer."""

from math import ceil

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from datalens.student.generator import check_generator

DENSE = 1024
CHANNELS = 128
KERNEL = 5
SPREAD = 0.02
"""Standard deviation of fresh weights."""


class DcganGenerator(nn.Module):
    """A conditional DC-GAN generator for images of `shape` (channels, height, width).

    Latent vector and class -> dense 1,024 -> dense to an image of a quarter of the size with 128
    channels -> two 5x5 transposed convolutions of stride 2 -> sigmoid. The class joins the input of
    every layer, and each layer but the last is normalised. In training mode that is over the images
    at hand, whose statistics are kept; in evaluation mode with the kept ones, so that an image then
    depends on its own latent vector and class alone. Public from birth: its first weights come from
    `stream`, never from records.
    """

    def __init__(
        self,
        shape: tuple[int, int, int],
        n_classes: int,
        latent: int = 50,
        *,
        stream: torch.Generator,
    ) -> None:
        super().__init__()
        check_generator(shape, n_classes, latent)
        self.shape, self.n_classes, self.latent = shape, n_classes, latent
        self.seed = (CHANNELS, ceil(shape[1] / 4), ceil(shape[2] / 4))
        """Shape of the small image that the second dense layer makes."""

        def weights(*size: int, centre: float = 0.0) -> nn.Parameter:
            return nn.Parameter(torch.empty(size).normal_(centre, SPREAD, generator=stream))

        painted = CHANNELS * self.seed[1] * self.seed[2]
        wide = CHANNELS + n_classes
        self.dense1 = weights(DENSE, latent + n_classes)
        self.dense2 = weights(painted, DENSE + n_classes)
        self.enlarge = weights(wide, CHANNELS, KERNEL, KERNEL)
        self.paint = weights(wide, shape[0], KERNEL, KERNEL)
        self.paint_bias = nn.Parameter(torch.zeros(shape[0]))
        for layer, features in (("norm1", DENSE), ("norm2", painted), ("norm3", CHANNELS)):
            self.register_parameter(f"{layer}_scale", weights(features, centre=1.0))
            self.register_parameter(f"{layer}_shift", nn.Parameter(torch.zeros(features)))
            self.register_buffer(f"{layer}_mean", torch.zeros(features))
            self.register_buffer(f"{layer}_variance", torch.ones(features))

    def latents(self, count: int, chance: torch.Generator) -> Tensor:
        """Latent vectors (count, latent), uniform in (-1, 1) as in the public code.

        The paper says Gaussian; those have three times the variance.
        """
        return torch.rand(count, self.latent, generator=chance) * 2 - 1

    def forward(self, latents: Tensor, labels: Tensor, start: Tensor | None = None) -> Tensor:
        """Images in [0, 1], (m, c, h, w), from latents (m, latent) and labels (m,).

        Given images to start from, what is painted is put on them, between -1 and 1.
        """
        classes = F.one_hot(labels, self.n_classes).to(latents)
        x = F.linear(torch.cat([latents, classes], dim=1), self.dense1)
        x = F.relu(self._normalised("norm1", x))
        x = F.linear(torch.cat([x, classes], dim=1), self.dense2)
        x = F.relu(self._normalised("norm2", x)).view(-1, *self.seed)
        x = F.conv_transpose2d(_joined(x, classes), self.enlarge, stride=2, padding=1)
        x = x[:, :, : 2 * self.seed[1], : 2 * self.seed[2]]
        x = F.relu(self._normalised("norm3", x))
        x = F.conv_transpose2d(
            _joined(x, classes), self.paint, self.paint_bias, stride=2, padding=1
        )
        x = x[:, :, : self.shape[1], : self.shape[2]]
        return torch.sigmoid(x) if start is None else (start + torch.tanh(x)).clamp(0, 1)

    def _normalised(self, layer: str, x: Tensor) -> Tensor:
        scale, shift, mean, variance = (
            getattr(self, f"{layer}_{part}") for part in ("scale", "shift", "mean", "variance")
        )
        return F.batch_norm(x, mean, variance, scale, shift, self.training, momentum=1.0)


def _joined(x: Tensor, classes: Tensor) -> Tensor:
    """The class as constant planes behind the channels of x (m, channels, h, w)."""
    planes = classes[:, :, None, None].expand(-1, -1, *x.shape[2:])
    return torch.cat([x, planes], dim=1)
