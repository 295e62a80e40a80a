"""Random waves stand for their kernel; a generator finds the embedding it is given."""

import math

import numpy as np
import pytest
import torch

from datalens.ensemble.streams import stream
from datalens.student.embedding import Waves, match, squared_distances
from datalens.student.generator import Generator

SHAPE = (1, 8, 8)
COUNT = 20_000


def images(n: int = 12, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).integers(0, 256, (n, *SHAPE), dtype=np.uint8)


def kernel(pixels: np.ndarray, length_scale: float) -> np.ndarray:
    """Of a Gaussian, from its definition."""
    flat = pixels.reshape(len(pixels), -1) / 255
    apart = ((flat[:, None] - flat[None]) ** 2).sum(-1)
    return np.exp(-apart / (2 * length_scale**2 * math.prod(SHAPE)))


def test_features_have_length_one_and_are_the_same_for_records_and_images() -> None:
    waves = Waves(SHAPE, 300, length_scale=0.3, scales=2)
    rows = waves.of_records(images())
    assert rows.shape == (12, 600)
    assert np.sqrt((rows**2).sum(axis=1)) == pytest.approx(1)
    shown = waves.of_images(torch.from_numpy(images()).float() / 255).numpy()
    assert np.abs(rows - shown).max() < 1e-5
    again = Waves(SHAPE, 300, length_scale=0.3, scales=2)
    assert torch.equal(waves.frequencies, again.frequencies)


@pytest.mark.parametrize(
    "scales, lengths, fits",
    [
        (1, [0.4], True),
        (1, [0.36], False),
        (2, [0.4, 0.2], True),
        (2, [0.4, 0.4], False),
    ],
)
def test_inner_products_are_the_kernel(scales: int, lengths: list[float], fits: bool) -> None:
    """To five deviations of a mean of cosines; another kernel is further off."""
    rows = Waves(SHAPE, COUNT, length_scale=0.4, scales=scales).of_records(images())
    expected = np.mean([kernel(images(), length) for length in lengths], axis=0)
    error = np.abs(rows @ rows.T - expected).max()
    assert bool(error < 5 / math.sqrt(2 * COUNT)) is fits


@pytest.mark.parametrize("corrected, fits", [(True, True), (False, False)])
def test_the_distance_is_right_on_average(corrected: bool, fits: bool) -> None:
    """Over 4000 batches of 3; with the length of the mean as it is, it is not."""
    waves = Waves(SHAPE, 30, length_scale=0.3)
    features = torch.from_numpy(waves.of_records(images()))
    mean, target = features.mean(0), features[0]
    truth = (mean - target).square().sum() - target.square().sum()
    chance = torch.Generator().manual_seed(0)
    drawn = features[torch.randint(12, (4000, 3), generator=chance)]
    found = squared_distances(drawn, target.expand(4000, -1))
    if not corrected:
        found = (drawn.mean(1) - target).square().sum(1) - target.square().sum()
    error = abs(found.mean() - truth) / (found.std() / math.sqrt(len(found)))
    assert bool(error < 4) is fits


def test_a_generator_finds_the_embedding() -> None:
    """Stripes, a place for each class, of half of the images; noise-free."""
    waves = Waves(SHAPE, 200, length_scale=0.4)
    shown = np.zeros((40, *SHAPE), dtype=np.uint8)
    for index in range(40):
        row = 4 * (index % 2) + (index // 2) % 2
        shown[index, 0, row : row + 2] = 255
    features = torch.from_numpy(waves.of_records(shown)).float()
    sums = torch.stack([features[c::2].sum(0) for c in (0, 1)])
    counts = torch.tensor([20.0, 20.0])
    generator = Generator(SHAPE, 2, 4, stream=stream(b"x", "generator"))

    def distance(other: int = 0) -> float:
        labels = torch.arange(400) % 2
        latents = torch.randn(400, 4, generator=stream(b"x", "latents"))
        with torch.no_grad():
            found = waves.of_images(generator(latents, labels))
        means = torch.stack([found[labels == c].mean(0) for c in (0, 1)])
        return float((means - (sums / 20).roll(other, 0)).square().sum(1).mean())

    before = distance()
    told: list[int] = []
    match(
        generator,
        waves,
        sums,
        counts,
        updates=60,
        batch_size=40,
        learning_rate=1e-2,
        secret=b"x",
        progress=lambda done, total: told.append(done),
    )
    assert told == list(range(1, 61))
    assert distance() < before / 5
    assert distance(other=1) > 5 * distance()  # of its own class, not of the other
