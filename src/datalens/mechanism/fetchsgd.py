"""FetchSGD: ballots in a Count Sketch. Algorithm 7 of the paper, put right.

As printed it picks the top k of the sketch before there is noise. An entry that enters or leaves
the top k moves by its whole count, so nothing like 2 * sqrt(k) bounds that. Here the sketch gets
the noise, and what is done with it afterwards is free.
"""

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from datalens.errors import DataLensError
from datalens.mechanism.ballots import BallotRule
from datalens.mechanism.compressors import within
from datalens.mechanism.events import positive
from datalens.mechanism.noise import Floats, Integers
from datalens.mechanism.sketch import Hashes, hashes, longest, sketch, unsketch

MARGIN = 4.0
"""Deviations that a sketch may be longer than it is on average."""
MOST_ROWS = 99


@dataclass(frozen=True, kw_only=True)
class FetchSGD:
    """Each ballot goes into a sketch of `rows` times `columns` integers, and these are counted.

    Guarantee: a ballot's sketch repeats it in every row, and where entries share a cell they add
    up, so its norm is not sqrt(top_k): without collisions it is sqrt(rows * top_k), and with them
    as much as `longest` says. Here the norm is taken over all cells of all rows, collisions
    included, in integers, and a sketch longer than `bound` is not cast: it counts as zero. So
    whatever the gradient is, NaN and infinity included, one ballot that becomes any other moves
    the sum by at most twice the bound: `4 * bound**2` squared. `usual_bound` is never above what
    `longest` says, and mostly far below: signs that all agree in every shared cell are rare.
    """

    ballot: BallotRule
    n_values: int
    """Values of an image."""
    rows: int
    columns: int
    bound: int
    """The largest norm of a ballot's sketch, on the integer grid."""

    def __post_init__(self) -> None:
        positive(n_values=self.n_values, rows=self.rows, columns=self.columns, bound=self.bound)
        if self.rows % 2 == 0 or self.rows > MOST_ROWS:
            raise DataLensError(f"A sketch needs an odd number of rows below 100, got {self.rows}.")
        if self.columns > self.n_values:
            raise DataLensError(
                f"A sketch of {self.columns} columns is wider than an image of {self.n_values}"
                " values; use fewer."
            )

    @property
    def what(self) -> str:
        return "sketched-votes"

    @property
    def unit(self) -> int:
        return self.ballot.unit

    @property
    def dice(self) -> int:
        return self.ballot.dice

    @property
    def squared_sensitivity(self) -> int:
        return 4 * self.bound**2

    @property
    def parameters(self) -> dict[str, int]:
        return {"bound": self.bound}

    @property
    def spread(self) -> float:
        """That of a median of so many normal numbers, within one part in a hundred."""
        return math.sqrt(math.pi / (2 * self.rows + math.pi - 2))

    @property
    def hashes(self) -> Hashes:
        return hashes(self.n_values, self.rows, self.columns)

    def width(self, n_values: int) -> int:
        return self.rows * self.columns

    def cast(self, gradients: Tensor, uniforms: Tensor, *, into: Tensor) -> None:
        for one, chance in zip(gradients, uniforms, strict=True):  # few at a time stay in cache
            into += self.sketches(one, chance).cpu()

    def sketches(self, gradients: Tensor, uniforms: Tensor) -> Tensor:
        """Integers (..., width) from gradients (..., values) and uniforms (..., top_k)."""
        places, votes = self.ballot.vote(gradients, uniforms)
        width = self.width(self.n_values)
        return within(sketch(places, votes.long(), self.hashes, width=width), self.bound)

    def decode(self, release: Integers) -> Floats:
        """The top k of what the sketch says of every value, and zeros: noise is in it already."""
        estimates = unsketch(torch.from_numpy(release).double(), self.hashes)
        top = estimates.abs().topk(self.ballot.top_k, dim=-1).indices
        kept = torch.zeros_like(estimates).scatter(-1, top, estimates.gather(-1, top))
        found: Floats = kept.numpy()
        return found


def usual_bound(rule: BallotRule, n_values: int, rows: int, columns: int) -> int:
    """A bound that ballots keep unless signs in shared cells agree far more than by chance.

    With random signs a sketch has the squared norm rows * top_k on average. In each row, a pair of
    entries that shares a cell adds or takes 2: with p such pairs the deviation is 2 sqrt(p). Never
    more than `longest`, which no ballot exceeds.
    """
    found, k = hashes(n_values, rows, columns), rule.top_k
    loads = torch.bincount(found.cells.flatten(), minlength=rows * columns).double()
    sharing = float((loads * (loads - 1)).sum()) / 2  # pairs of values, over all rows
    chosen = k * (k - 1) / max(1, n_values * (n_values - 1))  # of which a ballot has so many
    squared = rows * k + MARGIN * 2 * math.sqrt(sharing * chosen)
    most = longest(found, width=rows * columns, top_k=k)
    return math.ceil(rule.levels * math.sqrt(min(squared, most)))
