"""Stacked discriminators equal the plain module: forward, input gradient, parameter gradient."""

import pytest
import torch
from torch import Tensor

from datalens.ensemble import DISCRIMINATORS, Discriminator, Reference, make_discriminator, stream
from datalens.errors import DataLensError

from . import oracle

SHAPES = [((1, 28, 28), 10), ((3, 64, 64), 3), ((1, 8, 8), 2), ((1, 13, 9), 5), ((3, 32, 32), 4)]
TEACHERS, IMAGES = 3, 4


def lively(model: Discriminator, dtype: torch.dtype) -> dict[str, Tensor]:
    """Parameters of a few teachers, none of them zero."""
    each = [model.initial(stream(b"lively", t)) for t in range(TEACHERS)]
    return {
        name: torch.stack([one[name] for one in each]).to(dtype).add_(0.03).requires_grad_()
        for name in each[0]
    }


def batch(model: Discriminator, common: bool, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
    g = stream(b"batch")
    lead = (IMAGES,) if common else (TEACHERS, IMAGES)
    images = torch.rand(*lead, *model.shape, generator=g).to(dtype)
    return images, torch.randint(0, model.n_classes, lead, generator=g)


@pytest.mark.parametrize("dtype, tolerance", [(torch.float64, 1e-11), (torch.float32, 1e-4)])
@pytest.mark.parametrize("common", [True, False], ids=["common", "own"])
@pytest.mark.parametrize("shape, n_classes", SHAPES, ids=str)
@pytest.mark.parametrize("name", DISCRIMINATORS)
def test_equals_the_plain_module(
    name: str, shape: tuple, n_classes: int, common: bool, dtype: torch.dtype, tolerance: float
) -> None:
    model = make_discriminator(name, shape, n_classes)
    params = lively(model, dtype)
    images, labels = batch(model, common, dtype)
    seen = images.expand(TEACHERS, IMAGES, *shape).detach().requires_grad_()
    weights = torch.randn(TEACHERS, IMAGES, generator=stream(b"weights")).to(dtype)

    found = model.logits(params, seen, labels)
    slopes = torch.autograd.grad((found * weights).sum(), [seen, *params.values()])
    assert torch.equal(found, model.logits(params, images, labels))

    for t in range(TEACHERS):
        own = {k: p[t].detach().clone().requires_grad_() for k, p in params.items()}
        x, y = (images, labels) if common else (images[t], labels[t])
        x = x.clone().requires_grad_()
        truth = oracle.logits(name, own, x, y, n_classes)
        true_slopes = torch.autograd.grad((truth * weights[t]).sum(), [x, *own.values()])
        assert close(found[t], truth, tolerance)
        assert close(slopes[0][t], true_slopes[0], tolerance)
        steepest = max(float(s.abs().max()) for s in true_slopes[1:])
        for k, slope, true_slope in zip(own, slopes[1:], true_slopes[1:], strict=True):
            scale = steepest if k.endswith(".bias") else None  # sums that nearly cancel
            assert close(slope[t], true_slope, tolerance, scale), k


def close(a: Tensor, b: Tensor, tolerance: float, scale: float | None = None) -> bool:
    scale = float(b.detach().abs().max()) if scale is None else scale
    return float((a - b).detach().abs().max()) <= tolerance * scale


def test_the_comparison_sees_a_wrong_padding(monkeypatch: pytest.MonkeyPatch) -> None:
    """Negative control: zeros the other way round, as PyTorch users would pad."""
    model = make_discriminator("compact", (3, 64, 64), 3)
    params = lively(model, torch.float64)
    images, labels = batch(model, True, torch.float64)
    own = {k: p[0] for k, p in params.items()}
    truth = oracle.logits("compact", own, images, labels, 3)
    assert close(model.logits(params, images, labels)[0], truth, 1e-11)
    monkeypatch.setattr("datalens.ensemble.stacked.padding", lambda size: (2, 1))
    assert not close(model.logits(params, images, labels)[0], truth, 1e-4)


def test_the_reference_has_the_published_size() -> None:
    model = Reference((1, 28, 28), 10)
    conv1 = 25 * 11 * 11 + 11
    conv2 = 25 * 21 * 42 + 42 + 2 * 42
    hidden = (49 * 42 + 10) * 256 + 256 + 2 * 256
    assert model.n_parameters == conv1 + conv2 + hidden + 266 + 1 == 555_655


@pytest.mark.parametrize("shape", [(1, 8, 8), (1, 28, 28), (3, 32, 32), (3, 64, 64), (1, 9, 61)])
def test_compact_is_compact(shape: tuple) -> None:
    assert make_discriminator("compact", shape, 10).n_parameters < 70_000


@pytest.mark.parametrize("name", DISCRIMINATORS)
def test_fresh_parameters_fit_their_shapes_and_repeat(name: str) -> None:
    model = make_discriminator(name, (1, 12, 10), 1000 if name == "compact" else 40)
    once, again = (model.initial(stream(b"s", 1)) for _ in range(2))
    assert {k: tuple(p.shape) for k, p in once.items()} == model.parameter_shapes()
    assert all(torch.equal(once[k], again[k]) for k in once)


def test_a_compact_logit_depends_on_its_image_alone() -> None:
    model = make_discriminator("compact", (1, 28, 28), 10)
    params = lively(model, torch.float64)
    images, labels = batch(model, True, torch.float64)
    alone = model.logits(params, images[:1], labels[:1])
    assert close(alone[:, 0], model.logits(params, images, labels)[:, 0], 1e-12)


@pytest.mark.parametrize(
    "name, shape, n_classes, says",
    [
        ("resnet", (1, 28, 28), 10, "compact, reference"),
        ("compact", (2, 28, 28), 10, "channels"),
        ("compact", (1, 7, 28), 10, "sides"),
        ("reference", (1, 28, 65), 10, "sides"),
        ("reference", (28, 28), 10, "channels"),
        ("compact", (1, 28, 28), 1, "classes"),
        ("compact", (1, 28, 28), 1001, "classes"),
    ],
)
def test_bad_geometry_is_refused(name: str, shape: tuple, n_classes: int, says: str) -> None:
    with pytest.raises(DataLensError, match=says):
        make_discriminator(name, shape, n_classes)
