"""DP-SGD with TopAgg: a slow loop, the bound, the noise, batches in pieces, and keep = 1."""

import math
from typing import Any

import numpy as np
import pytest
import torch
from opacus.optimizers import DPOptimizer
from scipy.stats import kstest
from torch import Tensor, nn

from datalens.classifiers import dpsgd, topagg
from datalens.classifiers.dpsgd import (
    ROUNDING,
    TOGETHER,
    PrivateOptimizer,
    with_example_gradients,
)
from datalens.classifiers.networks import SmallCnn
from datalens.classifiers.topagg import TopAggOptimizer, step_event
from datalens.errors import DataLensError
from datalens.mechanism.noise import FloatSecureNoise, SeededFloatNoise

SECRET = b"s" * 32
FEATURES, CLASSES = 30, 4


class NoNoise:
    """To see what lies beneath."""

    kind = "seeded"

    def add(self, values: np.ndarray, *, sigma: float, key: str) -> np.ndarray:
        return values


def network(width: int = 8) -> nn.Sequential:
    torch.manual_seed(3)
    return nn.Sequential(nn.Linear(FEATURES, width), nn.Tanh(), nn.Linear(width, CLASSES))


def examples(count: int, seed: int = 0) -> tuple[Tensor, Tensor]:
    chance = torch.Generator().manual_seed(seed)
    return torch.randn(count, FEATURES, generator=chance), torch.arange(count) % CLASSES


def settings(**changes: Any) -> dict[str, Any]:
    return {
        "noise": NoNoise(),
        "noise_multiplier": 1.0,
        "max_grad_norm": 1.0,
        "expected_batch_size": 4,
    } | changes


def topagg_on(model: nn.Module, keep: float, **changes: Any) -> TopAggOptimizer:
    inner = torch.optim.SGD(model.parameters(), lr=1.0)
    return TopAggOptimizer(inner, keep=keep, **settings(**changes))


def weights(model: nn.Module) -> Tensor:
    return torch.cat([p.detach().flatten().clone() for p in model.parameters()])


def go_back(watched: nn.Module, images: Tensor, labels: Tensor) -> None:
    nn.functional.cross_entropy(watched(images), labels, reduction="sum").backward()


def move_of(images: Tensor, labels: Tensor, keep: float, **changes: Any) -> Tensor:
    """What one step takes from the weights."""
    model = network()
    before = weights(model)
    go_back(with_example_gradients(model), images, labels)
    topagg_on(model, keep, **changes).step_on(len(images), key="a")
    return before - weights(model)


def one_by_one(images: Tensor, labels: Tensor) -> list[Tensor]:
    """The oracle of gradients: a backward pass for each example."""
    model, found = network(), []
    for image, label in zip(images, labels, strict=True):
        model.zero_grad()
        go_back(model, image[None], label[None])
        found.append(torch.cat([p.grad.flatten() for p in model.parameters()]))  # type: ignore[union-attr]
    return found


def algorithm_4(gradient: Tensor, keep: float, bound: float) -> Tensor:
    """The oracle of one example: clip it, and sort it."""
    clipped = gradient * min(1, bound / float(gradient.norm()))
    order = clipped.abs().argsort(descending=True)
    spent = clipped[order].double().square().cumsum(0)
    kept = torch.zeros_like(clipped)
    chosen = order[spent <= keep * spent[-1]]
    kept[chosen] = clipped[chosen]
    return kept


@pytest.mark.parametrize("keep", [0.2, 0.6, 0.8, 1.0])
@pytest.mark.parametrize("bound", [0.3, 1.5, 1e3])
def test_a_step_is_algorithm_4_without_its_noise(keep: float, bound: float) -> None:
    images, labels = examples(7)
    slow = one_by_one(images, labels)
    total = sum(algorithm_4(g, keep, bound * (1 - ROUNDING)) for g in slow) / 4
    found = move_of(images, labels, keep, max_grad_norm=bound)
    assert torch.allclose(found, total, rtol=1e-4, atol=1e-6)
    other = sum(algorithm_4(g, 0.7, bound * (1 - ROUNDING)) for g in slow) / 4
    assert not torch.allclose(found, other, rtol=1e-4, atol=1e-6)  # the comparison can tell


def test_more_examples_than_are_compressed_at_once() -> None:
    images, labels = examples(2 * TOGETHER + 5)
    slow = [algorithm_4(g, 0.8, 1 - ROUNDING) for g in one_by_one(images, labels)]
    found = move_of(images, labels, 0.8)
    assert torch.allclose(found, sum(slow) / 4, rtol=1e-3, atol=1e-5)
    assert not torch.allclose(found, sum(slow[:-1]) / 4, rtol=1e-3, atol=1e-5)


@pytest.mark.parametrize("keep", [0.8, 1.0])
def test_pieces_that_fit_the_cache_are_the_same_batch(
    keep: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    images, labels = examples(TOGETHER + 5)
    whole = move_of(images, labels, keep)
    monkeypatch.setattr(dpsgd, "IN_CACHE", 3 * sum(p.numel() for p in network().parameters()))
    assert torch.allclose(move_of(images, labels, keep), whole, atol=1e-5)
    monkeypatch.setattr(dpsgd, "IN_CACHE", 1)  # a model larger than the cache: one by one
    assert torch.allclose(move_of(images, labels, keep), whole, atol=1e-5)


@pytest.mark.parametrize("keep", [0.6, 1.0])
def test_the_cnn_of_classify_has_the_gradients_of_a_slow_loop(keep: float) -> None:
    chance = torch.Generator().manual_seed(2)
    images = torch.randint(0, 256, (5, 1, 28, 28), generator=chance, dtype=torch.uint8)
    labels = torch.arange(5)

    def cnn() -> SmallCnn:
        return SmallCnn((1, 28, 28), 10, stream=torch.Generator().manual_seed(3))

    slow = []
    for image, label in zip(images, labels, strict=True):
        model = cnn()
        go_back(model, image[None], label[None])
        slow.append(torch.cat([p.grad.flatten() for p in model.parameters()]))  # type: ignore[union-attr]
    cut = sorted(float(g.norm()) for g in slow)[2]  # some are cut, some not
    expected = sum(algorithm_4(g, keep, cut * (1 - ROUNDING)) for g in slow) / 4
    model = cnn()
    before = weights(model)
    go_back(with_example_gradients(model), images, labels)
    topagg_on(model, keep, max_grad_norm=cut).step_on(5, key="a")
    moved = before - weights(model)
    assert torch.allclose(moved, expected, rtol=1e-3, atol=1e-5)
    wrong = sum(algorithm_4(g, keep, 0.9 * cut) for g in slow) / 4
    assert not torch.allclose(moved, wrong, rtol=1e-3, atol=1e-5)


def test_keeping_all_is_the_dp_sgd_of_opacus() -> None:
    """Its own optimiser, at our bound and without noise, moves the weights alike."""
    images, labels = examples(9)
    model = network()
    before = weights(model)
    go_back(with_example_gradients(model), images, labels)
    theirs = DPOptimizer(
        torch.optim.SGD(model.parameters(), lr=1.0),
        noise_multiplier=0.0,
        max_grad_norm=1 - ROUNDING,
        expected_batch_size=4,
    )
    theirs.step()
    expected = before - weights(model)
    assert torch.allclose(move_of(images, labels, 1.0), expected, rtol=1e-5, atol=1e-7)
    assert not torch.allclose(move_of(images, labels, 0.99), expected, rtol=1e-3, atol=1e-5)


@pytest.mark.parametrize("noise", [SeededFloatNoise(SECRET), NoNoise()])
@pytest.mark.parametrize("variant", ["topagg", "dimensions", "full-noise"])
def test_keeping_all_is_dp_sgd_bit_for_bit(noise: Any, variant: Any) -> None:
    images, labels = examples(9)
    after = []
    for make in (
        lambda inner: PrivateOptimizer(inner, **settings(noise=noise)),
        lambda inner: TopAggOptimizer(inner, keep=1.0, variant=variant, **settings(noise=noise)),
        lambda inner: TopAggOptimizer(inner, keep=0.999, **settings(noise=noise)),
    ):
        model = network()
        watched = with_example_gradients(model)
        private = make(torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9))
        for step in range(3):
            go_back(watched, images, labels)
            private.step_on(9, key=f"dp-sgd/{step}")
        after.append(weights(model))
    assert torch.equal(after[0], after[1])
    assert not torch.equal(after[0], after[2])


def longest(rows: Tensor, keep: float, variant: Any = "topagg") -> float:
    """The norm of the longest that one row adds to a sum."""
    private = topagg_on(nn.Linear(1, 1), keep, variant=variant, max_grad_norm=0.5)
    return max(float(private._sum_of(row[None].clone()).double().norm()) for row in rows)


def hostile_rows() -> Tensor:
    """Ties, zeros, one that dominates, what is huge, tiny or not finite, and ordinary ones."""
    chance = torch.Generator().manual_seed(0)
    rows = [torch.randn(4000, generator=chance) ** power for power in (1, 3, 9)]
    rows += [torch.full((4000,), value) for value in (1.0, 1e-3, 1e30, 1e-30, 1e-45, 0.0)]
    rows += [torch.full((4000,), value) for value in (math.nan, math.inf)]
    lone = torch.zeros(4000)
    lone[7] = 100.0
    rows += [lone, lone + 1e-3, torch.arange(4000.0), torch.full((4000,), 3e38)]
    return torch.stack(rows)


@pytest.mark.parametrize("keep", [1e-3, 0.5, 0.8, 0.99])
def test_no_row_adds_more_than_the_bound(keep: float) -> None:
    rows = hostile_rows()
    assert 0.9 * math.sqrt(keep) * 0.5 < longest(rows, keep) <= math.sqrt(keep) * 0.5
    assert 0.49 < longest(rows, keep, "dimensions") <= 0.5


@pytest.mark.parametrize("keep", [0.8, 1.0])
def test_a_row_of_millions_adds_no_more_than_the_bound(keep: float) -> None:
    """Few large entries, and so many small ones that single precision would forget them."""
    row = torch.full((1, 4_000_000), 2.4e-4)
    row[0, :32] = 1.0
    assert longest(row, keep) <= math.sqrt(keep) * 0.5
    assert 0.95 * math.sqrt(keep) * 0.5 < longest(row, keep)
    plain = float((0.5 * row[0] / row.norm(dim=1)).double().norm())
    assert plain > 0.5 * (1 + ROUNDING)  # the control: a norm in single precision


def test_the_bound_is_enforced_where_compressing_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    """A NormTopK that keeps all: the bound holds. And one without the bound would be seen."""
    monkeypatch.setattr(topagg, "norm_topk", lambda gradients, keep: None)
    assert longest(hostile_rows(), 0.5) <= math.sqrt(0.5) * 0.5
    true = TopAggOptimizer.__init__

    def unbounded(self: TopAggOptimizer, *args: Any, **named: Any) -> None:
        true(self, *args, **named)
        self._bound = math.inf

    monkeypatch.setattr(TopAggOptimizer, "__init__", unbounded)
    assert longest(hostile_rows(), 0.5) > 1.4 * math.sqrt(0.5) * 0.5


def test_one_example_moves_a_step_by_no_more_than_the_bound() -> None:
    images, labels = examples(5)
    images[4] *= 1e6
    with_, without = (
        move_of(images[:n], labels[:n], 0.6, max_grad_norm=0.5, expected_batch_size=1)
        for n in (5, 4)
    )
    moved = float((with_ - without).norm())
    assert 0.9 * math.sqrt(0.6) * 0.5 < moved <= math.sqrt(0.6) * 0.5


@pytest.mark.parametrize("broken", [math.nan, math.inf, -math.inf])
@pytest.mark.parametrize("variant", ["topagg", "dimensions"])
def test_a_gradient_that_is_not_finite_adds_nothing(broken: float, variant: Any) -> None:
    images, labels = examples(5)
    images[2] = broken
    others = [0, 1, 3, 4]
    found, expected = (
        move_of(images[part], labels[part], 0.8, variant=variant)
        for part in ([0, 1, 2, 3, 4], others)
    )
    assert found.isfinite().all() and found.norm() > 0.1
    assert torch.allclose(found, expected, atol=1e-6)


ROOT = math.sqrt(0.64)
SIGMA = 1.5 * 2.0


@pytest.mark.parametrize("count", [0, 6])
@pytest.mark.parametrize(
    "variant, claimed, fits",
    [
        ("topagg", ROOT * SIGMA, True),
        ("topagg", SIGMA, False),  # the root forgotten
        ("topagg", ROOT**2 * SIGMA, False),  # the root taken twice
        ("topagg", 2 * ROOT * SIGMA, False),
        ("full-noise", SIGMA, True),
        ("full-noise", ROOT * SIGMA, False),
        ("dimensions", SIGMA, True),
        ("dimensions", ROOT * SIGMA, False),
    ],
)
def test_noise_is_the_multiplier_times_the_bound(
    count: int, variant: Any, claimed: float, fits: bool
) -> None:
    steps = []
    for noise in (NoNoise(), SeededFloatNoise(SECRET)):
        model = network(width=64)
        before = weights(model)
        watched = with_example_gradients(model)
        if count:
            go_back(watched, *examples(count))
        topagg_on(
            model,
            0.64,
            variant=variant,
            noise=noise,
            noise_multiplier=1.5,
            max_grad_norm=2.0,
            expected_batch_size=8,
        ).step_on(count, key="a")
        steps.append((before - weights(model)) * 8)
    p = kstest((steps[1] - steps[0]).numpy(), "norm", args=(0, claimed)).pvalue
    assert bool(p > 1e-3) is fits


def test_without_noise_nothing_is_added_and_nothing_can_be_certified() -> None:
    """Clipped SGD is the same with keep = 1. Both are NOT PRIVATE."""
    images, labels = examples(7)
    for keep in (0.8, 1.0):
        silent = move_of(images, labels, keep, variant="no-noise", noise=FloatSecureNoise())
        assert torch.equal(silent, move_of(images, labels, keep, variant="no-noise"))
        assert torch.allclose(silent, move_of(images, labels, keep), atol=1e-6)
    with pytest.raises(DataLensError, match="NOT PRIVATE"):
        step_event("no-noise", noise_multiplier=1.0, sampling_probability=0.1)
    for variant in ("topagg", "dimensions", "full-noise"):
        event = step_event(variant, noise_multiplier=1.5, sampling_probability=0.1)  # type: ignore[arg-type]
        assert (event.noise_multiplier, event.sampling_probability) == (1.5, 0.1)


@pytest.mark.parametrize("keep", [0.8, 1.0])
def test_a_batch_in_pieces_is_a_batch(keep: float) -> None:
    images, labels = examples(11)
    whole = move_of(images, labels, keep)
    model = network()
    before = weights(model)
    watched, private = with_example_gradients(model), topagg_on(model, keep)
    for piece in (slice(0, 4), slice(4, 5), slice(5, 11)):
        go_back(watched, images[piece], labels[piece])
        private.accumulate()
    private.step_on(0, key="a")
    assert torch.allclose(before - weights(model), whole, atol=1e-6)
    after = weights(model)
    private.step_on(0, key="b")
    assert torch.equal(weights(model), after)  # nothing is left over


def test_two_batches_before_a_step_are_refused() -> None:
    for keep in (0.8, 1.0):
        model = network()
        watched, private = with_example_gradients(model), topagg_on(model, keep)
        for _ in range(2):
            go_back(watched, *examples(3))
        with pytest.raises(DataLensError, match="Two batches"):
            private.step()


@pytest.mark.parametrize("keep", [0.0, -0.5, 1.2, math.nan])
def test_a_share_that_is_none_is_refused(keep: float) -> None:
    with pytest.raises(DataLensError, match="keep must be above 0"):
        topagg_on(network(), keep)


def test_an_unknown_variant_is_refused() -> None:
    with pytest.raises(DataLensError, match="full-noise"):
        topagg_on(network(), 0.8, variant="quiet")
