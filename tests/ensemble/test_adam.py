"""Adam over stacked teachers is torch's Adam; half-precision moments stay true on average."""

import pytest
import torch
from torch import Tensor

from datalens.ensemble.adam import Adam, round_by_chance
from datalens.ensemble.streams import stream

STEPS, BETAS, RATE = 2000, (0.5, 0.999), 2e-4


def test_equals_torch_for_each_teacher() -> None:
    g = stream(b"adam")
    stacked = {"a": torch.randn(3, 4, 5, generator=g), "b": torch.randn(3, 2, generator=g)}
    alone = [{k: p[t].clone().requires_grad_() for k, p in stacked.items()} for t in range(3)]
    theirs = [torch.optim.Adam(p.values(), lr=RATE, betas=BETAS) for p in alone]
    ours = Adam(stacked, learning_rate=RATE, betas=BETAS)
    for _ in range(20):
        gradients = {k: torch.randn(p.shape, generator=g) for k, p in stacked.items()}
        for block in (slice(0, 2), slice(2, 3)):
            ours.step(block, {k: v[block] for k, v in gradients.items()})
        for t, optimiser in enumerate(theirs):
            for k, p in alone[t].items():
                p.grad = gradients[k][t].clone()
            optimiser.step()
    for t in range(3):
        for k in stacked:
            torch.testing.assert_close(stacked[k][t], alone[t][k].detach())


def second_moment(gradients: Tensor, moments: torch.dtype) -> Tensor:
    adam = Adam(
        {"p": torch.zeros(1, gradients.shape[1])}, learning_rate=RATE, betas=BETAS, moments=moments
    )
    for g in gradients:
        adam.step(slice(0, 1), {"p": g.unsqueeze(0)})
    return adam.second["p"][0].float()


def rounded_plainly(x: Tensor, step: int) -> Tensor:
    return x.to(torch.bfloat16)


SHRINKING = torch.linspace(0, -2, STEPS).exp().unsqueeze(1)
GRADIENTS = {
    "random": torch.randn(STEPS, 4096, generator=stream(b"g")) * SHRINKING,
    "the same in every step": torch.rand(1, 4096, generator=stream(b"g")).expand(STEPS, -1),
    "round numbers": torch.randint(0, 3, (STEPS, 4096), generator=stream(b"g")) / 2,
    "gone after a while": torch.randn(STEPS, 4096, generator=stream(b"g"))
    * (torch.arange(STEPS) < 500).unsqueeze(1),
}


@pytest.mark.parametrize("kind", GRADIENTS)
def test_half_precision_tracks_the_second_moment(kind: str) -> None:
    exact = second_moment(GRADIENTS[kind], torch.float32)
    ratio = second_moment(GRADIENTS[kind], torch.bfloat16) / exact
    assert ratio.mean() == pytest.approx(1, abs=0.05)
    assert ratio.sub(1).abs().mean() < 0.08


@pytest.mark.parametrize("kind", GRADIENTS)
def test_plain_rounding_would_not(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Negative control: the moment stops where a step is less than half a digit."""
    monkeypatch.setattr("datalens.ensemble.adam.round_by_chance", rounded_plainly)
    ratio = second_moment(GRADIENTS[kind], torch.bfloat16) / second_moment(
        GRADIENTS[kind], torch.float32
    )
    assert abs(ratio.mean() - 1) > 0.1


@pytest.mark.parametrize("value", [1.0, 1.001, -3.7e-9, 0.123456, 2.5e20])
def test_rounding_is_unbiased_and_to_a_neighbour(value: float) -> None:
    x = torch.full((1,), value)
    rounded = torch.stack([round_by_chance(x, step) for step in range(20_000)]).double()
    step = abs(value) * 2**-7
    assert (rounded - value).abs().max() < step
    assert rounded.mean().item() == pytest.approx(x.item(), abs=0.02 * step)


def test_special_values_survive_rounding() -> None:
    x = torch.tensor([0.0, torch.inf, -torch.inf, torch.nan])
    for step in range(100):
        assert torch.equal(round_by_chance(x, step)[:3].float(), x[:3])
        assert round_by_chance(x, step)[3].isnan()


def test_moments_belong_to_teachers() -> None:
    """A gradient of one teacher leaves every other teacher's moments and dice as they were."""
    g = stream(b"g")
    gradient = torch.randn(3, 50, generator=g)
    other = gradient.clone()
    other[1] = torch.inf
    results = []
    for given in (gradient, other):
        adam = Adam(
            {"p": torch.ones(3, 50)}, learning_rate=RATE, betas=BETAS, moments=torch.bfloat16
        )
        for _ in range(3):
            adam.step(slice(0, 3), {"p": given})
        results.append((adam.parameters["p"], adam.first["p"], adam.second["p"]))
    for a, b in zip(*results, strict=True):
        assert torch.equal(a[[0, 2]], b[[0, 2]]) and not torch.equal(a[1], b[1])
