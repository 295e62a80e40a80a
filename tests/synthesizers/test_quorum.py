"""Shares of false and missed directions against votes that are really counted under noise."""

import numpy as np
import pytest

from datalens.mechanism.ballots import BallotRule
from datalens.mechanism.topagg import TopAgg
from datalens.planning.theory import weibull_taus
from datalens.synthesizers.quorum import Directions, agreement, directions, tally_signal

D, K, N, DRAWS = 400, 60, 500, 400


def topagg(sigma: float, quorum: float | None, k: int = K) -> TopAgg:
    return TopAgg(ballot=BallotRule(top_k=k, clip=1.0), n_teachers=N, sigma=sigma, quorum=quorum)


def counted(mechanism: TopAgg, agreed: float, seed: int) -> Directions:
    """K entries with a tally of agreed * N, the others with none, through TopAgg.direction."""
    rng = np.random.default_rng(seed)
    tally = np.zeros((DRAWS, D), dtype=np.int64)
    tally[:, :K] = round(agreed * N)
    noise = np.rint(rng.normal(0, mechanism.sigma, tally.shape)).astype(np.int64)
    passed = mechanism.direction(tally + noise)
    ours, others = passed[:, :K], passed[:, K:]
    return Directions(
        right=float((ours > 0).mean()),
        wrong=float((ours < 0).mean()),
        chance=float((others != 0).mean()),
        named=K / D,
    )


@pytest.mark.parametrize(
    "sigma, quorum, agreed", [(100, 0.4, 0.2), (250, 0.7, 0.5), (60, 0.1, 0.3)]
)
def test_shares_are_those_that_are_counted(sigma: float, quorum: float, agreed: float) -> None:
    mechanism = topagg(sigma, quorum)
    told = directions(mechanism, n_values=D, agreed=agreed)
    seen = counted(mechanism, agreed, seed=1)
    # 24,000 entries or more: three standard errors are below 0.01, and a count is rounded.
    assert told.false == pytest.approx(seen.false, abs=0.015)
    assert told.missed == pytest.approx(seen.missed, abs=0.015)
    assert told.wrong == pytest.approx(seen.wrong, abs=0.015)
    other = directions(topagg(1.4 * sigma, quorum), n_values=D, agreed=agreed)
    off = max(abs(other.false - seen.false), abs(other.missed - seen.missed))
    assert off > 0.03  # at another sigma it would not fit


def test_ends_of_the_scale() -> None:
    silent = directions(topagg(1e-3, 0.5), n_values=D, agreed=0.9)
    assert (silent.false, silent.missed) == (0.0, 0.0)
    deaf = directions(topagg(1e-3, 0.5), n_values=D, agreed=0.1)
    assert (deaf.passed, deaf.false, deaf.missed) == (0.0, 0.0, 1.0)
    drowned = directions(topagg(1e6, 0.5), n_values=D, agreed=0.9)
    assert drowned.false == pytest.approx(1 - K / D / 2, abs=1e-2)  # half of ours pass by chance


@pytest.mark.parametrize("quorum", [None, 0.3])
def test_kept_is_what_averaging_directions_keeps(quorum: float | None) -> None:
    """Average the directions of many releases: which share of the average's energy is the mean?"""
    mechanism, agreed, releases = topagg(400, quorum), 0.3, 40
    rng = np.random.default_rng(2)
    tally = np.zeros((200, releases, D), dtype=np.int64)
    tally[..., :K] = round(agreed * N)
    found = mechanism.direction(
        tally + np.rint(rng.normal(0, mechanism.sigma, tally.shape)).astype(np.int64)
    ).mean(axis=1)
    signal = (found.mean(axis=0) ** 2)[:K].sum()
    share = signal / (found**2).sum(axis=1).mean()
    told = {
        classes: tally_signal(
            mechanism, n_values=D, n_classes=classes, agreed=agreed, releases=releases
        ).kept
        for classes in (1, 2)
    }
    assert told[1] == pytest.approx(share, rel=0.03)
    assert told[2] < 0.9 * share  # each of two classes would get half of the releases


def test_agreement_is_that_of_the_ballots_of_the_model() -> None:
    """Teachers whose gradients are Weibull and as alike as said, voting as BallotRule does."""
    import torch

    shard, d, k, teachers = 400, 784, 49, 40
    rng = np.random.default_rng(3)
    likeness = 0.0225 * shard**0.5
    sizes = rng.weibull(1.5, (60, 1, d))
    common = rng.choice([-1, 1], (60, 1, d))
    # Same sizes, and a sign that is the common one so often that the correlation is `likeness`.
    signs = np.where(rng.uniform(size=(60, teachers, d)) < (1 + likeness**0.5) / 2, common, -common)
    gradients = torch.from_numpy(sizes * signs)
    rule = BallotRule(top_k=k, clip=1.0)
    dice = torch.from_numpy(rng.uniform(size=(60, teachers, k)))
    places, votes = rule.vote(gradients, dice)
    tally = torch.zeros(60, d, dtype=torch.int64)
    tally.scatter_add_(1, places.flatten(1), votes.flatten(1).long())
    pairs = (tally**2).sum(1).double() - teachers * k
    seen = float((pairs / (teachers * (teachers - 1) * k)).mean()) ** 0.5
    assert agreement(k, d, shard) == pytest.approx(seen, rel=0.1)
    assert agreement(4 * k, d, shard) < 0.9 * seen  # the larger k, the more there is to disagree on


def test_agreement_has_the_taus_of_the_weibull_model() -> None:
    ratio = (agreement(49, 784, 20) / agreement(784, 784, 20)) ** 2
    assert ratio == pytest.approx((1 - weibull_taus(784, 1.5)[48] ** 2) * 784 / 49)
    assert agreement(784, 784, 10**9) <= 1
