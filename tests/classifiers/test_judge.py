"""The judge finds what is there, and nothing where there is nothing."""

import math

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from datalens.classifiers.judge import Judgement, judge, new_judge, taught
from datalens.classifiers.judge_cnn import convolved_and_pooled
from datalens.errors import DataLensError

Pair = tuple[torch.Tensor, torch.Tensor]
SHAPE = (1, 12, 12)


def stripes(count: int, seed: int, shape: tuple[int, int, int] = SHAPE) -> Pair:
    """Class c is noise with a bright row c: separable by anyone."""
    chance = torch.Generator().manual_seed(seed)
    labels = torch.randint(0, 3, (count,), generator=chance)
    images = torch.rand(count, *shape, generator=chance) * 0.3
    images[torch.arange(count), :, 2 * labels + 2] = 1.0
    return images, labels


def judged(train: Pair, test: Pair, **options: int) -> Judgement:
    return judge(*train, *test, 3, **{"epochs": 6, "seed": 0} | options)


@pytest.mark.parametrize("shape", [(1, 8, 8), (1, 13, 9), (3, 28, 28)])
def test_it_learns_a_separable_set(shape: tuple[int, int, int]) -> None:
    result = judged(stripes(768, 0, shape), stripes(300, 1, shape))
    assert result.accuracy > 0.95
    assert result.accuracy == result.per_epoch[-1]
    assert result.accuracy_best_on_test == max(result.per_epoch)
    assert min(result.per_class) > 0.9


@pytest.mark.parametrize("shape", [(1, 8, 8), (1, 13, 9), (3, 28, 28)])
def test_so_does_the_residual_network(shape: tuple[int, int, int]) -> None:
    train, test = stripes(768, 0, shape), stripes(300, 1, shape)
    assert judge(*train, *test, 3, network="residual", epochs=6, seed=0).accuracy > 0.95


def test_the_confusion_is_counted_by_hand() -> None:
    truth, said = np.array([0, 0, 1, 1, 1, 2]), np.array([0, 1, 1, 1, 0, 0])
    found = Judgement.of(said, truth, 4, learned_from=5)
    counted = [[0] * 4 for _ in range(4)]
    for row, column in zip(truth, said, strict=True):
        counted[row][column] += 1
    assert [list(row) for row in found.confusion] == counted
    assert found.accuracy == 3 / 6 and found.accuracy_best_on_test is None
    assert found.per_class[:3] == (1 / 2, 2 / 3, 0.0) and math.isnan(found.per_class[3])


def test_features_and_probabilities_are_those_of_the_answers() -> None:
    pupil = taught(*stripes(300, 0), 3, epochs=1, seed=0)
    images, _ = stripes(100, 1)
    scores = pupil.features(images) @ pupil.weights["output.weight"].T.detach()
    scores += pupil.weights["output.bias"].detach()
    assert torch.equal(scores.argmax(1), pupil.predict(images))
    torch.testing.assert_close(scores.double().softmax(1), pupil.probabilities(images))


def test_a_judge_goes_on_with_anothers_weights() -> None:
    pupil, other = taught(*stripes(300, 0), 3, epochs=1, seed=0), new_judge("cnn", SHAPE, 3, seed=5)
    images, _ = stripes(100, 1)
    assert not torch.equal(pupil.features(images), other.features(images))
    other.take({name: weight.detach() for name, weight in pupil.weights.items()})
    assert torch.equal(pupil.features(images), other.features(images))
    with pytest.raises(ValueError, match="another network"):
        other.take({"stem": torch.zeros(3)})


def test_shuffled_labels_teach_nothing() -> None:
    images, labels = stripes(768, 0)
    mixed = labels[torch.randperm(len(labels), generator=torch.Generator().manual_seed(5))]
    assert judged((images, mixed), stripes(600, 1)).accuracy < 0.5


def test_same_seed_same_bits_and_the_global_generator_is_left_alone() -> None:
    before = torch.get_rng_state()
    first, second = (judged(stripes(300, 0), stripes(200, 1), epochs=2) for _ in range(2))
    assert first == second
    assert torch.equal(before, torch.get_rng_state())


def test_uint8_and_float_images_are_judged_alike() -> None:
    images, labels = stripes(300, 0)
    bytes_ = (images * 255).to(torch.uint8)
    test = stripes(200, 1)
    as_float = judged((bytes_.float() / 255, labels), test, epochs=2)
    assert judged((bytes_, labels), test, epochs=2) == as_float
    numpy = judge(bytes_.numpy(), labels.numpy(), *test, 3, epochs=2, seed=0)
    assert numpy == as_float


def test_a_class_without_test_images_has_no_accuracy() -> None:
    images, labels = stripes(300, 1)
    kept = labels != 2
    result = judged(stripes(300, 0), (images[kept], labels[kept]), epochs=1)
    assert math.isnan(result.per_class[2])
    assert not math.isnan(result.accuracy)


def test_progress_is_told_of_every_epoch() -> None:
    seen: list[tuple[int, int]] = []
    train, test = stripes(64, 0), stripes(64, 1)
    judge(*train, *test, 3, epochs=3, seed=0, progress=lambda *done: seen.append(done))
    assert seen == [(1, 3), (2, 3), (3, 3)]


@pytest.mark.parametrize("shape", [(5, 1, 28, 28), (3, 3, 26, 27), (2, 1, 13, 9)])
def test_the_matrix_product_is_the_convolution(shape: tuple[int, ...]) -> None:
    chance = torch.Generator().manual_seed(0)
    images = torch.randn(shape, generator=chance, dtype=torch.float64)
    weight = torch.randn(8, shape[1], 3, 3, generator=chance, dtype=torch.float64)
    bias = torch.randn(8, generator=chance, dtype=torch.float64)
    weight.requires_grad_(), bias.requires_grad_()
    fast = convolved_and_pooled(images, weight, bias)
    plain = F.max_pool2d(F.conv2d(images, weight, bias), 2)
    torch.testing.assert_close(fast, plain)
    chosen = torch.randn(plain.shape, generator=chance, dtype=torch.float64)
    torch.testing.assert_close(
        torch.autograd.grad(fast, (weight, bias), chosen),
        torch.autograd.grad(plain, (weight, bias), chosen),
    )


@pytest.mark.parametrize(
    "spoil, word",
    [
        (lambda x, y: (x[:, 0], y), "shape"),
        (lambda x, y: (x[:, :, :6, :6], y), "sides"),
        (lambda x, y: (x[:0], y[:0]), "shape"),
        (lambda x, y: (x, y[:-1]), "labels"),
        (lambda x, y: (x, y + 1), "labels"),
        (lambda x, y: (x * 255, y), "float"),
        (lambda x, y: (torch.full_like(x, np.nan), y), "float"),
        (lambda x, y: (x[:, :, :10], y), "agree"),
    ],
)
def test_bad_input_is_refused(spoil: object, word: str) -> None:
    train = spoil(*stripes(64, 0))  # type: ignore[operator]
    with pytest.raises(DataLensError, match=word):
        judged(train, stripes(64, 1))
    with pytest.raises(DataLensError, match="epochs"):
        judged(stripes(64, 0), stripes(64, 1), epochs=0)
