"""The count of real votes: one teacher moves it by one, whatever it says."""

from collections.abc import Callable

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from datalens.errors import DataLensError
from datalens.mechanism.events import GaussianRelease, LaplaceRelease
from datalens.mechanism.noise import ExactNoise, SeededNoise
from datalens.mechanism.real_votes import RealVotes

TEACHERS, IMAGES = 5, 3
ANY = st.floats(allow_nan=True, allow_infinity=True, width=32)
ROWS = st.lists(ANY, min_size=IMAGES, max_size=IMAGES)


def votes(shape: str = "gaussian", scale: float = 2.0, n_teachers: int = TEACHERS) -> RealVotes:
    return RealVotes(n_teachers=n_teachers, shape=shape, scale=scale)  # type: ignore[arg-type]


def moved(count: Callable[[torch.Tensor], np.ndarray], before: list, after: list) -> int:
    """How far the count of any image moves when the last teacher becomes another."""
    others = torch.tensor([[1.0, -1.0, 0.5]] * (TEACHERS - 1))
    one, two = (count(torch.cat([others, torch.tensor([row])])) for row in (before, after))
    return int(np.abs(one - two).max())


@settings(max_examples=200, deadline=None)
@given(before=ROWS, after=ROWS)
def test_one_teacher_moves_a_count_by_one_at_most(before: list, after: list) -> None:
    assert moved(votes().count, before, after) <= votes().event.squared_sensitivity ** 0.5  # type: ignore[union-attr]
    assert moved(votes("laplace").count, before, after) <= votes("laplace").event.sensitivity  # type: ignore[union-attr]


def both_ways(logits: torch.Tensor) -> np.ndarray:
    """A mutant: votes of -1 and +1 at the price of 0 and 1."""
    return torch.sign(logits.nan_to_num()).sum(0).numpy().astype(np.int64)


def how_sure(logits: torch.Tensor) -> np.ndarray:
    """A mutant: the logits themselves."""
    return logits.nan_to_num().clamp(-100, 100).sum(0).round().numpy().astype(np.int64)


@pytest.mark.parametrize("mutant", [both_ways, how_sure])
def test_votes_that_weigh_more_are_caught(mutant: Callable[[torch.Tensor], np.ndarray]) -> None:
    assert moved(mutant, [-50.0] * IMAGES, [50.0] * IMAGES) > 1


def test_the_price_is_of_one_image_and_every_image_is_paid() -> None:
    assert votes().event == GaussianRelease(
        what="real-votes", squared_sensitivity=1, squared_sensitivity_replace=1, sigma=2.0
    )
    assert votes("laplace").event == LaplaceRelease(
        what="real-votes", sensitivity=1, sensitivity_replace=1, scale=2.0
    )
    assert votes().releases_in(np.zeros(7, dtype=np.int64)) == 7


@pytest.mark.parametrize("noise", [ExactNoise(), SeededNoise(b"a")], ids=lambda n: n.kind)
def test_noise_has_the_shape_that_was_paid_for(noise: ExactNoise) -> None:
    """At one scale, Laplace noise has twice the variance of Gaussian noise; 9 errors apart."""
    zeros = np.zeros(4000, dtype=np.int64)
    gaussian, laplace = (
        votes(shape, 20.0).draw(zeros.shape, noise=noise, key="k").var()
        for shape in ("gaussian", "laplace")
    )
    assert 330 < gaussian < 470 and 640 < laplace < 1000


def test_what_is_made_of_a_release() -> None:
    release = np.array([-3, 5, 6, 10, 14])
    of_ten = votes(n_teachers=10)
    assert of_ten.majority(release).tolist() == [False, False, True, True, True]
    assert of_ten.share(release).tolist() == pytest.approx([-0.3, 0.5, 0.6, 1.0, 1.4])


@pytest.mark.parametrize("scale", [0.0, -1.0, float("nan"), float("inf"), 2.0**46])
def test_impossible_noise_is_refused(scale: float) -> None:
    with pytest.raises(DataLensError, match="scale"):
        votes(scale=scale)
