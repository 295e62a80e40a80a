"""How long gradients are, and by what they must shrink: rows of a matrix, one for each example."""

import torch
from torch import Tensor

IN_SINGLE = 4096
"""Entries whose squares are added in single precision, with an error far below a thousandth."""
TINY = 1e-6
"""Against division by zero, as Opacus has it."""


def norms_of_finite(rows: Tensor) -> Tensor:
    """The norm of each row, in double precision. A row that is not finite becomes zero, in place.

    A sum of millions of squares in single precision comes out too small, by per cents: so they are
    added in parts, and the parts in double precision.
    """
    norms = norms_of(rows)
    broken = ~norms.isfinite()
    if bool(broken.any()):
        rows[broken], norms[broken] = 0.0, 0.0
    return norms


def norms_of(rows: Tensor) -> Tensor:
    """The norm of each row, in double precision."""
    parts = [torch.linalg.vector_norm(part, dim=1) for part in rows.split(IN_SINGLE, dim=1)]
    return torch.stack(parts, dim=1).double().norm(dim=1)


def factors(norms: Tensor, bound: float) -> Tensor:
    """What rows of these norms are multiplied by, so that none is longer than the bound."""
    return (bound / (norms + TINY)).clamp(max=1.0)
