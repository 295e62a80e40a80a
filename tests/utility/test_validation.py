"""A noisy accuracy is charged before it is drawn, costs what it says, and is as noisy."""

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.stats import chisquare, dlaplace

from datalens.data import Records, load
from datalens.errors import DataLensError
from datalens.mechanism.noise import ExactNoise, Integers
from datalens.mechanism.right_answers import RightAnswers
from datalens.privacy.ledger import Ledger, OverTheCap, ledger_path
from datalens.privacy.verify import verify
from datalens.utility.validation import PublicClassifier, Validation, within

from ..privacy.spender import Watched


def constant(answer: int = 3) -> PublicClassifier:
    """A classifier that always says the same: its accuracy is known."""
    return PublicClassifier(
        predict=lambda images: np.full(len(images), answer),
        weights={"answer": np.array([answer], dtype=np.float32)},
    )


@pytest.fixture(scope="module")
def held_out() -> Records:
    return load("digits", split="test")


def bought(records: Records, *, epsilon: float = 1.0, ledger: str = "held-out") -> Validation:
    return Validation(constant, epsilon=epsilon).fit(records, ledger=ledger)


@pytest.mark.parametrize("epsilon", [0.01, 0.3, 1.0, 8.0])
def test_the_price_is_that_of_the_noises_own_probabilities(
    held_out: Records, epsilon: float
) -> None:
    """Two counts that differ by one: the largest loss, and delta, summed over all outcomes."""
    found = bought(held_out, epsilon=epsilon)
    (charge,) = Ledger(ledger_path("held-out")).standing().spent
    scale, certificate = charge.event.scale, found.certificate
    outcomes = np.arange(-math.ceil(60 * scale), math.ceil(60 * scale) + 1)
    one, other = (dlaplace.logpmf(outcomes - at, 1 / scale) for at in (0, 1))
    assert np.abs(one - other).max() == pytest.approx(1 / scale) and 1 / scale <= epsilon
    assert 1 / scale == pytest.approx(epsilon, rel=1e-3)  # and nothing is wasted
    claimed = certificate["epsilon"]["certified"]
    assert claimed <= epsilon
    over = np.maximum(0, np.exp(one) - np.exp(claimed + other)).sum()
    assert over <= certificate["delta"]
    less = np.maximum(0, np.exp(one) - np.exp(0.9 * claimed + other)).sum()
    assert less > certificate["delta"]  # 90 % of it would not be true
    assert certificate["epsilon_replace"] == claimed


def test_it_is_certified_and_anyone_can_check_that(held_out: Records, tmp_path: Path) -> None:
    found = bought(held_out)
    found.save(tmp_path / "bought")
    assert verify(tmp_path / "bought", ledger=ledger_path("held-out")) == []
    certificate = json.loads((tmp_path / "bought/certificate.json").read_text())
    assert certificate["private"] and certificate["releases"] == 1
    assert certificate["facts"]["right_answers"] == found.right
    assert found.accuracy == found.right / 397
    low, high = found.interval
    assert 0 <= low <= high <= 1
    for change in ({"epsilon": {"certified": 0.5, "paper": 1.0}}, {"releases": 0}):
        altered = certificate | change
        (tmp_path / "bought/certificate.json").write_text(json.dumps(altered))
        assert verify(tmp_path / "bought")


def test_a_count_that_is_not_charged_is_caught(
    held_out: Records, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The naive way: look, add noise, and tell the ledger nothing."""
    monkeypatch.setattr(Ledger, "spend", lambda *given, **named: None)
    found = bought(held_out)
    found.save(tmp_path / "naive")
    wrong = verify(tmp_path / "naive")
    assert any("fewer right-answers" in sentence for sentence in wrong)


def test_the_charge_comes_before_the_release(
    held_out: Records, monkeypatch: pytest.MonkeyPatch
) -> None:
    charged = []
    real = ExactNoise.draw_laplace

    def used(value: Integers) -> None:
        charged.append(len(Ledger(ledger_path("held-out")).standing().spent))

    def watched(self: ExactNoise, *given: Any, **named: Any) -> Any:
        return Watched.of(real(self, *given, **named), used)

    monkeypatch.setattr(ExactNoise, "draw_laplace", watched)
    bought(held_out)
    assert charged == [1]


def test_what_the_cap_does_not_allow_is_refused_and_costs_nothing(held_out: Records) -> None:
    ledger, taught = Ledger(ledger_path("held-out")), []

    def teach() -> PublicClassifier:
        taught.append(1)
        return constant()

    ledger.set_cap(2.5, 1e-5)
    bought(held_out)
    with pytest.raises(OverTheCap, match=r"cap of epsilon 2\.5"):
        Validation(teach, epsilon=2.0).fit(held_out, ledger="held-out")
    assert not taught and len(ledger.standing().spent) == 1
    bought(held_out, epsilon=0.1)  # what is left may still be spent


def test_a_judge_that_fails_costs_nothing(held_out: Records) -> None:
    def broken() -> PublicClassifier:
        raise DataLensError("the images are of another size.")

    with pytest.raises(DataLensError, match="another size"):
        Validation(broken, epsilon=1.0).fit(held_out, ledger="held-out")
    standing = Ledger(ledger_path("held-out")).standing()
    assert standing.spent == [] and standing.committed == []


@pytest.mark.parametrize("claimed, fits", [(2.0, True), (1.5, False), (2.7, False)])
def test_the_noise_is_what_is_paid_for(claimed: float, fits: bool) -> None:
    """Counts of one value, against the probabilities of a scale; one in a million refused."""
    drawn = RightAnswers(scale=2.0).draw((3000,), noise=ExactNoise(), key="right-answers")
    edges = np.arange(-6, 7)
    seen = [(drawn <= -7).sum(), *((drawn == e).sum() for e in edges), (drawn >= 7).sum()]
    law = dlaplace(1 / claimed)
    expected = np.array([law.cdf(-7), *law.pmf(edges), law.sf(6)]) * len(drawn)
    found = chisquare(seen, expected * (len(drawn) / expected.sum()))
    assert bool(found.pvalue > 1e-6) is fits


@pytest.mark.parametrize("scale", [0.05, 0.7, 3.0, 40.0])
def test_the_interval_holds_what_it_says(scale: float) -> None:
    law, reach = dlaplace(1 / scale), within(scale)
    assert law.cdf(reach) - law.cdf(-reach - 1) >= 0.95
    if reach > 0:
        assert law.cdf(reach - 1) - law.cdf(-reach) < 0.95


def test_a_record_moves_the_count_by_at_most_one() -> None:
    chance = np.random.default_rng(0)
    said, labels = chance.integers(0, 3, 50), chance.integers(0, 3, 50)
    mechanism = RightAnswers(scale=1.0)
    whole = mechanism.count(said, labels)
    assert whole.tolist() == [sum(int(a == b) for a, b in zip(said, labels, strict=True))]
    for i in range(50):
        for other in range(3):
            changed = labels.copy()
            changed[i] = other
            assert abs(int(mechanism.count(said, changed)[0] - whole[0])) <= 1


@pytest.mark.parametrize("epsilon", [0.0, -1.0, math.nan, math.inf])
def test_a_budget_must_be_one(epsilon: float) -> None:
    with pytest.raises(DataLensError, match="epsilon"):
        Validation(constant, epsilon=epsilon)
