"""D2P-Fed: levels that are symmetric, rounding without bias, and a norm that is kept."""

import itertools
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from datalens.errors import DataLensError
from datalens.mechanism import d2pfed
from datalens.mechanism.d2pfed import D2PFed, least_bound, unit_of, usual_bound
from datalens.mechanism.rotation import padded, rotate

from .test_ballots import NASTY


def rule(n_values: int = 6, levels: int = 5, bound: int | None = None, **more: Any) -> D2PFed:
    bound = bound or usual_bound(n_values, levels)
    return D2PFed(**{"n_values": n_values, "clip": 1.0, "levels": levels, "bound": bound, **more})


def cast(compressor: D2PFed, gradients: torch.Tensor, seed: int = 0) -> torch.Tensor:
    shape = (*gradients.shape[:-1], compressor.dice)
    chance = torch.Generator().manual_seed(seed)
    return compressor.ballots(gradients, torch.rand(shape, generator=chance))


def squared_apart(ballots: torch.Tensor) -> int:
    """The largest squared distance of any two."""
    different = ballots.unique(dim=0).double()
    return round(float(torch.cdist(different, different).max() ** 2))


@pytest.mark.parametrize(
    "levels, expected",
    [(2, [-1, 1]), (3, [-1, 0, 1]), (4, [-3, -1, 1, 3]), (5, [-2, -1, 0, 1, 2])],
)
def test_levels_are_symmetric_and_evenly_spaced(levels: int, expected: list[int]) -> None:
    chance = torch.Generator().manual_seed(0)
    found = cast(rule(8, levels, bound=1000), torch.randn(500, 8, generator=chance))
    assert found.unique().tolist() == expected
    printed = [-levels / 2 + 2 * r for r in range(levels)]  # Algorithm 5's, which are not
    assert (sorted(-x for x in printed) == printed) is (levels == 2)


gradients_of_six = st.lists(st.sampled_from(NASTY) | st.floats(width=32), min_size=6, max_size=6)


@settings(max_examples=200, deadline=None)
@given(
    levels=st.integers(2, 40),
    spare=st.integers(0, 30),
    mode=st.sampled_from([("raw", 1e-5), ("relative", 1.0), ("relative", 0.3)]),
    values=gradients_of_six,
    uniform=st.sampled_from([0.0, 0.5, 1 - 2**-24]),
)
def test_a_ballot_is_bounded_whatever_the_gradient_and_the_dice(
    levels: int, spare: int, mode: tuple[Any, float], values: list[float], uniform: float
) -> None:
    bound = least_bound(6, levels) + spare
    compressor = rule(6, levels, bound, clip_mode=mode[0], clip=mode[1])
    ballot = compressor.ballots(torch.tensor([values]), torch.full((1, 8), uniform))
    assert ballot.dtype == torch.int64 and ballot.shape == (1, 8)
    assert ballot.abs().max() <= compressor.unit
    assert 4 * int((ballot**2).sum()) <= compressor.squared_sensitivity == 4 * bound**2


def every_ballot(compressor: D2PFed) -> torch.Tensor:
    """Of all patterns in three dimensions, with dice of all kinds."""
    entries = [-2.0, -1.0, 0.0, 1.0, float("nan"), float("inf")]
    gradients = torch.tensor(list(itertools.product(entries, repeat=compressor.n_values)))
    cast_ = [cast(compressor, gradients, seed) for seed in range(20)]
    return torch.cat(cast_)


@pytest.mark.parametrize("levels", [2, 3, 5])
def test_no_two_ballots_are_further_apart_than_the_sensitivity(levels: int) -> None:
    """Brute force, with the bound that no ballot can exceed: it is reached."""
    most = 2 * unit_of(levels)  # sqrt(4) coordinates at the top
    whole = rule(3, levels, bound=most)
    found = squared_apart(every_ballot(whole))
    assert found == whole.squared_sensitivity
    smaller = rule(3, levels, bound=max(least_bound(3, levels), most - 1))
    assert squared_apart(every_ballot(smaller)) <= smaller.squared_sensitivity


def test_naive_sensitivities_are_exceeded() -> None:
    """The mutants: a claim that forgets padding, or that is the paper's, is wrong."""
    levels, top_k, n_values = 3, 1, 3
    found = squared_apart(every_ballot(rule(n_values, levels, bound=2)))
    without_padding = 4 * n_values * unit_of(levels) ** 2
    as_printed = levels**2 * top_k  # (m sqrt(k))^2: but all coordinates vote, and not k of them
    blanked_only = 2**2  # once the norm: a ballot does not vanish, it becomes another
    for claim in (without_padding, as_printed, blanked_only):
        assert found > claim


def test_without_a_look_at_the_rounded_norm_the_bound_breaks(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The mutant: it bounds the norm before it rounds, and not after."""
    compressor = rule(64, 5, bound=usual_bound(64, 5))
    gradients = torch.randn(50, 64, generator=torch.Generator().manual_seed(0))
    away_from_zero = torch.where(rotate(gradients) > 0, 1 - 2**-24, 0.0)

    def longest() -> int:
        return int((compressor.ballots(gradients, away_from_zero) ** 2).sum(-1).max())

    assert longest() <= compressor.bound**2
    monkeypatch.setattr(d2pfed, "within", lambda ballots, bound: ballots)
    assert longest() > compressor.bound**2


@pytest.mark.parametrize("levels", [4, 9])
def test_decoded_votes_point_where_the_gradient_does(levels: int) -> None:
    """200,000 ballots: the mean is a multiple of the gradient, to 5 deviations."""
    gradient = torch.tensor([0.8, -0.2, 0.1, 0.05, 0.0, -0.6])
    compressor = rule(6, levels, bound=100)
    many = cast(compressor, gradient.expand(200_000, 6))
    mean = compressor.decode(many.sum(0, keepdim=True).numpy())[0] / 200_000
    scale = compressor.unit / rotate(gradient / 0.8).abs().max().item()
    error = 5 * compressor.step / np.sqrt(200_000)
    right = (gradient / 0.8).numpy() * scale
    assert np.abs(mean - right).max() < error
    not_back = many.double().mean(0).numpy()[:6]  # Algorithm 6 never rotates back: must be seen
    assert np.abs(not_back - right).max() > 10 * error


def test_the_usual_bound_is_seldom_exceeded_and_not_wide() -> None:
    """At most 1 in 1,000 of 5,000 ballots abstain; with a bound 5 % lower, after the same
    scaling, nearly all would have to."""
    chance = torch.Generator().manual_seed(3)
    gradients = torch.randn(5000, 784, generator=chance) * torch.rand(784, generator=chance) ** 4
    for levels in (5, 33):
        norms = (cast(rule(784, levels), gradients) ** 2).sum(-1).double().sqrt()
        assert (norms == 0).double().mean() <= 1e-3
        assert norms.max() <= usual_bound(784, levels) < 0.85 * unit_of(levels) * 32
    assert (norms > 0.95 * usual_bound(784, 33)).double().mean() > 0.9


def test_silence_stays_silent() -> None:
    for levels in (4, 5):
        nothing = torch.tensor([[0.0] * 6, [float("nan")] * 6])
        assert not cast(rule(6, levels), nothing).any()


def test_a_tally_is_the_sum_of_its_ballots() -> None:
    compressor = rule(6, 5)
    chance = torch.Generator().manual_seed(0)
    gradients = torch.randn(7, 3, 6, generator=chance)
    uniforms = torch.rand(7, 3, 8, generator=chance)
    tally = torch.zeros(3, compressor.width(6), dtype=torch.int64)
    compressor.cast(gradients, uniforms, into=tally)
    assert torch.equal(tally, compressor.ballots(gradients, uniforms).sum(0))
    assert padded(6) == compressor.dice == 8


@pytest.mark.parametrize(
    "bad",
    [{"levels": 1}, {"levels": 2**16}, {"bound": 1, "n_values": 784}, {"clip": float("nan")}],
)
def test_impossible_ones_are_refused(bad: dict[str, Any]) -> None:
    with pytest.raises(DataLensError):
        rule(**bad)
