"""DP-SGD: each example's gradient against a slow loop, clipping, noise, and who takes part."""

import math

import numpy as np
import pytest
import torch
from scipy.stats import binom, chi2, kstest
from torch import Tensor, nn

from datalens.classifiers.dpsgd import (
    ROUNDING,
    PrivateOptimizer,
    poisson_sample,
    with_example_gradients,
)
from datalens.mechanism.noise import FloatSecureNoise, SeededFloatNoise
from datalens.student.critic import Critic

SHAPE, CLASSES = (1, 9, 8), 3
SECRET = b"s" * 32


class NoNoise:
    """To see what lies beneath."""

    kind = "seeded"

    def add(self, values: np.ndarray, *, sigma: float, key: str) -> np.ndarray:
        return values


def critic() -> Critic:
    return Critic(SHAPE, CLASSES, 2, stream=torch.Generator().manual_seed(1))


def examples(count: int, seed: int = 0) -> tuple[Tensor, Tensor]:
    chance = torch.Generator().manual_seed(seed)
    images = torch.rand(count, *SHAPE, generator=chance)
    return images, torch.arange(count) % CLASSES


def one_by_one(model: nn.Module, images: Tensor, labels: Tensor) -> list[Tensor]:
    """The oracle: a backward pass for each example, all parameters in one vector."""
    found = []
    for image, label in zip(images, labels, strict=True):
        model.zero_grad()
        model(image[None], label[None]).sum().backward()
        parts = [torch.zeros_like(p) if p.grad is None else p.grad for p in model.parameters()]
        found.append(torch.cat([part.flatten() for part in parts]))
    return found


def optimiser(model: nn.Module, **changes: object) -> PrivateOptimizer:
    settings = {
        "noise": NoNoise(),
        "noise_multiplier": 1.0,
        "max_grad_norm": 1.0,
        "expected_batch_size": 4,
    } | changes
    return PrivateOptimizer(torch.optim.SGD(model.parameters(), lr=1.0), **settings)  # type: ignore[arg-type]


def weights(model: nn.Module) -> Tensor:
    return torch.cat([p.detach().flatten().clone() for p in model.parameters()])


def test_each_example_has_its_own_gradient() -> None:
    images, labels = examples(7)
    slow = one_by_one(critic(), images, labels)
    model = critic()
    with_example_gradients(model)(images, labels).sum().backward()
    for n, expected in enumerate(slow):
        found = torch.cat([p.grad_sample[n].flatten() for p in model.parameters()])  # type: ignore[attr-defined]
        assert torch.allclose(found, expected, atol=1e-5)
    assert not torch.allclose(slow[0], slow[1], atol=1e-2)  # the comparison can tell


@pytest.mark.parametrize("bound", [0.1, 3.0, 1e4])
def test_a_step_is_the_sum_of_clipped_gradients_over_the_expected_size(bound: float) -> None:
    images, labels = examples(7)
    slow = one_by_one(critic(), images, labels)
    norms = [float(gradient.norm()) for gradient in slow]
    assert min(norms) > 0.1 and max(norms) < 1e4  # all are cut, some, none
    cut = bound * (1 - ROUNDING)
    clipped = [g * min(1, cut / n) for g, n in zip(slow, norms, strict=True)]
    model = critic()
    before = weights(model)
    watched = with_example_gradients(model)
    watched(images, labels).sum().backward()
    optimiser(model, max_grad_norm=bound).step_on(7, key="a")  # 7 came, 4 were expected
    moved = before - weights(model)
    total = torch.stack(clipped).sum(0)
    near = 1e-4 * min(bound, 1.0)
    assert torch.allclose(moved, total / 4, rtol=1e-3, atol=near)
    assert not torch.allclose(moved, total / 7, rtol=1e-3, atol=near)


def test_one_example_moves_a_step_by_no_more_than_the_bound() -> None:
    """Whatever the example is: here one of huge pixels beside ordinary ones."""
    moved = []
    images, labels = examples(5)
    images[4] *= 1e6
    for count in (4, 5):
        model = critic()
        before = weights(model)
        with_example_gradients(model)(images[:count], labels[:count]).sum().backward()
        optimiser(model, max_grad_norm=0.5, expected_batch_size=1).step_on(count, key="a")
        moved.append(before - weights(model))
    assert 0.49 < float((moved[1] - moved[0]).norm()) <= 0.5


@pytest.mark.parametrize("broken", [math.nan, math.inf, -math.inf, 1e38])
def test_a_gradient_that_is_not_finite_adds_nothing(broken: float) -> None:
    images, labels = examples(5)
    images[2] = broken
    others = [0, 1, 3, 4]
    moved = []
    for part in ([0, 1, 2, 3, 4], others):
        model = critic()
        before = weights(model)
        with_example_gradients(model)(images[part], labels[part]).sum().backward()
        optimiser(model).step_on(len(part), key="a")
        moved.append(before - weights(model))
    assert moved[0].isfinite().all() and moved[0].norm() > 0.1
    assert torch.allclose(moved[0], moved[1], atol=1e-5)


@pytest.mark.parametrize("count", [0, 6])
@pytest.mark.parametrize("claimed, fits", [(3.0, True), (2.5, False), (1.5, False), (6.0, False)])
def test_noise_is_the_multiplier_times_the_bound(count: int, claimed: float, fits: bool) -> None:
    """Also where nobody was drawn: else the weights would tell that."""
    steps = []
    for noise in (NoNoise(), SeededFloatNoise(SECRET)):
        model = Critic(SHAPE, CLASSES, 16, stream=torch.Generator().manual_seed(1))
        before = weights(model)
        watched = with_example_gradients(model)
        if count:
            watched(*examples(count)).sum().backward()
        optimiser(
            model, noise=noise, noise_multiplier=1.5, max_grad_norm=2.0, expected_batch_size=8
        ).step_on(count, key="a")
        steps.append((before - weights(model)) * 8)
    drawn = (steps[1] - steps[0]).numpy()
    p = kstest(drawn, "norm", args=(0, claimed)).pvalue
    assert bool(p > 1e-3) is fits


def test_noise_is_fresh_at_every_step() -> None:
    """From a seed by its key; from the system always."""
    for noise, alike in ((SeededFloatNoise(SECRET), True), (FloatSecureNoise(), False)):
        moved = []
        for key in ("1", "1", "2"):
            model = critic()
            before = weights(model)
            optimiser(model, noise=noise).step_on(0, key=key)
            moved.append(before - weights(model))
        assert torch.equal(moved[0], moved[1]) is alike
        assert not torch.equal(moved[0], moved[2])


def test_nothing_is_left_over_for_the_next_step() -> None:
    model = critic()
    watched = with_example_gradients(model)
    private = optimiser(model)
    watched(*examples(5)).sum().backward()
    private.step_on(5, key="a")
    after = weights(model)
    private.step_on(0, key="b")
    assert torch.equal(weights(model), after)


def test_layers_that_mix_examples_are_refused() -> None:
    with pytest.raises(Exception, match="BatchNorm"):
        with_example_gradients(nn.Sequential(nn.Conv2d(1, 2, 3), nn.BatchNorm2d(2)))


RECORDS, STEPS = 500, 400


def taken(q: float) -> np.ndarray:
    """Steps x records: who took part."""
    found = np.zeros((STEPS, RECORDS), dtype=bool)
    for step in range(STEPS):
        found[step, poisson_sample(RECORDS, q, SECRET, step)] = True
    return found


@pytest.mark.parametrize("claimed, fits", [(0.1, True), (0.11, False), (0.09, False)])
def test_everybody_takes_part_with_the_probability_claimed(claimed: float, fits: bool) -> None:
    part = taken(0.1)
    edges = binom.ppf([5e-4, 1 - 5e-4], part.size, claimed)
    assert bool(edges[0] <= part.sum() <= edges[1]) is fits
    if fits:  # no record and no step is favoured
        for counts, of in ((part.sum(0), STEPS), (part.sum(1), RECORDS)):
            spread = ((counts - 0.1 * of) ** 2).sum() / (of * 0.1 * 0.9)
            assert chi2.ppf(5e-4, len(counts)) < spread < chi2.ppf(1 - 5e-4, len(counts))


def together(part: np.ndarray) -> float:
    """By how many deviations neighbours, in records and in steps, take part together too often."""
    one, other = part[:, :-1] & part[:, 1:], part[:-1] & part[1:]
    sizes = one.sum() + other.sum(), one.size + other.size
    return float((sizes[0] - 0.01 * sizes[1]) / math.sqrt(sizes[1] * 0.01 * 0.99))


def test_records_and_steps_are_independent() -> None:
    part = taken(0.1)
    assert abs(together(part)) < 4
    sizes = part.sum(1)
    assert sizes.var() > 0.5 * RECORDS * 0.09  # a batch of a fixed size would have none
    shuffled = part[:, np.argsort(np.arange(RECORDS) // 2 % 2, kind="stable")]
    assert abs(together(shuffled)) < 4
    pairs = np.repeat(part[:, : RECORDS // 2], 2, axis=1)  # the control: two go together
    assert together(pairs) > 10


def test_a_secret_and_a_step_have_their_own_samples() -> None:
    one, again = (poisson_sample(1000, 0.5, SECRET, 3) for _ in range(2))
    assert np.array_equal(one, again)
    assert not np.array_equal(one, poisson_sample(1000, 0.5, SECRET, 4))
    assert not np.array_equal(one, poisson_sample(1000, 0.5, b"t" * 32, 3))


def test_a_probability_of_one_is_everybody_and_a_tiny_one_nobody() -> None:
    assert np.array_equal(poisson_sample(50, 1.0, SECRET, 0), np.arange(50))
    assert len(poisson_sample(50, 1e-12, SECRET, 0)) == 0


def test_a_longer_list_keeps_who_came_before() -> None:
    """A record's chance is its own, by its position."""
    short, long = (poisson_sample(n, 0.3, SECRET, 0) for n in (100, 200))
    assert np.array_equal(short, long[long < 100])
