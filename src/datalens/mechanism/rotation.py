"""A public rotation that all teachers share: random signs, then the Walsh-Hadamard transform."""

import math
from functools import lru_cache

import torch
from torch import Tensor
from torch.nn.functional import pad

from datalens.ensemble.streams import stream
from datalens.mechanism.compressors import PUBLIC


def padded(n_values: int) -> int:
    """The coordinates of a rotated vector: the next power of two."""
    return 1 << (n_values - 1).bit_length()


def rotate(values: Tensor) -> Tensor:
    """Vectors (..., values), rotated (..., padded): no length and no angle changes."""
    n_values = values.shape[-1]
    size = padded(n_values)
    return hadamard(pad(values, (0, size - n_values)) * _signs(size).to(values))


def rotate_back(rotated: Tensor, n_values: int) -> Tensor:
    """The inverse of `rotate`."""
    return (hadamard(rotated) * _signs(rotated.shape[-1]).to(rotated))[..., :n_values]


def hadamard(values: Tensor) -> Tensor:
    """The transform of vectors whose size is a power of two, in d log d. Its own inverse.

    Each pass takes the first half and the second, and lays sums and differences side by side:
    so the index turns by one bit, and is what it was when all bits are through.
    """
    size = values.shape[-1]
    now, then = values.clone(), torch.empty_like(values)
    for _ in range(size.bit_length() - 1):
        first, second = now.chunk(2, dim=-1)
        torch.add(first, second, out=then[..., 0::2])
        torch.sub(first, second, out=then[..., 1::2])
        now, then = then, now
    return now / math.sqrt(size)


@lru_cache(maxsize=8)
def _signs(size: int) -> Tensor:
    heads = torch.randint(2, (size,), generator=stream(PUBLIC, "rotation", size))
    return 2 * heads - 1
