"""Stacked discriminators equal the plain module: forward, input gradient, parameter gradient."""

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from datalens.ensemble import DISCRIMINATORS, Discriminator, Reference, make_discriminator, stream
from datalens.ensemble.adam import Adam
from datalens.ensemble.stacked import images_first, rows_first
from datalens.errors import DataLensError

from . import oracle

SHAPES = [((1, 28, 28), 10), ((3, 64, 64), 3), ((1, 8, 8), 2), ((1, 13, 9), 5), ((3, 32, 32), 4)]
TEACHERS, IMAGES = 6, 4
Batch = tuple[Tensor, Tensor]


def lively(model: Discriminator, dtype: torch.dtype) -> Adam:
    """Weights of a few teachers, none of them zero, with moments that are.

    As at the beginning but for the zeros: weights that all lean to one side make sums of ten
    thousand terms that hardly differ between images, and a batch norm magnifies their rounding,
    which is another one on every processor.
    """
    weights = torch.zeros(TEACHERS, model.layout.size)
    views = model.layout.views(weights)
    for t in range(TEACHERS):
        for name, value in model.initial(stream(b"lively weights", t)).items():
            views[name][t] = torch.where(value == 0, 0.003, value)
    return Adam(weights.to(dtype), learning_rate=1e-3, betas=(0.5, 0.999), moments=dtype)


def rows(images: Tensor) -> Tensor:
    own = images if images.ndim == 5 else images.unsqueeze(0)
    return rows_first(own).contiguous()


def batch(model: Discriminator, size: int, common: bool, dtype: torch.dtype) -> Batch:
    g = stream(b"batch", size)
    lead = (size,) if common else (TEACHERS, size)
    images = torch.rand(*lead, *model.shape, generator=g).to(dtype)
    return images, torch.randint(0, model.n_classes, lead, generator=g)


def own_part(batch: Batch, t: int) -> Batch:
    images, labels = batch
    return (images[t], labels[t]) if labels.ndim == 2 else batch


def truths(model: Discriminator, adam: Adam, t: int) -> dict[str, Tensor]:
    views = model.layout.views(adam.weights)
    return {k: p[t].detach().double().clone().requires_grad_() for k, p in views.items()}


WAYS = {
    "portable": (torch.float64, Discriminator, 1e-11),
    "portable in float32": (torch.float32, Discriminator, 1e-4),
    "as it comes": (torch.float32, None, 1e-4),
}
"""On a CPU and in float32 the second way is not what comes: compiled loops do, where there are."""


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("shape, n_classes", SHAPES, ids=str)
@pytest.mark.parametrize("name", DISCRIMINATORS)
def test_images_gradient_equals_the_plain_module(
    name: str, shape: tuple, n_classes: int, way: str
) -> None:
    model = make_discriminator(name, shape, n_classes)
    dtype, portable, tolerance = WAYS[way]
    adam = lively(model, dtype)
    images, labels = batch(model, IMAGES, common=True, dtype=dtype)
    seen = rows(images) if portable else model.prepare(rows(images), dtype)
    found = (portable or type(model)).realism(model, adam.weights, seen, labels)
    errors = []
    for t in range(TEACHERS):
        x = images.double().clone().requires_grad_()
        logits = oracle.logits(name, truths(model, adam, t), x, labels, n_classes)
        (slope,) = torch.autograd.grad(F.logsigmoid(logits).sum(), x)
        errors.append(error(images_first(found[t]), slope))
    check(errors, dtype, tolerance)


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("shape, n_classes", SHAPES, ids=str)
@pytest.mark.parametrize("name", DISCRIMINATORS)
def test_parameters_gradient_equals_the_plain_module(
    name: str, shape: tuple, n_classes: int, way: str
) -> None:
    """Three batches, the third with the images of the first; unequal weights.

    From nothing, the first moment is half the gradient after one step.
    """
    model = make_discriminator(name, shape, n_classes)
    dtype, portable, tolerance = WAYS[way]
    adam = lively(model, dtype)
    real = batch(model, IMAGES, common=False, dtype=dtype)
    fake = batch(model, IMAGES + 2, common=True, dtype=dtype)
    wrong = (real[0], (real[1] + 1) % n_classes)
    shown = [(0, real[1]), (1, fake[1]), (0, wrong[1])]
    total = 3 * IMAGES + 2
    aim = torch.tensor([1.0] * IMAGES + [0.0] * (total - IMAGES)).to(dtype)
    weight = torch.rand(total, generator=stream(b"weights")).to(dtype)
    before = [truths(model, adam, t) for t in range(TEACHERS)]

    images = [rows(real[0]), rows(fake[0])]
    prepared = images if portable else [model.prepare(x, dtype) for x in images]
    block = slice(0, TEACHERS)
    (portable or type(model)).learn(model, adam, block, prepared, shown, aim, weight)

    found = model.layout.views(adam.first * 2)
    errors = []
    for t, own in enumerate(before):
        parts = (own_part(b, t) for b in (real, fake, wrong))
        judged = [oracle.logits(name, own, x.double(), y, n_classes) for x, y in parts]
        loss = F.binary_cross_entropy_with_logits(
            torch.cat(judged), aim.double(), weight.double(), reduction="sum"
        )
        slopes = torch.autograd.grad(loss, list(own.values()))
        steepest = max(float(s.abs().max()) for s in slopes)
        named = zip(own, slopes, strict=True)
        errors.append(  # biases are sums that nearly cancel
            max(error(found[k][t], s, steepest if k.endswith(".bias") else None) for k, s in named)
        )
    check(errors, dtype, tolerance)
    assert (adam.steps == 1).all()


@pytest.mark.parametrize("name", DISCRIMINATORS)
def test_logits_equal_the_plain_module(name: str) -> None:
    model = make_discriminator(name, (1, 13, 9), 5)
    adam = lively(model, torch.float64)
    images, labels = batch(model, IMAGES, common=False, dtype=torch.float64)
    found = model.logits(model.layout.views(adam.weights), [rows(images)], [(0, labels)])
    for t in range(TEACHERS):
        truth = oracle.logits(name, truths(model, adam, t), images[t], labels[t], 5)
        assert close(found[t], truth, 1e-11)


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("shape, n_classes", SHAPES, ids=str)
@pytest.mark.parametrize("name", DISCRIMINATORS)
def test_answers_equal_the_plain_module(name: str, shape: tuple, n_classes: int, way: str) -> None:
    model = make_discriminator(name, shape, n_classes)
    dtype, portable, tolerance = WAYS[way]
    adam = lively(model, dtype)
    images, labels = batch(model, IMAGES, common=True, dtype=dtype)
    seen = rows(images) if portable else model.prepare(rows(images), dtype)
    found = (portable or type(model)).answers(model, adam.weights, seen, labels)
    for t in range(TEACHERS):
        truth = oracle.logits(name, truths(model, adam, t), images.double(), labels, n_classes)
        assert close(found[t], truth, tolerance)


@pytest.mark.parametrize("shape, n_classes", SHAPES, ids=str)
def test_images_computed_in_parts_equal_the_plain_module(
    shape: tuple, n_classes: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Three at a time: neither number of images is a multiple of it."""
    monkeypatch.setattr("datalens.ensemble.compact.AT_ONCE", 3)
    test_images_gradient_equals_the_plain_module("compact", shape, n_classes, "as it comes")
    test_parameters_gradient_equals_the_plain_module("compact", shape, n_classes, "as it comes")
    test_answers_equal_the_plain_module("compact", shape, n_classes, "as it comes")


def error(a: Tensor, b: Tensor, scale: float | None = None) -> float:
    scale = float(b.detach().abs().max()) if scale is None else scale
    return float((a - b).detach().abs().max()) / scale


def check(errors: list[float], dtype: torch.dtype, tolerance: float) -> None:
    """Of each teacher. In float32 a unit may round to the other side of its rectifier's kink, and
    then the derivative jumps: that may happen to one teacher."""
    spared = 1 if dtype == torch.float32 else 0
    assert sorted(errors)[-1 - spared] <= tolerance and max(errors) < 0.5, errors


def close(a: Tensor, b: Tensor, tolerance: float) -> bool:
    return error(a, b) <= tolerance


def test_the_comparison_sees_a_wrong_padding(monkeypatch: pytest.MonkeyPatch) -> None:
    """Negative control: zeros the other way round, as PyTorch users would pad."""
    model = make_discriminator("compact", (3, 64, 64), 3)
    adam = lively(model, torch.float64)
    images, labels = batch(model, IMAGES, common=True, dtype=torch.float64)
    truth = oracle.logits("compact", truths(model, adam, 0), images, labels, 3)

    def found() -> Tensor:
        return model.logits(model.layout.views(adam.weights), [rows(images)], [(0, labels)])[0]

    assert close(found(), truth, 1e-11)
    monkeypatch.setattr("datalens.ensemble.stacked.padding", lambda size: (2, 1))
    assert not close(found(), truth, 1e-4)


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
    views = model.layout.views(lively(model, torch.float64).weights)
    images, labels = batch(model, IMAGES, common=True, dtype=torch.float64)
    alone = model.logits(views, [rows(images[:1])], [(0, labels[:1])])
    among = model.logits(views, [rows(images)], [(0, labels)])
    assert close(alone[:, 0], among[:, 0], 1e-12)


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
