"""NormTopK against a slow loop: ties, zeros, dominating entries, denormals, what is not finite."""

import math
from fractions import Fraction

import numpy as np
import pytest
import torch
from hypothesis import example, given, settings
from hypothesis import strategies as st

from datalens.errors import DataLensError
from datalens.mechanism.norm_topk import dimension_topk, keep_heaviest_by_sorting, norm_topk

NEAR = Fraction(1, 10**12)
"""What sums in double precision may be off by."""

single = st.floats(width=32, allow_nan=False, allow_infinity=False)
few_values = st.sampled_from([0.0, -0.0, 1.0, -1.0, 2.0, 0.5, 1e-40, -1e-45, 3e38, 1e-20])
rows = st.lists(single, min_size=1, max_size=40) | st.lists(few_values, min_size=1, max_size=40)
shares = st.floats(1e-6, 1 - 1e-9) | st.sampled_from([0.2, 0.25, 0.5, 0.6, 0.8, 1 - 1e-16])


def kept_of(row: list[float], keep: float) -> list[float]:
    found = torch.tensor([row], dtype=torch.float32)
    norm_topk(found, keep)
    return found[0].tolist()


def wrong_about(row: list[float], kept: list[float], keep: float) -> str:
    """The oracle, in fractions: what is wrong about this choice of entries, if anything."""
    entries = [float(v) for v in np.array(row, dtype=np.float32)]
    if any(k not in (0.0, v) for k, v in zip(kept, entries, strict=True)):
        return "an entry was changed"
    chosen = [abs(v) for k, v in zip(kept, entries, strict=True) if k != 0]
    left = [abs(v) for k, v in zip(kept, entries, strict=True) if k == 0 and v != 0]
    limit = Fraction(keep) * sum(Fraction(v) ** 2 for v in entries)
    spent = sum(Fraction(v) ** 2 for v in chosen)
    if spent > limit * (1 + NEAR):
        return "too much"
    if left and chosen and min(chosen) < max(left):
        return "a larger entry was left out"
    if left and spent + Fraction(max(left)) ** 2 < limit * (1 - NEAR):
        return "one more would fit"
    return ""


@settings(max_examples=300, deadline=None)
@given(rows, shares)
@example([1.0] * 5, 0.6)
@example([10.0, 0.1, 0.1], 0.8)
@example([1e-45] * 7 + [3e-45], 0.5)
@example([3.4e38] * 3, 0.9)
def test_the_largest_entries_while_they_are_within_their_share(
    row: list[float], keep: float
) -> None:
    kept = kept_of(row, keep)
    assert wrong_about(row, kept, keep) == ""


@pytest.mark.parametrize(
    "kept, says",
    [
        ([0.0, 2.0, 0.0, 1.0], "a larger entry was left out"),
        ([3.0, 2.0, 0.0, 0.0], "too much"),
        ([0.0, 0.0, 0.0, 0.0], "one more would fit"),
        ([2.9, 0.0, 0.0, 0.0], "an entry was changed"),
        ([3.0, 0.0, 0.0, 0.0], ""),
    ],
)
def test_the_oracle_can_tell(kept: list[float], says: str) -> None:
    assert wrong_about([3.0, 2.0, 2.0, 1.0], kept, 0.7) == says  # 12.6 of 18


def test_first_of_equal_entries_are_kept() -> None:
    assert kept_of([1.0, -1.0, 1.0, 1.0], 0.5) == [1.0, -1.0, 0.0, 0.0]
    assert kept_of([1.0, -3.0, 1.0, 1.0], 0.91) == [1.0, -3.0, 0.0, 0.0]


def test_an_entry_that_dominates_leaves_nothing() -> None:
    assert kept_of([0.1, 10.0, 0.1], 0.8) == [0.0, 0.0, 0.0]


def test_zeros_stay_zeros() -> None:
    assert kept_of([0.0, -0.0, 0.0], 0.8) == [0.0, 0.0, 0.0]


@pytest.mark.parametrize("broken", [math.nan, math.inf, -math.inf])
@pytest.mark.parametrize("compress", [norm_topk, dimension_topk])
def test_what_is_not_finite_becomes_zero_and_harms_nobody(compress, broken: float) -> None:  # type: ignore[no-untyped-def]
    pair = torch.tensor([[1.0, broken, 2.0], [1.0, 3.0, 2.0]])
    alone = pair[1:].clone()
    for rows in (pair, alone):
        compress(rows, 0.7)
    assert pair[0].tolist() == [0.0, 0.0, 0.0]
    assert torch.equal(pair[1:], alone) and alone.any()


@pytest.mark.parametrize("keep", [1e-6, 0.2, 0.5, 0.8, 0.999])
@pytest.mark.parametrize("counted", [False, True])
@pytest.mark.parametrize("tail", [1, 3, 9])
def test_digits_find_what_sorting_finds(keep: float, counted: bool, tail: int) -> None:
    """On ordinary gradients, long ones too, and rounded so that many entries are equal."""
    gradients = torch.randn(20, 5000, generator=torch.Generator().manual_seed(tail)) ** tail
    for given_rows in (gradients, (4 * gradients).round()):
        fast, slow = given_rows.clone(), given_rows.clone()
        (dimension_topk if counted else norm_topk)(fast, keep)
        keep_heaviest_by_sorting(slow, keep, counted=counted)
        assert torch.equal(fast, slow)
        assert fast.any() or keep < 0.1


@given(st.lists(single, min_size=1, max_size=40), shares)
@settings(max_examples=100, deadline=None)
def test_a_share_of_the_coordinates(row: list[float], keep: float) -> None:
    found = torch.tensor([row], dtype=torch.float32)
    before = found[0].clone()
    dimension_topk(found, keep)
    kept = found[0] != 0
    most = math.floor(keep * len(row) + 0.5)
    assert int(kept.sum()) == min(most, int((before != 0).sum()))
    left = before[~kept].abs()
    assert not (kept.any() and len(left)) or before[kept].abs().min() >= left.max()


def test_other_precisions_are_compressed_alike() -> None:
    gradients = torch.randn(5, 300, generator=torch.Generator().manual_seed(1))
    single_, double = gradients.clone(), gradients.double()
    for rows in (single_, double):
        norm_topk(rows, 0.6)
    assert torch.equal(single_.double(), double)


def test_all_is_kept_at_one() -> None:
    gradients = torch.randn(5, 300, generator=torch.Generator().manual_seed(1))
    before = gradients.clone()
    norm_topk(gradients, 1.0)
    assert torch.equal(gradients, before)
    norm_topk(gradients, 0.99)
    assert not torch.equal(gradients, before)


@pytest.mark.parametrize("keep", [0.0, -1.0, 1.1, math.nan])
def test_a_share_that_is_none_is_refused(keep: float) -> None:
    with pytest.raises(DataLensError, match="keep must be above 0"):
        norm_topk(torch.zeros(1, 2), keep)
