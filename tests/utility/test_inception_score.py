"""Inception Score of probabilities whose score is known."""

import math

import numpy as np
import pytest

from datalens.utility.inception_score import inception_score


@pytest.mark.parametrize("classes", [2, 10])
def test_sure_and_even_is_the_number_of_classes(classes: int) -> None:
    assert inception_score(np.eye(classes)) == pytest.approx(classes)


def test_images_that_all_look_the_same_score_one() -> None:
    assert inception_score(np.tile([0.2, 0.3, 0.5], (7, 1))) == pytest.approx(1)


def test_sure_of_two_kinds_unevenly() -> None:
    """exp of the entropy of 1/4 and 3/4."""
    found = inception_score(np.array([[1.0, 0, 0], [0, 1.0, 0], [0, 1.0, 0], [0, 1.0, 0]]))
    assert found == pytest.approx(math.exp(-0.25 * math.log(0.25) - 0.75 * math.log(0.75)))


def test_any_probabilities_by_entropies() -> None:
    """The mean divergence is the entropy of the mean less the mean of the entropies."""
    rows = np.random.default_rng(0).dirichlet([0.3] * 5, 40)

    def entropy(p: np.ndarray) -> float:
        return -sum(x * math.log(x) for x in p if x > 0)

    gained = entropy(rows.mean(0)) - np.mean([entropy(row) for row in rows])
    assert inception_score(rows) == pytest.approx(math.exp(gained))
