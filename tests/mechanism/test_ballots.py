"""Ballots: bounded whatever the gradient is, and unbiased."""

import itertools

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from datalens.errors import DataLensError
from datalens.mechanism.ballots import BallotRule, room

NASTY = [0.0, -0.0, 1.0, -1.0, 1e-45, -1e-45, 1e38, -3e38, 1e-5]
NASTY += [float("nan"), float("inf"), float("-inf")]


def cast(rule: BallotRule, gradients: torch.Tensor, seed: int = 0) -> torch.Tensor:
    chance = torch.Generator().manual_seed(seed)
    uniforms = torch.rand((*gradients.shape[:-1], rule.top_k), generator=chance)
    places, votes = rule.vote(gradients, uniforms)
    return torch.zeros(gradients.shape, dtype=torch.int16).scatter_add_(-1, places, votes)


rules = st.builds(
    BallotRule,
    top_k=st.integers(1, 6),
    clip=st.sampled_from([1e-5, 0.3, 1.0]),
    clip_mode=st.sampled_from(["raw", "relative"]),
    levels=st.sampled_from([1, 7, 64]),
)


@settings(max_examples=200, deadline=None)
@given(
    rule=rules,
    values=st.lists(st.sampled_from(NASTY) | st.floats(width=32), min_size=6, max_size=12),
    seed=st.integers(0, 2**31),
)
def test_a_ballot_is_bounded_whatever_the_gradient(
    rule: BallotRule, values: list[float], seed: int
) -> None:
    ballot = cast(rule, torch.tensor([values]), seed).numpy().astype(int)
    assert np.count_nonzero(ballot) <= rule.top_k
    assert np.abs(ballot).max() <= rule.levels
    assert 4 * (ballot**2).sum() <= rule.squared_sensitivity


def test_no_pair_of_ballots_is_further_apart_than_the_sensitivity() -> None:
    """Brute force: all sign and NaN patterns in four dimensions, all pairs."""
    rule = BallotRule(top_k=2, clip=1.0)
    entries = [-2.0, -1.0, 0.0, 1.0, float("nan"), float("inf")]
    gradients = torch.tensor(list(itertools.product(entries, repeat=4)))
    ballots = {tuple(b) for seed in range(4) for b in cast(rule, gradients, seed).tolist()}
    apart = [
        sum((x - y) ** 2 for x, y in zip(a, b, strict=True))
        for a, b in itertools.combinations(ballots, 2)
    ]
    assert max(apart) <= rule.squared_sensitivity
    assert max(apart) == rule.squared_sensitivity  # tight: a smaller claim would be wrong


def test_random_search_on_large_images_stays_within_the_sensitivity() -> None:
    rule = BallotRule(top_k=200, clip=1e-5, clip_mode="raw")
    chance = torch.Generator().manual_seed(1)
    gradients = torch.randn(64, 784, generator=chance) * 10.0 ** torch.randint(
        -8, 8, (64, 1), generator=chance
    )
    gradients[::7, ::5] = float("nan")
    gradients[1::7, ::3] = float("inf")
    ballots = cast(rule, torch.cat([gradients, -gradients])).double()
    apart = torch.cdist(ballots, ballots) ** 2
    assert 0.9 * rule.squared_sensitivity < apart.max() <= rule.squared_sensitivity + 1e-6


def test_a_ballot_with_twice_the_entries_breaks_the_bound() -> None:
    """The negative control: claiming k while voting on 2k entries must be seen."""
    claimed = BallotRule(top_k=2, clip=1.0)
    mutant = BallotRule(top_k=4, clip=1.0)
    gradient = torch.tensor([[1.0, -2.0, 3.0, 4.0, 0.1]])
    a, b = cast(mutant, gradient).int(), cast(mutant, -gradient).int()
    worst = int(((a.abs() + b.abs()) ** 2).sum())
    assert worst > claimed.squared_sensitivity


@pytest.mark.parametrize("levels", [1, 7])
def test_ballots_are_unbiased(levels: int) -> None:
    rule = BallotRule(top_k=3, clip=0.5, levels=levels)
    gradient = torch.tensor([0.8, -0.2, 0.1, 0.05, 0.0])
    expected = np.array([0.4 / 0.4, -0.2 / 0.4, 0.1 / 0.4, 0, 0]) * levels
    many = cast(rule, gradient.expand(200_000, 5)).double().mean(0).numpy()
    error = 5 * levels / np.sqrt(200_000)
    assert np.abs(many - expected).max() < error
    wrong = np.array([1.0, -1.0, 1.0, 0, 0]) * levels  # plain signs: biased, must be seen
    assert np.abs(many - wrong).max() > error


def test_raw_clip_saturates_and_relative_clip_does_not_see_the_scale() -> None:
    gradient = torch.tensor([[3.0, -2.0, 1.0, 0.5]])
    raw = BallotRule(top_k=3, clip=1e-5, clip_mode="raw")
    assert cast(raw, gradient).tolist() == [[1, -1, 1, 0]]
    relative = BallotRule(top_k=3, clip=1.0)
    assert torch.equal(cast(relative, gradient, 3), cast(relative, gradient * 1e-9, 3))


def test_a_zero_gradient_abstains() -> None:
    for levels in (1, 8):
        assert not cast(BallotRule(top_k=3, clip=1.0, levels=levels), torch.zeros(2, 5)).any()


@pytest.mark.parametrize(
    "values", [{"top_k": 0}, {"clip": 0.0}, {"clip": float("nan")}, {"clip": 2.0}, {"levels": 0}]
)
def test_impossible_rules_are_refused(values: dict[str, float]) -> None:
    with pytest.raises(DataLensError):
        BallotRule(**{"top_k": 3, "clip": 1.0, **values})  # type: ignore[arg-type]


def test_more_places_than_pixels_is_refused() -> None:
    with pytest.raises(DataLensError, match="only 5 values"):
        cast(BallotRule(top_k=6, clip=1.0), torch.zeros(1, 5))


def test_room_is_the_same_for_both_signs_and_smallest_at_the_edges() -> None:
    weights = room(torch.tensor([0.0, 0.5, 1.0]))
    assert weights[0] == pytest.approx(weights[2].item()) and weights[0] < weights[1] / 4
