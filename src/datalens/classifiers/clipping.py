"""Norms of gradients, clipping and exact sums: rows of a matrix, one for each example."""

import math

import torch
from torch import Tensor

IN_SINGLE = 4096
"""Entries whose squares are added in single precision, with an error far below a thousandth."""
TINY = 1e-6
"""Against division by zero, as Opacus has it."""
GRID_BITS = 29
"""A bound is less than 2**GRID_BITS steps of the grid that clipped gradients are summed on."""


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
    """The norm of each row, in double precision, at most 1.3e-4 of it too small.

    4,096 squares added in single precision, in whatever order, err by at most 4096 * 2**-24 of
    their sum, and a root by half of that. What is lost where squares are too small for single
    precision is far less than TINY.
    """
    parts = [torch.linalg.vector_norm(part, dim=1) for part in rows.split(IN_SINGLE, dim=1)]
    return torch.stack(parts, dim=1).double().norm(dim=1)


def factors(norms: Tensor, bound: float) -> Tensor:
    """What rows of these norms are multiplied by, so that none is longer than the bound."""
    return (bound / (norms + TINY)).clamp(max=1.0)


def sum_on_grid(rows: Tensor, within: Tensor, bound: float) -> Tensor:
    """The sum of all rows, each multiplied by its factor `within`, in double precision.

    Each product is rounded to a grid of a power of two, 2**-28 to 2**-29 of the bound.

    Guarantee: where factors keep each row within the bound, a row adds the same vector whoever is
    in the other rows, and sums of up to 2**24 rows, in any parts and in any order, are exact: in
    steps of the grid an entry is a whole number of at most 2**29, all sums of them stay within
    2**53, and double precision holds those without rounding. A row becomes longer by at most half
    a step in each entry: 1e-4 of the bound for 2.8 billion entries.
    """
    step = math.ldexp(1.0, math.frexp(bound)[1] - GRID_BITS)
    scaled = rows.to(torch.float64, copy=True).mul_((within / step).unsqueeze(1)).round_()
    return torch.ones_like(within) @ scaled * step
