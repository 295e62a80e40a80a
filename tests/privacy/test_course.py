"""How a run's cost grew and what it went to, against closed forms and sums by hand."""

import pytest

from datalens.mechanism.events import GaussianRelease, LaplaceRelease, SampledGaussianRelease
from datalens.privacy import recompute
from datalens.privacy.accountants import AccountantName, Charge
from datalens.privacy.course import course, first, shares

SUMS = GaussianRelease(
    what="class-sums", squared_sensitivity=9, squared_sensitivity_replace=36, sigma=6.0
)
VOTES = GaussianRelease(
    what="votes", squared_sensitivity=8, squared_sensitivity_replace=8, sigma=40.0
)
STEPS = SampledGaussianRelease(what="dp-sgd", sampling_probability=0.05, noise_multiplier=1.1)
COUNTS = LaplaceRelease(what="real-votes", sensitivity=1, sensitivity_replace=1, scale=9.0)

GAUSSIAN = [Charge(event=SUMS, count=1), *[Charge(event=VOTES, count=10)] * 12]
MIXED = [Charge(event=SUMS, count=2), Charge(event=STEPS, count=200), Charge(event=COUNTS, count=5)]
DELTA = 1e-5


def again(charges: list[Charge], accountant: str) -> float:
    """The verifier's arithmetic, which shares nothing with the accountants."""
    told = [charge.to_json() for charge in charges]
    if not told:
        return 0.0
    if accountant == "gaussian":
        return recompute.gaussian(recompute.rho(told, "squared_sensitivity"), DELTA)
    largest = recompute.largest_order(told)
    convert = {"certified": recompute.certified, "paper": recompute.paper}[accountant]
    return convert(recompute.curve(told), DELTA, largest=largest)


@pytest.mark.parametrize("accountant", ["certified", "paper", "gaussian"])
def test_the_curve_is_that_of_closed_forms(accountant: AccountantName) -> None:
    found = course(GAUSSIAN, DELTA, accountant)
    assert found.releases[0] == 0 and found.releases[-1] == 121 and 1 in found.releases
    assert list(found.releases) == sorted(set(found.releases))
    for releases, epsilon in zip(found.releases, found.epsilon, strict=True):
        votes = max(releases - 1, 0)
        bought = [Charge(event=SUMS, count=1)] * (releases > 0) + [Charge(event=VOTES, count=votes)]
        right = again(bought if releases else [], accountant)
        assert epsilon == pytest.approx(right, rel=1e-3, abs=1e-9)
    assert list(found.epsilon) == sorted(found.epsilon)


@pytest.mark.parametrize("accountant", ["certified", "paper"])
def test_the_curve_of_sampled_steps(accountant: AccountantName) -> None:
    found = course(MIXED, DELTA, accountant)
    assert {0, 2, 202, 207} <= set(found.releases)
    for place in (2, found.releases[9], 207):
        epsilon = found.epsilon[found.releases.index(place)]
        # closed forms may use any order and a tighter bound of Laplace noise: they are below
        right = again(first(MIXED, place), accountant)
        assert right * (1 - 1e-6) <= epsilon <= 1.03 * right


def test_the_first_releases() -> None:
    assert first(GAUSSIAN, 0) == []
    assert first(GAUSSIAN, 11) == GAUSSIAN[:2]
    assert first(GAUSSIAN, 14)[-1] == Charge(event=VOTES, count=3)
    assert first(GAUSSIAN, 10**6) == GAUSSIAN


def test_shares_of_gaussian_releases_are_shares_of_rho() -> None:
    found = {share.what: share for share in shares(GAUSSIAN, DELTA)}
    sums, votes = 9 / (2 * 36), 120 * 8 / (2 * 1600)
    assert found["class-sums"].share == pytest.approx(sums / (sums + votes))
    assert found["votes"].share == pytest.approx(votes / (sums + votes))
    assert (found["class-sums"].releases, found["votes"].releases) == (1, 120)


def test_shares_of_anything_add_up() -> None:
    found = shares(MIXED, DELTA)
    assert [share.what for share in found] == ["class-sums", "dp-sgd", "real-votes"]
    assert sum(share.share for share in found) == pytest.approx(1)
    assert [share.releases for share in found] == [2, 200, 5]
    alone = {share.what: shares([c], DELTA)[0].share for share, c in zip(found, MIXED, strict=True)}
    assert set(alone.values()) == {1.0}
    # one more of a kind costs that kind, and takes from the others' shares
    more = shares([*MIXED, Charge(event=COUNTS, count=50)], DELTA)
    assert more[2].share > found[2].share and more[0].share < found[0].share
