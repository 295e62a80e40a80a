"""Layers of many teachers at once.

Activations are (teachers, channels, height, width, images). With the images innermost a convolution
is one batched product ``weights @ patches`` whose patches are copied in long runs, batch statistics
are over the tail of the tensor, and flattening for a linear layer is a view.

**Guarantee**: a batched product, and a sum over trailing axes, compute a teacher's numbers from
that teacher's numbers alone, in an order that depends on shapes only.
"""

from collections.abc import Sequence
from functools import cache
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

KERNEL = 5
STRIDE = 2


def halved(size: int) -> int:
    """Side of the output of a convolution: half of ``size``, rounded up."""
    return -(-size // STRIDE)


def padding(size: int) -> tuple[int, int]:
    """Zeros before and after a side of ``size``: TensorFlow's SAME, whose smaller half is first."""
    total = max((halved(size) - 1) * STRIDE + KERNEL - size, 0)
    return total // 2, total - total // 2


def images_last(images: Tensor, n_teachers: int) -> Tensor:
    """(teachers, m, c, h, w) or common (m, c, h, w) to (teachers, c, h, w, m), as a view."""
    if images.ndim == 4:
        images = images.expand(n_teachers, *images.shape)
    return images.permute(0, 2, 3, 4, 1)


def one_hot(labels: Tensor, n_classes: int, n_teachers: int, dtype: torch.dtype) -> Tensor:
    """(teachers, m) or common (m,) to (teachers, n_classes, m)."""
    if labels.ndim == 1:
        labels = labels.expand(n_teachers, -1)
    classes = torch.arange(n_classes, device=labels.device)
    return (labels.unsqueeze(1) == classes.unsqueeze(1)).to(dtype)


class _Patches(torch.autograd.Function):
    """The 5x5 neighbourhoods, two apart, of (teachers, c, h, w, m), padded as SAME.

    The result is (teachers, 25 * c, h/2 * w/2 * m), rows ordered by (row, column, channel).
    Images common to all teachers (stride 0 along them) are cut once; the result is common too.
    """

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        ctx.shape = x.shape
        teachers, c, h, w, _ = x.shape
        own = x[:1] if x.stride(0) == 0 else x
        padded = F.pad(own, (0, 0, *padding(w), *padding(h)))
        cut = padded.unfold(2, KERNEL, STRIDE).unfold(3, KERNEL, STRIDE)
        flat = cut.permute(0, 5, 6, 1, 2, 3, 4).reshape(len(own), KERNEL * KERNEL * c, -1)
        return flat.expand(teachers, -1, -1)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> Tensor:
        teachers, c, h, w, m = ctx.shape
        oh, ow = halved(h), halved(w)
        (top, bottom), (left, right) = padding(h), padding(w)
        parts = grads[0].view(teachers, KERNEL, KERNEL, c, oh, ow, m)
        padded = grads[0].new_zeros(teachers, c, h + top + bottom, w + left + right, m)
        for i in range(KERNEL):
            for j in range(KERNEL):
                rows, columns = slice(i, i + STRIDE * oh, STRIDE), slice(j, j + STRIDE * ow, STRIDE)
                padded[:, :, rows, columns] += parts[:, i, j]
        return padded[:, :, top : top + h, left : left + w]


@cache
def _inside(h: int, w: int) -> Tensor:
    """1 where position (row, column) of the output sees the image and not its padding."""
    x = torch.ones(1, 1, h, w, 1)
    return _Patches.apply(x)[0].T.contiguous()


def convolve(x: Tensor, weight: Tensor, start: Tensor | None = None) -> Tensor:
    """A 5x5 convolution of stride 2, padded as SAME, by weights (teachers, out, 5, 5, in).

    If the input has fewer channels than the weights, the first of the weights are used: the others
    are for ``label_planes``, which come in as ``start``, what to begin the sum with.
    """
    teachers, out = weight.shape[:2]
    _, c, h, w, m = x.shape
    kernel = weight[..., :c].reshape(teachers, out, -1)
    patches = _Patches.apply(x)
    if start is None:
        y = torch.bmm(kernel, patches)
    else:
        y = torch.baddbmm(start.flatten(2), kernel, patches)
    return y.view(teachers, out, halved(h), halved(w), m)


def label_planes(onehot: Tensor, h: int, w: int, weight: Tensor, bias: Tensor) -> Tensor:
    """What a constant plane per class, 1 for the image's own and 0 elsewhere, adds to ``convolve``.

    The planes, h by w, stand behind the image's own channels. They are never built: an output sees
    the weights of the class, summed over the taps that lie inside the image, and its bias.
    ``onehot`` is (teachers, n_classes, m).
    """
    teachers, out, *_ = weight.shape
    _, n_classes, m = onehot.shape
    taps = weight.reshape(teachers, out * KERNEL * KERNEL, -1)[:, :, -n_classes:]
    of_class = torch.bmm(taps, onehot).view(teachers * out, KERNEL * KERNEL, m)
    inside = _inside(h, w).to(weight).expand(teachers * out, -1, -1)
    planes = torch.baddbmm(bias.reshape(-1, 1, 1), inside, of_class)
    return planes.view(teachers, out, halved(h), halved(w), m)


def linear(x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    """(teachers, in, m) to (teachers, out, m) by weights (teachers, out, in)."""
    return torch.baddbmm(bias.unsqueeze(2), weight, x)


def batch_norm(x: Tensor, scale: Tensor, shift: Tensor, batches: Sequence[int]) -> Tensor:
    """Normalise each channel of each teacher over each batch; x is (teachers, channels, ..., m)."""
    scale, shift = scale.reshape(-1), shift.reshape(-1)
    normal = [
        F.batch_norm(part.reshape(1, len(scale), -1), None, None, scale, shift, True, eps=1e-5)
        for part in x.split(list(batches), dim=-1)
    ]
    parts = zip(normal, batches, strict=True)
    return torch.cat([part.view(*x.shape[:-1], m) for part, m in parts], dim=-1)
