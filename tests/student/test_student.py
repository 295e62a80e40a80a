"""The student goes where it is told, stays where it is not, and resumes bit for bit."""

import numpy as np
import pytest
import torch
from safetensors.torch import load, save

from datalens.errors import DataLensError
from datalens.student import DcganGenerator, GaussianModel, Generator, MixtureModel, Student

SHAPE = (1, 8, 8)
LABELS = torch.arange(12) % 3


Kind = type[Generator] | type[DcganGenerator]
KINDS: list[Kind] = [Generator, DcganGenerator]


def fresh(kind: Kind = Generator, **options: float) -> Student:
    generator = kind(SHAPE, 3, 6, stream=torch.Generator().manual_seed(0))
    return Student(generator, secret=b"test", **options)


def model() -> MixtureModel:
    rng = np.random.default_rng(0)
    means = rng.uniform(0.2, 0.8, (3, *SHAPE)).astype(np.float32)
    factor = (0.1 * rng.normal(size=(4, *SHAPE))).astype(np.float32)
    return MixtureModel.of(GaussianModel(means=means, factor=factor, grain=0.05))


@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_it_moves_in_the_asked_direction(sign: float) -> None:
    student = fresh()
    before = student.propose(LABELS, step=0).images
    direction = torch.zeros_like(before)
    direction[:, :, :4] = sign
    student.follow(direction, step_size=0.2, updates=30)
    moved = student.propose(LABELS, step=0).images - before
    assert (sign * moved[:, :, :4]).mean() > 0.1
    assert moved[:, :, 5:].abs().mean() < 0.05


def test_without_direction_it_stays() -> None:
    student = fresh()
    before = student.propose(LABELS, step=0).images
    student.follow(torch.zeros_like(before), step_size=0.2, updates=5)
    torch.testing.assert_close(student.propose(LABELS, step=0).images, before)


def test_targets_stay_in_the_unit_interval() -> None:
    student = fresh()
    for step in range(60):
        images = student.propose(LABELS, step=step).images
        student.follow(torch.ones_like(images), step_size=5.0, updates=5)
    assert student.propose(LABELS, step=99).images.min() > 0.8


def test_proposals_depend_on_the_step_alone() -> None:
    student = fresh()
    first, second = student.propose(LABELS, step=3).images, student.propose(LABELS, step=4).images
    assert torch.equal(student.propose(LABELS, step=3).images, first)
    assert not torch.allclose(first, second)


def test_it_starts_as_the_model_it_is_given() -> None:
    student, target = fresh(), model()
    student.start_from(target, spread=1.0)
    labels = torch.arange(300) % 3
    places = target.places(labels, torch.Generator().manual_seed(2))
    sampled = student.sample(labels, torch.Generator().manual_seed(2))
    torch.testing.assert_close(sampled, target.images(places, labels))


def test_what_it_learns_is_put_on_the_model() -> None:
    student = fresh()
    student.start_from(model(), spread=1.0)
    before = student.propose(LABELS, step=0).images
    direction = torch.zeros_like(before)
    direction[:, :, :4] = 1.0
    student.follow(direction, step_size=0.2, updates=60)
    moved = student.propose(LABELS, step=0).images - before
    assert moved[:, :, :4].mean() > 0.1
    assert moved[:, :, 5:].abs().mean() < 0.05


def test_samples_come_from_the_average() -> None:
    fast, slow = fresh(moving_average=0.0), fresh(moving_average=0.999)
    start = fast.sample(LABELS, torch.Generator().manual_seed(0))
    for student in (fast, slow):
        images = student.propose(LABELS, step=0).images
        student.follow(torch.ones_like(images), step_size=0.5, updates=20)
    moved = [s.sample(LABELS, torch.Generator().manual_seed(0)) - start for s in (fast, slow)]
    assert moved[0].mean() > 0.1 > 10 * moved[1].mean() > 0


def steps(student: Student, first: int, last: int) -> None:
    for step in range(first, last):
        images = student.propose(LABELS, step=step).images
        student.follow((0.5 - images).sign(), step_size=0.1, updates=2)


@pytest.mark.parametrize("kind", KINDS)
def test_a_resumed_student_is_the_same_bit_for_bit(kind: Kind) -> None:
    whole = fresh(kind)
    whole.start_from(model(), spread=1.5)
    steps(whole, 0, 6)

    stopped = fresh(kind)
    stopped.start_from(model(), spread=1.5)
    steps(stopped, 0, 3)
    stored = save({name: tensor.contiguous() for name, tensor in stopped.state().items()})
    resumed = fresh(kind)
    resumed.start_from(model(), spread=1.5)
    resumed.load_state(load(stored))
    steps(resumed, 3, 6)

    states = whole.state(), resumed.state()
    assert states[0].keys() == states[1].keys()
    assert all(torch.equal(states[0][name], states[1][name]) for name in states[0])
    assert {int(count) for name, count in states[0].items() if "updates." in name} == {12}
    drawn = [each.sample(LABELS, torch.Generator().manual_seed(3)) for each in (whole, resumed)]
    assert torch.equal(*drawn)


@pytest.mark.parametrize("kind", KINDS)
def test_every_class_is_shown_of_the_same_latent_vectors(kind: Kind) -> None:
    """Those that are voted on are among them, and they alone are moved."""
    student = fresh(kind, learning_rate=1e-3)
    shown = student.propose(LABELS, step=5, every_class=True)
    assert shown.made.shape == (12 * 3, *SHAPE)
    assert torch.equal(shown.labels.view(12, 3), torch.arange(3).expand(12, 3))
    vectors = shown.latents.view(12, 3, -1)
    assert torch.equal(vectors, vectors[:, :1].expand_as(vectors))
    assert len(torch.unique(vectors[:, 0], dim=0)) == 12
    assert torch.equal(shown.images, shown.made.view(12, 3, *SHAPE)[torch.arange(12), LABELS])
    student.follow(torch.ones_like(shown.images), step_size=0.1, updates=40)
    moved = student.propose(LABELS, step=5, every_class=True).images - shown.images
    assert moved.mean() > 0.05


def test_targets_that_are_not_cut_pull_at_what_is_nearly_white() -> None:
    """Cut to [0, 1], the distance to go is smaller than the step."""
    pulled = []
    for cut in (True, False):
        student = fresh()
        with torch.no_grad():
            student.weights["paint_bias"].fill_(5.0)
        before = student.propose(LABELS, step=0).images
        student.follow(torch.ones_like(before), step_size=0.1, cut=cut)
        pulled.append(student.state()["first.paint_bias"].abs().item())
    assert pulled[1] > 5 * pulled[0] > 0


@pytest.mark.parametrize("shape", [(1, 8, 8), (3, 30, 28), (1, 9, 11)])
def test_with_batch_norm_a_published_image_depends_on_itself_alone(
    shape: tuple[int, int, int],
) -> None:
    chance = torch.Generator().manual_seed(0)
    student = Student(DcganGenerator(shape, 3, 6, stream=chance), secret=b"test")
    images = student.propose(LABELS, step=0).images
    assert images.shape == (12, *shape)
    student.follow(torch.ones_like(images), step_size=0.1)
    generator = student.generator.eval()
    latents = torch.randn(12, 6, generator=chance)
    call = torch.func.functional_call
    whole = call(generator, student.average, (latents, LABELS))
    alone = call(generator, student.average, (latents[:1], LABELS[:1]))
    torch.testing.assert_close(whole[:1], alone)
    other = call(generator, student.average, (latents[:1], LABELS[:1] + 1))
    assert (alone - other).abs().max() > 1e-4  # the class matters
    means = [student.average[f"norm{layer}_mean"] for layer in (1, 2, 3)]
    assert all(mean.abs().max() > 0 for mean in means)  # measured, not as they began


def test_misuse_is_refused() -> None:
    student = fresh()
    with pytest.raises(DataLensError, match="nothing proposed"):
        student.follow(torch.zeros(12, *SHAPE), step_size=0.1)
    images = student.propose(LABELS, step=0).images
    with pytest.raises(DataLensError, match="shape"):
        student.follow(images[:5], step_size=0.1)
    with pytest.raises(DataLensError, match="finite"):
        student.follow(torch.full_like(images, float("nan")), step_size=0.1)
    with pytest.raises(DataLensError, match="another shape"):
        student.load_state({})
    with pytest.raises(DataLensError, match="moving_average"):
        fresh(moving_average=1.0)
    with pytest.raises(DataLensError, match="learning_rate"):
        fresh(learning_rate=float("nan"))
