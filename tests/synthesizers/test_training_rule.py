"""How boldly to train: from public facts, and never against what was asked for."""

import itertools

import pytest

from datalens.classifiers.networks import NetworkName
from datalens.synthesizers.training_rule import LONGEST_WAY, Effort, effort_for

NETWORKS: tuple[NetworkName, ...] = ("cnn", "fixed-features")


def way(effort: Effort) -> float:
    """Sum of all learning rates, in clipped gradients."""
    return effort.learning_rate * effort.max_grad_norm * effort.steps / 2


@pytest.mark.parametrize("network", NETWORKS)
def test_more_records_or_budget_go_further_until_more_would_not_help(network: NetworkName) -> None:
    efforts = [effort_for(network, epsilon=e, n_records=60_000) for e in (0.05, 0.2, 1, 3, 10, 100)]
    ways = [way(each) for each in efforts]
    assert all(b > 0.99 * a for a, b in itertools.pairwise(ways))  # rates are rounded
    assert ways[0] < ways[2] / 4
    assert ways[-1] == pytest.approx(LONGEST_WAY[network], rel=0.01)
    for smaller, larger in itertools.pairwise(efforts):
        assert smaller.steps <= larger.steps
        assert smaller.max_grad_norm <= larger.max_grad_norm


def test_the_clip_grows_where_noise_is_small_and_only_for_the_cnn() -> None:
    clips = [
        effort_for("cnn", epsilon=e, n_records=60_000).max_grad_norm for e in (0.1, 1, 10, 100)
    ]
    assert clips[:2] == [1.0, 1.0]
    assert 3.9 < clips[2] < clips[3] == 4.0
    assert effort_for("fixed-features", epsilon=100, n_records=60_000).max_grad_norm == 1.0


@pytest.mark.parametrize("network", NETWORKS)
def test_what_is_asked_for_is_taken(network: NetworkName) -> None:
    asked = effort_for(
        network,
        epsilon=10,
        n_records=60_000,
        batch_size=7,
        steps=11,
        max_grad_norm=0.3,
        learning_rate=0.2,
    )
    assert asked == Effort(batch_size=7, steps=11, max_grad_norm=0.3, learning_rate=0.2)
    by_epochs = effort_for(network, epsilon=10, n_records=600, batch_size=30, epochs=2.5)
    assert by_epochs.steps == 50
