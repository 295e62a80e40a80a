"""Adam over stacked teachers is torch's Adam; half-precision moments stay true on average."""

import pytest
import torch
from torch import Tensor

from datalens.ensemble.adam import Adam, dice, round_by_chance
from datalens.ensemble.streams import stream

STEPS, BETAS, RATE = 2000, (0.5, 0.999), 2e-4


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_equals_torch_for_each_teacher(dtype: torch.dtype) -> None:
    """In float32 by compiled loops, else by PyTorch."""
    g = stream(b"adam")
    stacked = torch.randn(3, 45, generator=g).to(dtype)
    alone = [p.clone().requires_grad_() for p in stacked]
    theirs = [torch.optim.Adam([p], lr=RATE, betas=BETAS) for p in alone]
    ours = Adam(stacked, learning_rate=RATE, betas=BETAS, moments=dtype)
    for _ in range(20):
        gradients = torch.randn(stacked.shape, generator=g).to(dtype)
        for block in (slice(0, 2), slice(2, 3)):
            ours.step(block, gradients[block])
        for p, gradient, optimiser in zip(alone, gradients, theirs, strict=True):
            p.grad = gradient.clone()
            optimiser.step()
    for t in range(3):
        torch.testing.assert_close(stacked[t], alone[t].detach())


def second_moment(gradients: Tensor, moments: torch.dtype, compiled: bool = True) -> Tensor:
    weights = torch.zeros(1, gradients.shape[1])
    adam = Adam(weights, learning_rate=RATE, betas=BETAS, moments=moments)
    if not compiled:
        adam.arrays = None
    for g in gradients:
        adam.step(slice(0, 1), g.unsqueeze(0))
    return adam.second[0].float()


def rounded_plainly(x: Tensor, chance: Tensor) -> Tensor:
    return x.to(torch.bfloat16)


SHRINKING = torch.linspace(0, -2, STEPS).exp().unsqueeze(1)
GRADIENTS = {
    "random": torch.randn(STEPS, 4096, generator=stream(b"g")) * SHRINKING,
    "the same in every step": torch.rand(1, 4096, generator=stream(b"g")).expand(STEPS, -1),
    "round numbers": torch.randint(0, 3, (STEPS, 4096), generator=stream(b"g")) / 2,
    "gone after a while": torch.randn(STEPS, 4096, generator=stream(b"g"))
    * (torch.arange(STEPS) < 500).unsqueeze(1),
}


@pytest.mark.parametrize("compiled", [True, False])
@pytest.mark.parametrize("kind", GRADIENTS)
def test_half_precision_tracks_the_second_moment(kind: str, compiled: bool) -> None:
    exact = second_moment(GRADIENTS[kind], torch.float32)
    ratio = second_moment(GRADIENTS[kind], torch.bfloat16, compiled) / exact
    assert ratio.mean() == pytest.approx(1, abs=0.05)
    assert ratio.sub(1).abs().mean() < 0.08


@pytest.mark.parametrize("kind", GRADIENTS)
def test_plain_rounding_would_not(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Negative control: the moment stops where a step is less than half a digit."""
    monkeypatch.setattr("datalens.ensemble.adam.round_by_chance", rounded_plainly)
    ratio = second_moment(GRADIENTS[kind], torch.bfloat16, False) / second_moment(
        GRADIENTS[kind], torch.float32
    )
    assert abs(ratio.mean() - 1) > 0.1


@pytest.mark.parametrize("value", [1.0, 1.001, -3.7e-9, 0.123456, 2.5e20])
def test_rounding_is_unbiased_and_to_a_neighbour(value: float) -> None:
    x = torch.full((1,), value)
    drawn = [round_by_chance(x, dice(x, step)) for step in range(20_000)]
    rounded = torch.stack(drawn).double()
    step = abs(value) * 2**-7
    assert (rounded - value).abs().max() < step
    assert rounded.mean().item() == pytest.approx(x.item(), abs=0.02 * step)


def test_special_values_survive_rounding() -> None:
    x = torch.tensor([0.0, torch.inf, -torch.inf, torch.nan])
    for step in range(100):
        rounded = round_by_chance(x, dice(x, step))
        assert torch.equal(rounded[:3].float(), x[:3])
        assert rounded[3].isnan()


def test_moments_belong_to_teachers() -> None:
    """A gradient of one teacher leaves every other teacher's moments and dice as they were."""
    g = stream(b"g")
    gradient = torch.randn(3, 50, generator=g)
    other = gradient.clone()
    other[1] = torch.inf
    results = []
    for given in (gradient, other):
        adam = Adam(torch.ones(3, 50), learning_rate=RATE, betas=BETAS, moments=torch.bfloat16)
        for _ in range(3):
            adam.step(slice(0, 3), given)
        results.append((adam.weights, adam.first, adam.second))
    for a, b in zip(*results, strict=True):
        assert torch.equal(a[[0, 2]], b[[0, 2]]) and not torch.equal(a[1], b[1])
