"""Binned votes: how far one ballot moves the largest counts and the histograms of an image."""

from itertools import product

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from datalens.errors import DataLensError
from datalens.mechanism.bins import BinnedVotes, BinRule, VoteChecks, random_projections
from datalens.mechanism.noise import SeededNoise
from datalens.privacy.replan import sensitivities

RULE = BinRule(projected=2, bins=3, clip=1.0)
CHECKS = VoteChecks(projected=2, sigma=4.0, least=5.0)
VOTES = BinnedVotes(projected=2, sigma=2.0)
Counts = NDArray[np.int64]


def histograms(ballots: list[tuple[int, ...]], bins: int = 3) -> Counts:
    """Of one image, counted the slow way."""
    tally = np.zeros((1, len(ballots[0]), bins), dtype=np.int64)
    for ballot in ballots:
        for coordinate, chosen in enumerate(ballot):
            tally[0, coordinate, chosen] += 1
    return tally


def moves() -> tuple[int, int]:
    """The largest squared moves of maxima and histograms: all ballots of three teachers."""
    ballots = list(product(range(3), repeat=2))
    worst = [0, 0]
    for others in product(ballots, repeat=2):
        tallies = [histograms([*others, own]) for own in ballots]
        for one, two in product(tallies, repeat=2):
            seen = (one.max(axis=2) - two.max(axis=2), one - two)
            worst = [max(w, int((s**2).sum())) for w, s in zip(worst, seen, strict=True)]
    return worst[0], worst[1]


def test_one_ballot_moves_them_by_what_is_paid_for_and_no_less() -> None:
    """By trying all. A histogram taken to move by 1, not sqrt 2, would be too cheap."""
    maxima, counts = moves()
    assert maxima == CHECKS.event.squared_sensitivity == 2
    assert counts == VOTES.event.squared_sensitivity == 4
    naive = VOTES.projected * 1
    assert counts > naive


def test_the_verifier_derives_the_same() -> None:
    for mechanism in (CHECKS, VOTES):
        event = mechanism.event
        paid = event.squared_sensitivity, event.squared_sensitivity_replace
        assert sensitivities(event.what, {"projected": 2}) == paid


@settings(max_examples=60, deadline=None, derandomize=True)
@given(
    st.lists(st.floats(width=32), min_size=24, max_size=24),
    st.lists(st.floats(width=32), min_size=6, max_size=6),
)
def test_any_gradient_is_one_ballot(numbers: list[float], other: list[float]) -> None:
    """NaN, infinity and numbers that overflow when they are projected included."""
    gradients = torch.tensor(numbers).view(4, 1, 6)
    projection = torch.tensor([[[1.0, 2, 0, -1, 1, 0], [0, 1e30, 1, 0, -1, 1]]])
    before = tally_of(gradients, projection)
    assert before.sum(axis=2).tolist() == [[4, 4]]
    gradients[2, 0] = torch.tensor(other)
    moved = tally_of(gradients, projection) - before
    assert (moved**2).sum() <= VOTES.event.squared_sensitivity


def tally_of(gradients: torch.Tensor, projection: torch.Tensor, rule: BinRule = RULE) -> Counts:
    tally = rule.empty_tally(gradients.shape[1])
    rule.count(gradients, projection, into=tally)
    return tally.numpy()


def test_bins_divide_what_is_not_cut() -> None:
    rule = BinRule(projected=1, bins=4, clip=2.0)
    values = [-9.0, -2.0, -1.1, -0.9, -0.1, 0.1, 0.9, 1.1, 2.0, 9.0]
    gradients = torch.tensor(values)[:, None, None]
    votes = rule.vote(gradients, torch.ones(1, 1, 1)).flatten()
    assert votes.tolist() == [0, 0, 0, 1, 1, 2, 2, 3, 3, 3]
    assert rule.centres(np.arange(4)).tolist() == [-0.75, -0.25, 0.25, 0.75]


def test_each_image_has_a_projection_of_its_own() -> None:
    gradients = torch.ones(5, 2, 3)
    projection = torch.tensor([[[1.0, 1, 1], [-1, -1, -1]], [[-1, -1, -1], [1, 1, 1]]])
    tally = tally_of(gradients, projection)
    assert tally[0].tolist() == [[0, 0, 5], [5, 0, 0]]
    assert tally[1].tolist() == [[5, 0, 0], [0, 0, 5]]


@pytest.mark.parametrize("smooth", [0.0, 1.0])
def test_projections_are_of_unit_length_on_average_and_as_smooth_as_asked(smooth: float) -> None:
    images = torch.full((3, 1, 20, 20), 0.5)
    chance = torch.Generator().manual_seed(0)
    found = random_projections(images, 50, smooth=smooth, weigh_room=False, chance=chance)
    inside = found.view(3, 50, 20, 20)[..., 4:-4, 4:-4] * 50**0.5
    assert abs(inside.var().item() - 1) < 0.1
    neighbours = (inside[..., 1:] * inside[..., :-1]).mean().item()
    assert (neighbours > 0.6) is (smooth > 0)  # exp(-1/4) where smooth over one pixel, else 0
    assert abs(neighbours) < 0.1 or smooth > 0


def test_pixels_without_room_weigh_less() -> None:
    images = torch.tensor([0.0, 0.5, 1.0]).view(1, 1, 1, 3).expand(1, 1, 8, 3)
    found = random_projections(
        images, 99, smooth=0.0, weigh_room=True, chance=torch.Generator().manual_seed(0)
    )
    black, grey, white = found.view(99, 8, 3).std(dim=(0, 1)).tolist()
    assert grey > 4 * black and grey > 4 * white


def test_releases_are_what_they_say_under_noise_and_one_for_each_image() -> None:
    chance = np.random.default_rng(0)
    tally = chance.integers(0, 50, (400, 2, 3))
    assert (CHECKS.query(tally) == tally.max(axis=2)).all()
    for mechanism, value in ((CHECKS, CHECKS.query(tally)), (VOTES, tally)):
        assert mechanism.releases_in(value) == 400
        noise = mechanism.draw(value.shape, noise=SeededNoise(b"s"), key="x/0")
        deviation = noise.std() / mechanism.sigma
        assert noise.dtype == np.int64 and noise.shape == value.shape
        assert abs(deviation - 1) < 0.12  # 800 draws or more: beyond four deviations of it
        assert abs(deviation * np.sqrt(2) - 1) > 0.12  # at another sigma it would not pass


def test_only_coordinates_that_pass_are_answered_and_by_their_winner() -> None:
    assert CHECKS.passed(np.array([[4, 5], [6, -9]])).tolist() == [[False, True], [True, False]]
    assert VOTES.winners(np.array([[[1, 5, 2], [9, 0, -3]]])).tolist() == [[1, 0]]


@pytest.mark.parametrize("bad", [{"bins": 0}, {"clip": float("nan")}, {"projected": -1}])
def test_impossible_rules_are_refused(bad: dict[str, float]) -> None:
    with pytest.raises(DataLensError):
        BinRule(**{"projected": 2, "bins": 3, "clip": 1.0, **bad})  # type: ignore[arg-type]


def test_no_noise_is_refused() -> None:
    for mechanism in (
        VoteChecks(projected=1, sigma=0.0, least=1.0),
        BinnedVotes(projected=1, sigma=0.0),
    ):
        with pytest.raises(DataLensError):
            _ = mechanism.event
