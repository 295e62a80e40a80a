"""PATE-GAN's public half: it learns what the verdicts say, and can be stored at any step."""

import pytest
import torch
from torch import Tensor

from datalens.ensemble import stream
from datalens.errors import DataLensError
from datalens.mechanism.blurring import blurred
from datalens.student.adversary import Adversary, Lesson
from datalens.student.dense_critic import LENS, DenseCritic
from datalens.student.generator import Generator

SHAPE, CLASSES, M = (1, 8, 8), 2, 16


def adversary(secret: bytes = b"secret", remembered: int = 3) -> Adversary:
    return Adversary(
        Generator(SHAPE, CLASSES, 4, stream=stream(secret, "generator")),
        DenseCritic(SHAPE, CLASSES, stream=stream(secret, "critic")),
        secret=secret,
        learning_rate=5e-3,
        critic_learning_rate=2e-3,
        moving_average=0.5,
        lesson=Lesson(
            steps=100,
            critic_updates=4,
            generator_updates=2,
            batch_size=M,
            remembered=remembered,
            diversity=0.01,
        ),
    )


def labels_of(step: int) -> Tensor:
    return torch.randint(CLASSES, (M,), generator=stream(b"labels", step))


def bright_or_dark(images: Tensor, labels: Tensor) -> Tensor:
    """What is real: class 1 is bright, class 0 dark."""
    light = images.mean((1, 2, 3))
    return torch.where(labels == 1, light, 1 - light)


def lessons(student: Adversary, steps: range) -> Adversary:
    for step in steps:
        labels = labels_of(step)
        images = student.propose(labels, step=step).images
        student.learn(images, labels, bright_or_dark(images, labels), step=step)
    return student


def contrast(student: Adversary) -> float:
    labels = torch.arange(40) % 2
    light = student.sample(labels, stream(b"sample")).mean((1, 2, 3))
    return float(light[labels == 1].mean() - light[labels == 0].mean())


def test_the_generator_learns_what_verdicts_say_of_each_class() -> None:
    assert abs(contrast(adversary())) < 0.2
    assert contrast(lessons(adversary(), range(80))) > 0.4


def test_verdicts_that_say_nothing_teach_nothing() -> None:
    """The control: it is the verdicts that it learns from."""
    student = adversary()
    for step in range(80):
        labels = labels_of(step)
        student.learn(
            student.propose(labels, step=step).images, labels, torch.full((M,), 0.5), step=step
        )
    assert abs(contrast(student)) < 0.2


@pytest.mark.parametrize("first", [1, 2, 5])
def test_a_restored_one_goes_on_bit_for_bit(first: int) -> None:
    whole = lessons(adversary(), range(7))
    begun = lessons(adversary(), range(first))
    stored = {name: tensor.clone() for name, tensor in begun.state().items()}
    other = lessons(adversary(), range(2))  # whatever it was before
    other.load_state(stored)
    for name, tensor in lessons(other, range(first, 7)).state().items():
        assert torch.equal(tensor, whole.state()[name]), name


def test_all_chance_comes_from_the_secret() -> None:
    one, same, other = (lessons(adversary(s), range(3)) for s in (b"a", b"a", b"b"))
    assert all(torch.equal(t, same.state()[n]) for n, t in one.state().items())
    assert any(not torch.equal(t, other.state()[n]) for n, t in one.state().items())


def test_a_state_of_another_size_is_refused() -> None:
    with pytest.raises(DataLensError, match="another shape"):
        adversary().load_state(adversary(remembered=4).state())


def test_the_generator_learns_ever_more_slowly_and_not_at_all_after_its_last_lesson() -> None:
    def moved(step: int) -> float:
        student = adversary()
        before = {name: weight.detach().clone() for name, weight in student.weights.items()}
        images, labels = student.propose(labels_of(0), step=0).images, labels_of(0)
        student.learn(images, labels, bright_or_dark(images, labels), step=step)
        return float(sum((w.detach() - before[n]).abs().sum() for n, w in student.weights.items()))

    assert moved(0) > moved(90) > moved(100) == 0


def test_the_critic_does_not_see_grain() -> None:
    """Alternate pixels are all but grey behind its lens; a shape as large as an image is not."""
    critic = DenseCritic(SHAPE, CLASSES, stream=stream(b"critic"))
    grey, labels = torch.full((1, *SHAPE), 0.5), torch.zeros(1, dtype=torch.int64)
    grain, halves = grey.clone(), grey.clone()
    grain[..., ::2, ::2] = grain[..., 1::2, 1::2] = 1
    grain[..., 1::2, ::2] = grain[..., ::2, 1::2] = 0
    halves[..., :4] = 0
    halves[..., 4:] = 1
    middle = (slice(None), slice(None), slice(3, 5), slice(3, 5))
    lens = torch.tensor(LENS)
    assert (blurred(grain, lens) - blurred(grey, lens))[middle].abs().max() < 0.01
    plain = critic(grey, labels)
    assert (critic(grain, labels) - plain).abs() < 0.5 * (critic(halves, labels) - plain).abs()
    sharp = DenseCritic(SHAPE, CLASSES, stream=stream(b"critic"), soft=False)
    torch.testing.assert_close(sharp(blurred(halves, lens), labels), critic(halves, labels))
    assert (sharp(grain, labels) - sharp(grey, labels)).abs() > (
        critic(grain, labels) - plain
    ).abs()
