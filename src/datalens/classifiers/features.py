"""Fixed features of an image: how strong edges of each direction are, and which colours, where.

The first two layers of a wavelet scattering (Bruna and Mallat 2013), which is public knowledge and
learns nothing. A linear classifier on them is far better than one on pixels.
"""

import math
from functools import lru_cache

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

SCALES = (0.8, 1.6)
"""Widths of the wavelets, in pixels."""
DIRECTIONS = 8
GRID = 7
"""Features are averaged over so many places down and across."""
BOUND = 4096
"""Features of an image are integers, and their norm is at most this."""
FAINT = 1e-3
"""A channel weaker than this is not made as strong as the others."""
COLOUR = 12.0
"""Twice the length that the colours of an image have which is black or white all over."""

_CHUNK = 500


def n_features(channels: int) -> int:
    """Low-passed channels and one for each wavelet, at each place, and a constant."""
    return (channels + len(SCALES) * DIRECTIONS) * GRID**2 + 1


def features(images: np.ndarray | Tensor) -> np.ndarray:
    """int16 (n, n_features) of uint8 images (n, channels, height, width).

    Guarantee: each row depends on its own image alone, and its norm is at most BOUND.
    """
    pixels = torch.as_tensor(images)
    found = [_of_chunk(pixels[i : i + _CHUNK]) for i in range(0, len(pixels), _CHUNK)]
    return torch.cat(found).numpy()


def _of_chunk(images: Tensor) -> Tensor:
    x = images.float() / 255
    coloured = x.shape[1] > 1
    grey = x.mean(1, keepdim=True)
    maps = [] if coloured else [x]
    for scale in SCALES:
        wavelets = _wavelets(scale)
        reach = wavelets.shape[-1] // 2
        waves = F.conv2d(F.pad(grey, (reach,) * 4, mode="replicate"), wavelets)
        real, imaginary = waves.chunk(2, dim=1)
        maps.append((real.square() + imaginary.square()).sqrt())
    places = torch.cat([_pooled(each) for each in maps], 1).flatten(2)
    places = places / (places.norm(dim=2, keepdim=True) + FAINT)
    rows = (places - places.mean(2, keepdim=True)).flatten(1)
    if coloured:  # a channel that is made as strong as the others has lost its hue
        away = _pooled(x).flatten(1) - 0.5
        rows = torch.cat([away * (COLOUR / away.shape[1] ** 0.5), rows], 1)
    rows = F.pad(rows.double(), (0, 1), value=1.0)  # for what all classes have in common
    rows = rows / rows.norm(dim=1, keepdim=True)
    return (rows * BOUND).trunc().to(torch.int16)  # towards zero: no row becomes longer


def _pooled(maps: Tensor) -> Tensor:
    return F.adaptive_avg_pool2d(maps, GRID)


@lru_cache(maxsize=len(SCALES))
def _wavelets(scale: float) -> Tensor:
    """Morlet wavelets (2 DIRECTIONS, 1, k, k): real parts in all directions, then the others."""
    reach, slant, frequency = math.ceil(4 * scale), 0.5, 0.75 * math.pi * 0.8 / scale
    y, x = np.mgrid[-reach : reach + 1, -reach : reach + 1]
    found = []
    for direction in range(DIRECTIONS):
        angle = math.pi * direction / DIRECTIONS
        along = x * math.cos(angle) + y * math.sin(angle)
        across = y * math.cos(angle) - x * math.sin(angle)
        hill = np.exp(-(along**2 + (slant * across) ** 2) / (2 * scale**2))
        wave = hill * np.exp(1j * frequency * along)
        wave -= hill * wave.sum() / hill.sum()  # a plain grey gives nothing
        found.append(wave / (2 * math.pi * scale**2 / slant))
    both = np.concatenate([np.real(found), np.imag(found)])
    return torch.from_numpy(both[:, None].astype(np.float32))
