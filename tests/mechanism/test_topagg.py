"""TopAgg: the tally of one image moves by at most 2 sqrt(k) when one teacher changes."""

import numpy as np
import pytest
import torch

from datalens.errors import DataLensError
from datalens.mechanism.ballots import BallotRule
from datalens.mechanism.noise import SeededNoise
from datalens.mechanism.topagg import TopAgg


def topagg(**changes: object) -> TopAgg:
    rule = BallotRule(top_k=4, clip=1.0)
    return TopAgg(**{"ballot": rule, "n_teachers": 10, "sigma": 3.0, "quorum": 0.3, **changes})  # type: ignore[arg-type]


def tally_of(gradients: torch.Tensor, mechanism: TopAgg) -> np.ndarray:
    n, m, _ = gradients.shape
    uniforms = torch.rand(
        (n, m, mechanism.ballot.top_k), generator=torch.Generator().manual_seed(0)
    )
    tally = mechanism.empty_tally(*gradients.shape[1:])
    mechanism.count(gradients, uniforms, into=tally)
    return tally.numpy()


def test_one_teacher_moves_each_image_by_at_most_the_sensitivity() -> None:
    mechanism = topagg()
    chance = torch.Generator().manual_seed(2)
    worst = 0
    for trial in range(200):
        gradients = torch.randn(10, 3, 9, generator=chance)
        before = tally_of(gradients, mechanism)
        gradients[trial % 10] = -gradients[trial % 10] * 100
        if trial % 3 == 0:
            gradients[trial % 10, :, ::2] = float("nan")
        moved = ((tally_of(gradients, mechanism) - before) ** 2).sum(axis=1)
        worst = max(worst, int(moved.max()))
    assert worst <= mechanism.event.squared_sensitivity == 16


def test_two_teachers_can_exceed_it() -> None:
    """The control: a record that reaches two teachers breaks the bound."""
    mechanism = topagg()
    gradients = torch.ones(10, 1, 9)
    before = tally_of(gradients, mechanism)
    gradients[:2] = -1.0
    moved = ((tally_of(gradients, mechanism) - before) ** 2).sum()
    assert moved > mechanism.event.squared_sensitivity


def test_the_price_follows_what_is_switched_on() -> None:
    assert topagg().event.squared_sensitivity == 4 * 4
    all_entries = topagg(ballot=BallotRule(top_k=9, clip=1.0))
    assert all_entries.event.squared_sensitivity == 4 * 9
    grid = topagg(ballot=BallotRule(top_k=4, clip=1.0, levels=64))
    assert grid.event.squared_sensitivity == 4 * 4 * 64**2
    assert grid.event.sigma == 3.0 * 64  # so the price of one release is the same
    assert topagg().event.squared_sensitivity_replace == 16


def test_direction_is_the_quorum_of_the_release() -> None:
    release = np.array([-9, -3, -2, 0, 2, 3, 50], dtype=np.int64)
    assert topagg().direction(release).tolist() == [-1, -1, 0, 0, 0, 1, 1]
    smooth = topagg(quorum=None).direction(release)
    assert smooth.tolist() == pytest.approx([-0.9, -0.3, -0.2, 0, 0.2, 0.3, 5.0])


def test_noise_is_in_the_units_of_the_tally() -> None:
    grid = topagg(ballot=BallotRule(top_k=4, clip=1.0, levels=64))
    for mechanism, sigma in ((topagg(), 3.0), (grid, 3.0 * 64)):
        noise = mechanism.draw((40, 50), noise=SeededNoise(b"s"), key="votes/0")
        assert noise.dtype == np.int64 and noise.shape == (40, 50)
        assert abs(noise.std() / sigma - 1) < 0.08


def test_a_unanimous_tally_is_counted_exactly() -> None:
    """The largest tally there can be: every teacher, every level, the same place."""
    rule = BallotRule(top_k=1, clip=1.0, levels=2**15 - 1)
    mechanism = topagg(ballot=rule, n_teachers=300)
    gradients = torch.zeros(300, 2, 9)
    gradients[:, :, 4] = 1.0
    tally = tally_of(gradients, mechanism)
    assert tally.dtype == np.int64
    assert tally[0].tolist() == [0, 0, 0, 0, 300 * (2**15 - 1), 0, 0, 0, 0]


def test_tallies_that_could_overflow_are_refused() -> None:
    for levels, teachers in ((2**15, 10), (2**14, 2**38)):
        with pytest.raises(DataLensError, match="overflow"):
            topagg(ballot=BallotRule(top_k=4, clip=1.0, levels=levels), n_teachers=teachers)


@pytest.mark.parametrize("bad", [{"sigma": 0.0}, {"sigma": float("nan")}, {"quorum": -1.0}])
def test_impossible_settings_are_refused(bad: dict[str, float]) -> None:
    with pytest.raises(DataLensError):
        topagg(**bad)
