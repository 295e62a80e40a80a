"""A public Count Sketch: each row deals all values to its columns, with a random sign each.

Charikar, Chen and Farach-Colton 2002. Columns are dealt in turn along a random order of the values,
so that they are as evenly filled as can be: with as many columns as values none is shared.
"""

from functools import lru_cache
from typing import NamedTuple

import torch
from torch import Tensor

from datalens.ensemble.streams import stream
from datalens.mechanism.compressors import PUBLIC


class Hashes(NamedTuple):
    """For every row and value (rows, values): its cell among all rows', and its sign there."""

    cells: Tensor
    signs: Tensor


@lru_cache(maxsize=8)
def hashes(n_values: int, rows: int, columns: int) -> Hashes:
    """The same for all teachers and all steps."""
    chance = stream(PUBLIC, "sketch", n_values, rows, columns)
    dealt = [torch.randperm(n_values, generator=chance) % columns for _ in range(rows)]
    heads = torch.randint(2, (rows, n_values), generator=chance)
    first = columns * torch.arange(rows)[:, None]
    return Hashes(torch.stack(dealt) + first, 2 * heads - 1)


def sketch(places: Tensor, votes: Tensor, found: Hashes, *, width: int) -> Tensor:
    """Integer sketches (..., width) of sparse ballots: places (..., k) and votes there (..., k)."""
    cells = found.cells.to(places.device)[:, places].movedim(0, -2).flatten(-2)
    signs = found.signs.to(places.device)[:, places].movedim(0, -2)
    votes = (signs * votes.unsqueeze(-2)).flatten(-2)
    empty = torch.zeros(*places.shape[:-1], width, dtype=torch.int64, device=places.device)
    return empty.scatter_add_(-1, cells, votes)


def unsketch(sketches: Tensor, found: Hashes) -> Tensor:
    """An estimate of every value (m, values) from sketches (m, width): the median of its rows."""
    return (sketches[:, found.cells] * found.signs).median(dim=1).values


def longest(found: Hashes, *, width: int, top_k: int) -> int:
    """A bound on the squared norm of the sketch of `top_k` entries of -1/+1, whichever they are.

    In a cell that c entries share, they make c at most, when all signs agree. In one row the sum
    of c^2 over cells is largest when the fullest cells are taken first: moving an entry from a
    cell with c of them to one with c' >= c adds (c' + 1)^2 - c'^2 - (c^2 - (c - 1)^2) > 0. Rows
    may want different entries, so the sum of their maxima is a bound, and need not be reached.
    """
    total = 0
    for row in found.cells:
        loads = torch.bincount(row, minlength=width).sort(descending=True).values
        before = loads.cumsum(0) - loads
        taken = torch.minimum(loads, (top_k - before).clamp(min=0))
        total += int((taken * taken).sum())
    return total
