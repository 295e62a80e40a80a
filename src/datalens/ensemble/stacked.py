"""Layers of many teachers at once.

Plain PyTorch, for any device and precision, differentiated by autograd; on a CPU there is something
quicker (``reference_cpu``, ``compact_cpu``). Activations are (teachers, height,
channels, width, images). With the images innermost a convolution is one batched product
``weights @ patches`` whose patches are copied in long runs.

**Guarantee**: a batched product, and a sum over trailing axes, compute a teacher's numbers from
that teacher's numbers alone, in an order that depends on shapes only.
"""

from functools import cache

import torch
import torch.nn.functional as F
from torch import Tensor

KERNEL = 5
STRIDE = 2
EPSILON = 1e-5
"""Under the root of every batch norm."""


def halved(size: int) -> int:
    """Side of the output of a convolution: half of ``size``, rounded up."""
    return -(-size // STRIDE)


def padding(size: int) -> tuple[int, int]:
    """Zeros before and after a side of ``size``: TensorFlow's SAME, whose smaller half is first."""
    total = max((halved(size) - 1) * STRIDE + KERNEL - size, 0)
    return total // 2, total - total // 2


def rows_first(images: Tensor) -> Tensor:
    """Images (..., m, c, h, w) as (..., h, c, w, m), as a view."""
    return images.movedim((-4, -3, -2, -1), (-1, -3, -4, -2))


def images_first(rows: Tensor) -> Tensor:
    """The inverse of ``rows_first``: (..., h, c, w, m) as (..., m, c, h, w), as a view."""
    return rows.movedim((-1, -3, -4, -2), (-4, -3, -2, -1))


def one_hot(labels: Tensor, n_classes: int, n_teachers: int, dtype: torch.dtype) -> Tensor:
    """(teachers, m) or common (m,) to (teachers, n_classes, m)."""
    if labels.ndim == 1:
        labels = labels.expand(n_teachers, -1)
    classes = torch.arange(n_classes, device=labels.device)
    return (labels.unsqueeze(1) == classes.unsqueeze(1)).to(dtype)


def convolve(x: Tensor, weight: Tensor) -> Tensor:
    """A 5x5 convolution of stride 2, padded as SAME, by weights (teachers, out, 5, 5, in).

    Images common to all teachers, (1, h, in, w, m), are cut once.
    """
    teachers, outs = weight.shape[:2]
    _, h, c, w, m = x.shape
    padded = F.pad(x, (0, 0, *padding(w), 0, 0, *padding(h)))
    cut = padded.unfold(1, KERNEL, STRIDE).unfold(3, KERNEL, STRIDE)  # (.., oh, c, ow, m, 5, 5)
    patches = cut.permute(0, 5, 6, 2, 1, 3, 4).reshape(len(x), KERNEL * KERNEL * c, -1)
    y = torch.bmm(weight.flatten(2), patches.expand(teachers, -1, -1))
    return y.view(teachers, outs, halved(h), halved(w), m).transpose(1, 2)


def label_planes(onehot: Tensor, weight: Tensor, h: int, w: int) -> Tensor:
    """What a constant plane per class, 1 for the image's own and 0 elsewhere, adds to ``convolve``.

    The planes, h by w, are never built: an output sees the class's weights, summed over the taps
    that lie inside the image. ``onehot`` is (teachers, n_classes, m), ``weight`` (teachers, 5, 5,
    out, n_classes).
    """
    rows, columns = inside(h).to(weight), inside(w).to(weight)
    maps = torch.einsum("yi,tijok,xj->tyoxk", rows, weight, columns)
    planes = torch.bmm(maps.flatten(1, 3), onehot)
    return planes.view(*maps.shape[:4], -1)


@cache
def inside(size: int) -> Tensor:
    """(outputs, 5): 1 where a row (or column) of the kernel sees the image, not its padding."""
    before, _ = padding(size)
    seen = torch.arange(halved(size)).unsqueeze(1) * STRIDE + torch.arange(KERNEL) - before
    return ((seen >= 0) & (seen < size)).float()


def linear(x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    """(teachers, in, m) to (teachers, out, m) by weights (teachers, out, in)."""
    return torch.baddbmm(bias.unsqueeze(2), weight, x)


def batch_norm(x: Tensor, scale: Tensor, shift: Tensor) -> Tensor:
    """Normalise each channel of each teacher over one batch; x is (teachers, h, channels, w, m)."""
    if x.dtype == torch.bfloat16:  # products may be, statistics not
        x = x.float()
    spread, mean = torch.var_mean(x, (1, 3, 4), correction=0, keepdim=True)
    wide = (slice(None), None, slice(None), None, None)
    return (x - mean) * (spread + EPSILON).rsqrt() * scale[wide] + shift[wide]
