"""Sums of clipped gradients: one record moves them by its own bounded gradient, and nothing else.

Gradients are built for which a sum in single precision moves by more than the bound: with one
record the sum lies above a power of two, without it below, where numbers are twice as dense, and
what is then added is rounded up in the one and down in the other.
"""

import math

import pytest
import torch
from torch import Tensor, nn

from datalens.classifiers.clipping import sum_on_grid
from datalens.classifiers.dpsgd import PrivateOptimizer
from datalens.classifiers.topagg import TopAggOptimizer

ENTRIES = 5
FILL, FILLED = 7 / 16, 9362
"""In each entry. So many add up to an eighth less than 4096, without rounding."""
ULP = 2.0**-11
"""Of single precision, between 4096 and 8192."""
PAIRS = 40
KEEPS = [None, 1.0, 0.8]
"""None is plain DP-SGD; 0.8 keeps four of five equal entries."""


class Seen:
    """Noise that adds none, and remembers what it was given."""

    kind = "seeded"

    def add(self, values: object, *, sigma: float, key: str) -> object:
        self.values = values
        return values


def hostile(record: float, piece: int) -> Tensor:
    """Gradients of equal entries; `record` is the first after those that fill the sum up.

    Each that is to be rounded on its own has a piece to itself, which zeros fill up.
    """
    zeros = [0.0] * (piece - 1)
    entries = [FILL] * FILLED + [0.0] * (-FILLED % piece) + [record, *zeros]
    entries += [0.6 * ULP, *zeros, -0.4 * ULP, *zeros] * PAIRS
    return torch.tensor(entries).unsqueeze(1).repeat(1, ENTRIES)


def sum_of(rows: Tensor, keep: float | None, piece: int, *, loop: bool = False) -> Tensor:
    """What noise is added to; in a training `loop` pieces come from Opacus's memory manager."""
    weight, noise = nn.Parameter(torch.zeros(ENTRIES)), Seen()
    kind = PrivateOptimizer if keep is None else TopAggOptimizer
    private = kind(
        torch.optim.SGD([weight], lr=1.0),
        noise=noise,  # type: ignore[arg-type]
        noise_multiplier=1.0,
        max_grad_norm=1.0,
        expected_batch_size=1,
        **({} if keep is None else {"keep": keep}),
    )
    pieces = rows.split(piece)
    for number, some in enumerate(pieces):
        weight.grad_sample = some.clone()  # type: ignore[attr-defined]
        if loop:
            private.signal_skip_step(number + 1 < len(pieces))
            private.step()
        else:
            private.accumulate()
    if not loop:
        private.step_on(0, key="a")
    return torch.as_tensor(noise.values)


def in_single_precision(rows: Tensor, piece: int) -> Tensor:
    """The control: as `sum_of`, of rows that are within the bound, with a sum in float32."""
    total = torch.zeros(ENTRIES)
    for some in rows.split(piece):
        total += torch.ones(len(some)) @ some
    return total.double()


@pytest.mark.parametrize("piece", [8, 64, 256])
def test_the_gradients_are_hostile(piece: int) -> None:
    longest = 0.999 / math.sqrt(ENTRIES)
    with_, without = (in_single_precision(hostile(e, piece), piece) for e in (longest, 0.0))
    assert float((with_ - without).norm()) > 1.04


@pytest.mark.parametrize("keep", KEEPS)
@pytest.mark.parametrize("piece, loop", [(8, False), (64, False), (64, True), (256, False)])
def test_one_record_moves_the_sum_of_a_batch_by_no_more_than_the_bound(
    keep: float | None, piece: int, loop: bool
) -> None:
    bound = math.sqrt(keep or 1.0)
    rows = hostile(3.0, piece)  # the record's gradient is clipped
    at = int(rows[:, 0].argmax())
    absent = torch.cat([rows[:at], rows[at + 1 :]])
    moved = sum_of(rows, keep, piece, loop=loop) - sum_of(absent, keep, piece, loop=loop)
    assert torch.equal(moved, sum_of(rows[at : at + 1], keep, 1))  # nothing else moves
    rows[at] = math.nan  # blanked in place: no piece begins elsewhere
    blanked = sum_of(absent, keep, piece) - sum_of(rows, keep, piece)
    assert 0.998 * bound < float(moved.norm()) <= bound
    assert torch.equal(blanked, torch.zeros(ENTRIES, dtype=torch.float64))


@pytest.mark.parametrize("keep", [1.0, 0.8])
def test_a_sum_is_exact_in_any_pieces_and_any_order(keep: float) -> None:
    """Each gradient adds the same, whoever is beside it; norms are measured in several parts."""
    chance = torch.Generator().manual_seed(0)
    rows = torch.randn(64, 9000, generator=chance) ** 3 * torch.logspace(-9, 9, 64).unsqueeze(1)
    private = TopAggOptimizer(
        torch.optim.SGD([nn.Parameter(torch.zeros(9000))], lr=1.0),
        noise=Seen(),  # type: ignore[arg-type]
        noise_multiplier=1.0,
        max_grad_norm=0.7,
        expected_batch_size=1,
        keep=keep,
    )
    whole = private._sum_of(rows.clone())
    alone = [private._sum_of(row[None].clone()) for row in rows]
    assert whole.norm() > 1
    assert torch.equal(whole, torch.stack(alone).sum(0))
    assert torch.equal(whole, sum(alone[::-1], torch.zeros(9000, dtype=torch.float64)))


@pytest.mark.parametrize("bound", [0.3, 0.999, 1.0, 50.0])
def test_sixteen_million_rows_can_be_added_without_rounding(bound: float) -> None:
    """What a row adds is a multiple of the distance between numbers as large as their sum."""
    within = torch.tensor([bound / 3, bound / 7], dtype=torch.float64)
    added = float(sum_on_grid(torch.ones(2, 1), within, bound))
    assert added == pytest.approx(bound * (1 / 3 + 1 / 7), rel=1e-7)
    assert added % math.ulp(2.0**24 * bound) == 0
