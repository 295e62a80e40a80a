"""Planes seen through a lens that is not sharp."""

import torch
from torch import Tensor


def blurred(planes: Tensor, lens: Tensor) -> Tensor:
    """Planes (..., h, w) through a lens of odd size in both directions; outside there is nothing.

    What two convolutions do, by matrix products: on a CPU in a fraction of the time.
    """
    down, across = (_band(size, lens) for size in planes.shape[-2:])
    return down @ (planes @ across.T)


def _band(size: int, lens: Tensor) -> Tensor:
    """(size, size): what each place of a line sees of all places."""
    reach = len(lens) // 2
    along = torch.arange(size, device=lens.device)
    apart = along - along[:, None] + reach
    seen = (apart >= 0) & (apart < len(lens))
    return torch.where(seen, lens[apart.clamp(0, len(lens) - 1)], lens.new_zeros(()))
