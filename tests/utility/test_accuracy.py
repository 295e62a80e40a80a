"""A battery of classifiers: each finds what is there, and its figures add up."""

import math

import numpy as np
import pytest
from sklearn.metrics import confusion_matrix

from datalens.classifiers.simple import coarse, simple_predictions, subset
from datalens.data import Records, load
from datalens.errors import DataLensError
from datalens.utility.accuracy import CLASSIFIERS, judged_accuracy
from datalens.utility.domain import DomainClassifier


@pytest.fixture(scope="module")
def digits() -> tuple[Records, Records]:
    return load("digits"), load("digits", split="test")


@pytest.mark.parametrize("name", ["logistic-regression", "random-forest"])
def test_simple_classifiers_learn_and_shuffled_labels_teach_nothing(
    name: str, digits: tuple[Records, Records]
) -> None:
    train, test = digits
    found = judged_accuracy(train.images, train.labels, test, classifier=name, seeds=[0, 1])
    assert found.accuracy > 0.85 and found.accuracy_best_on_test is None
    by_chance = name == "random-forest"
    assert len(found.seeds) == len(found.per_seed) == 1 + by_chance
    assert (found.accuracy_spread is not None) is by_chance
    mixed = np.random.default_rng(0).permutation(train.labels)
    assert judged_accuracy(train.images, mixed, test, classifier=name).accuracy < 0.3


def test_the_figures_of_several_seeds_by_scikit_learn(digits: tuple[Records, Records]) -> None:
    train, test = digits
    found = judged_accuracy(
        train.images, train.labels, test, classifier="random-forest", seeds=[3, 4]
    )
    said = [
        simple_predictions("random-forest", train.images, train.labels, test.images, seed=seed)
        for seed in (3, 4)
    ]
    expected = sum(confusion_matrix(test.labels, each) for each in said)
    assert np.array_equal(found.confusion, expected)
    shares = [np.mean(each == test.labels) for each in said]
    assert found.per_seed == pytest.approx(shares) and shares[0] != shares[1]
    assert found.accuracy == pytest.approx(np.mean(shares))
    assert found.accuracy_spread == pytest.approx(np.std(shares, ddof=1))
    rows = expected.diagonal() / expected.sum(1)
    assert list(found.per_class.values()) == pytest.approx(list(rows))
    assert found.training_images == 1400 and found.test_images == 397


def test_a_class_without_test_images_has_no_accuracy(digits: tuple[Records, Records]) -> None:
    train, test = digits
    kept = np.flatnonzero(test.labels != 4)
    found = judged_accuracy(
        train.images, train.labels, test.only(kept), classifier="logistic-regression"
    )
    assert math.isnan(found.per_class["4"]) and found.to_json()["per_class"]["4"] is None


def test_images_of_one_class_only_make_a_classifier_that_says_so(
    digits: tuple[Records, Records],
) -> None:
    train, _ = digits
    images, labels = train.images[:20], np.full(20, 7)
    said = simple_predictions("logistic-regression", images, labels, train.images, seed=0)
    assert set(said) == {7}


@pytest.mark.parametrize(
    "shape, seen", [((1, 8, 8), 64), ((1, 28, 28), 196), ((3, 64, 64), 768), ((1, 33, 20), 66)]
)
def test_few_pixels_are_averages_of_many(shape: tuple[int, int, int], seen: int) -> None:
    images = np.random.default_rng(0).integers(0, 256, (3, *shape)).astype(np.uint8)
    found = coarse(images)
    assert found.shape == (3, seen) and seen <= 16 * 16 * shape[0]
    side = -(-max(shape[1:]) // 16)
    assert found[0, 0] == pytest.approx(images[0, 0, :side, :side].mean() / 255)
    assert found[-1, -1] == pytest.approx(
        images[-1, -1][: shape[1] // side * side, : shape[2] // side * side][-side:, -side:].mean()
        / 255
    )


def test_a_subset_is_drawn_without_repetition_by_its_seed() -> None:
    assert subset(5, 9, 0).tolist() == [0, 1, 2, 3, 4]
    first, other = subset(1000, 100, 0), subset(1000, 100, 1)
    assert len(set(first)) == 100 and (np.diff(first) > 0).all()
    assert set(first) != set(other) and first.tolist() == subset(1000, 100, 0).tolist()


def test_images_that_do_not_fit_are_refused_by_each(digits: tuple[Records, Records]) -> None:
    train, test = digits
    for name in CLASSIFIERS:
        with pytest.raises(DataLensError, match="synthetic images are"):
            judged_accuracy(train.images[:, :, 1:], train.labels, test, classifier=name)
        with pytest.raises(DataLensError, match="labels go up to 10"):
            judged_accuracy(train.images, train.labels + 1, test, classifier=name)


def test_a_domain_classifier_survives_its_file(digits: tuple[Records, Records]) -> None:
    train, test = digits
    some = train.only(np.arange(200))
    first = DomainClassifier.learn(some)
    second = DomainClassifier.from_bytes(first.to_bytes(), some)
    assert np.array_equal(first.features(test.images), second.features(test.images))
    assert first.features(test.images).shape == (397, 64)
    shares = first.probabilities(test.images)
    assert shares.sum(1) == pytest.approx(np.ones(397))
    assert np.mean(shares.argmax(1) == test.labels) == first.tested(test).accuracy
    assert first.tested(test).learned_from == 200


def test_seeds_count_where_they_draw_the_images(
    digits: tuple[Records, Records], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("datalens.utility.accuracy.MOST_IMAGES", 200)
    train, test = digits
    found = judged_accuracy(
        train.images, train.labels, test, classifier="logistic-regression", seeds=[0, 1]
    )
    assert found.per_seed[0] != found.per_seed[1] and found.accuracy_spread
