"""Stacked critics: their arithmetic against autograd, and that they have nothing in common."""

from itertools import chain
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from datalens.ensemble import critics as critics_module
from datalens.ensemble.adam import Adam
from datalens.ensemble.critics import PENALTY, SLOPE, Critics, loss_gradient

from .threads import disturbed, threads

N, SHARD, SIDE, CLASSES, WIDTH = 70, 5, 4, 3, 6  # more than a block of critics
VICTIM = 66


def chance(seed: int) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def shards() -> tuple[Tensor, Tensor]:
    images = torch.randint(256, (N, SHARD, 1, SIDE, SIDE), generator=chance(0), dtype=torch.uint8)
    return images, torch.randint(CLASSES, (N, SHARD), generator=chance(1))


def trained(images: Tensor, labels: Tensor, updates: int = 3) -> Critics:
    critics = Critics(
        images=images,
        labels=labels,
        n_classes=CLASSES,
        width=WIDTH,
        learning_rate=1e-2,
        real_batch=4,
        secret=b"s" * 32,
    )
    for update in range(updates):
        made = torch.rand(7, 1, SIDE, SIDE, generator=chance(2 + update))
        critics.train(made, torch.arange(7) % CLASSES, update=update)
    return critics


def realism(weights: dict[str, Tensor], x: Tensor, labels: Tensor) -> Tensor:
    """The slow way, critic by critic."""
    found = []
    for see, bias, heads, own, label in zip(
        weights["see"], weights["bias"], weights["heads"], x, labels, strict=True
    ):
        units = F.leaky_relu(F.linear(own, see, bias), SLOPE)
        found.append((units * heads[label]).sum(1))
    return torch.stack(found)


def test_the_gradient_is_that_of_autograd() -> None:
    def random(*shape: int) -> Tensor:
        return torch.rand(shape, generator=chance(sum(shape)), dtype=torch.float64) - 0.4

    weights = {"see": random(2, 6, 9), "bias": random(2, 6), "heads": random(2, 3, 6)}
    for weight in weights.values():
        weight.requires_grad_()
    real, mixed, made = random(2, 4, 9), random(2, 4, 9).requires_grad_(), random(5, 9)
    labels, made_labels = torch.tensor([[0, 1, 1, 2], [2, 2, 0, 1]]), torch.tensor([0, 1, 2, 2, 0])

    (slopes,) = torch.autograd.grad(realism(weights, mixed, labels).sum(), mixed, create_graph=True)
    penalty = ((slopes.norm(dim=2) - 1) ** 2).mean(1)
    fakes = realism(weights, made.expand(2, -1, -1), made_labels.expand(2, -1))
    loss = fakes.mean(1) - realism(weights, real, labels).mean(1) + PENALTY * penalty
    loss.sum().backward()

    found = {name: torch.zeros_like(weight) for name, weight in weights.items()}
    with torch.no_grad():
        loss_gradient(
            weights,
            found,
            real=real,
            real_labels=labels,
            mixed=mixed,
            made=made,
            made_labels=made_labels,
        )
    for name, weight in weights.items():
        torch.testing.assert_close(found[name], weight.grad)


def test_what_a_critic_says_is_the_slope_of_its_realism() -> None:
    critics = trained(*shards())
    images = torch.rand(3, 1, SIDE, SIDE, generator=chance(9))
    labels = torch.tensor([2, 0, 1])
    x = images.flatten(1).unsqueeze(0).requires_grad_()
    weights = critics._layout.views(critics.state()["weights"][5:6])
    (slope,) = torch.autograd.grad(realism(weights, x, labels.unsqueeze(0)).sum(), x)
    torch.testing.assert_close(critics.ask([5, 5, 5], images, labels), slope[0])


def test_each_image_is_judged_by_the_critic_that_is_named_for_it() -> None:
    critics, images = trained(*shards()), torch.rand(3, 1, SIDE, SIDE)
    labels, who = torch.tensor([2, 0, 1]), [4, 1, 4]
    together = critics.ask(who, images, labels)
    for at, critic in enumerate(who):
        alone = critics.ask([critic], images[at : at + 1], labels[at : at + 1])
        torch.testing.assert_close(together[at], alone[0])
    assert not torch.allclose(critics.ask([1, 1, 1], images, labels)[0], together[0])


def test_all_critics_are_asked_about_every_image() -> None:
    critics, images = trained(*shards()), torch.rand(3, 1, SIDE, SIDE, generator=chance(9))
    labels = torch.tensor([2, 0, 1])
    found = chain(*critics.ask_all(images, labels, list))
    blocks = sorted(found, key=lambda block: block[0].start)
    assert len(blocks) > 1
    assert [critic for numbers, _ in blocks for critic in numbers] == list(range(N))
    every = torch.cat([block for _, block in blocks])
    assert len(every) == N
    for critic in (0, 63, 64, N - 1):
        alone = critics.ask([critic] * 3, images, labels)
        assert torch.allclose(every[critic], alone, atol=1e-6)
    assert not torch.allclose(every[0], every[1], atol=1e-3)


def test_critics_learn() -> None:
    """Bright records against dark images: the brighter, the more real."""
    images, labels = torch.full((N, SHARD, 1, SIDE, SIDE), 250, dtype=torch.uint8), shards()[1]
    critics = trained(images, labels, updates=40)
    slope = critics.ask([3, 3], torch.full((2, 1, SIDE, SIDE), 0.5), torch.tensor([0, 1]))
    assert (slope.sum(1) > 0).all()


def differing(a: Critics, b: Critics) -> set[int]:
    """Critics of which any bit differs."""
    one, two = a.state(), b.state()
    return {i for name in one for i in range(N) if not torch.equal(one[name][i], two[name][i])}


def touched(*, label: bool) -> set[int]:
    before = trained(*shards())
    images, labels = shards()
    if label:
        labels[VICTIM] = (labels[VICTIM] + 1) % CLASSES
    else:
        images[VICTIM] ^= 255
    return differing(before, trained(images, labels))


@pytest.mark.parametrize("label", [False, True])
def test_a_shard_changes_its_own_critic_bit_for_bit(label: bool) -> None:
    assert touched(label=label) == {VICTIM}


@pytest.mark.parametrize("count", [1, 2, 4])
def test_critics_are_the_same_on_any_number_of_threads(count: int) -> None:
    before, images = trained(*shards()), torch.rand(3, 1, SIDE, SIDE, generator=chance(9))
    asked = before.ask([5, 69, 5], images, torch.arange(3))
    with threads(count), disturbed():
        for _ in range(5):
            again = trained(*shards())
            assert differing(before, again) == set()
            assert torch.equal(again.ask([5, 69, 5], images, torch.arange(3)), asked)
        assert touched(label=False) == {VICTIM}


def test_products_of_critics_are_computed_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    own_before, seen = critics_module._before, []

    def before(*given: Any) -> Tensor:
        seen.append(torch.get_num_threads())
        return own_before(*given)

    monkeypatch.setattr(critics_module, "_before", before)
    with threads(4):
        critics, images = trained(*shards(), updates=1), torch.rand(3, 1, SIDE, SIDE)
        trainings = len(seen)
        critics.ask([5], images[:1], torch.arange(1))
        critics.ask_all(images, torch.arange(3), list)
    assert set(seen) == {1} and len(seen) > trainings + 1 > 1


def test_shared_moments_are_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    """The mutant."""
    own_step = Adam.step

    def step(self: Adam, rows: slice, gradient: Tensor) -> None:
        own_step(self, rows, gradient)
        self.second[rows] = self.second[rows].mean(0, keepdim=True)

    monkeypatch.setattr(Adam, "step", step)
    assert len(touched(label=False)) > 1
