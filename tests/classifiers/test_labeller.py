"""The bought labeller: each record counts for itself, the price is kept, and it learns."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from datalens.classifiers.features import BOUND, features, n_features
from datalens.classifiers.labeller import MOST_STEPS, RESIDUALS, Labeller, LabellerPlan, steps_borne
from datalens.data import PublicFacts, Records, load
from datalens.mechanism.noise import ExactNoise, Integers
from datalens.privacy.accountants import epsilon, total_rho
from datalens.privacy.calibration import budget_rho
from datalens.privacy.ledger import Ledger
from datalens.privacy.releases import Releases


@pytest.mark.parametrize("shape", [(1, 8, 8), (3, 13, 9), (3, 64, 64), (1, 28, 28)])
@pytest.mark.parametrize("kind", ["noise", "black", "white", "stripes"])
def test_features_are_bounded_and_of_their_own_image_alone(
    shape: tuple[int, int, int], kind: str
) -> None:
    images = np.random.default_rng(0).integers(0, 256, (6, *shape), dtype=np.uint8)
    if kind in ("black", "white"):
        images[:] = 0 if kind == "black" else 255
    elif kind == "stripes":
        images[..., ::2] = 0
    found = features(images)
    assert found.shape == (6, n_features(shape[0])) and found.dtype == np.int16
    assert (found.astype(np.int64) ** 2).sum(axis=1).max() <= BOUND**2
    images[3] = 255 - images[3]
    changed = (features(images) != found).any(axis=1)
    assert not changed[[0, 1, 2, 4, 5]].any()


def test_features_tell_directions_apart() -> None:
    across = np.zeros((1, 1, 16, 16), dtype=np.uint8)
    across[..., ::4] = 255
    down = across.transpose(0, 1, 3, 2)
    a, b, c = (features(x).astype(float)[0] for x in (across, down, np.roll(across, 1, axis=-1)))
    assert a @ c > 1.5 * (a @ b)


def test_features_tell_colours_apart_but_not_greys() -> None:
    """What a grey image is like is its shapes; of colours also which they are."""

    def likeness(one: np.ndarray, other: np.ndarray) -> float:
        a, b = (features(x[None]).astype(float)[0] / BOUND for x in (one, other))
        return float(a @ b)

    face = np.random.default_rng(0).integers(80, 120, (3, 64, 64), dtype=np.uint8)
    lighter = face + 60
    redder = face.copy()
    redder[0] += 120
    assert likeness(face[:1], lighter[:1]) > 0.99
    assert likeness(face, lighter) < likeness(face, face) - 0.05
    assert likeness(face, redder) < likeness(face, face) - 0.05


def test_residuals_are_bounded_whatever_the_weights() -> None:
    chance = np.random.default_rng(0)
    x = features(chance.integers(0, 256, (50, 1, 8, 8), dtype=np.uint8))
    for size in (0.0, 1.0, 1e6):
        labeller = Labeller(weights=size * chance.normal(size=(x.shape[1], 4)))
        found = labeller.residuals(x, np.arange(50) % 4).astype(np.int64)
        assert (found**2).sum(axis=1).max() <= RESIDUALS**2


@pytest.mark.parametrize("eps", [0.1, 1.0, 10.0])
def test_a_plan_keeps_to_its_budget(eps: float) -> None:
    public = load("digits").public
    rho = budget_rho(eps, 1e-5)
    plan = LabellerPlan.within(rho, public=public)
    assert 0.999 * rho < total_rho(plan.charges) <= rho
    assert epsilon(plan.charges, 1e-5) <= eps


class Plain:
    """A door without noise or price."""

    def obtain(
        self, key: str, mechanism: object, query: Callable[[], Integers], *, shape: object = None
    ) -> Integers:
        return query()


def test_where_noise_would_drown_it_there_is_none() -> None:
    def facts(n: int) -> PublicFacts:
        return PublicFacts(name="x", n_records=n, shape=(1, 28, 28), class_names=("a", "b"))

    borne = [steps_borne(0.01, facts(n)) for n in (1000, 20_000, 60_000, 600_000)]
    assert borne[0] == 0 < borne[1] < borne[2] < borne[3] == MOST_STEPS
    assert steps_borne(1e-9, facts(60_000)) == 0


def test_it_learns_what_labels_mean() -> None:
    """The control: from labels that mean nothing it learns nothing."""
    train, test = load("digits"), load("digits", split="test")
    mixed = np.random.default_rng(0).permutation(train.labels)
    for labels, learns in ((train.labels, True), (mixed, False)):
        records = Records.from_arrays(train.images, labels, n_classes=10)
        plan = LabellerPlan.within(1.0, public=records.public)
        bought = plan.buy(records, Plain())  # type: ignore[arg-type]
        right = float((bought.label(test.images, test.labels, weight=0.0) == test.labels).mean())
        assert (right > 0.85) if learns else (right < 0.4)


def test_it_is_bought_through_the_ledger(tmp_path: Path) -> None:
    train = load("digits")
    small = Records.from_arrays(train.images[:100], train.labels[:100], n_classes=10)
    plan = LabellerPlan.within(1.0, public=small.public)
    ledger = Ledger(tmp_path / "ledger.sqlite")
    ledger.reserve("run", plan.charges, facts={})
    door = Releases(ledger=ledger, run="run", noise=ExactNoise(), folder=tmp_path / "releases")
    first = plan.buy(small, door)
    assert sum(charge.count for charge in ledger.charges("run")) == plan.steps
    blank = Records.from_arrays(np.zeros_like(small.images), np.zeros(100, dtype=int), n_classes=10)
    again = plan.buy(blank, door)  # the releases are all that counts
    assert np.array_equal(first.weights, again.weights)
