"""Known moments come back; noise is recognised as noise."""

import numpy as np
import pytest
import torch

from datalens.errors import DataLensError
from datalens.student import GaussianModel, Grain, class_centres, fit_gaussian
from datalens.student.gaussian import (
    denoised_means,
    frequencies,
    grains,
    low_rank_factor,
    smooth_factor,
)

GRID = (1, 6, 5)
D, N, CLASSES = 30, 20_000, 4


def drawn(rank: int = 3) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Pixels, labels, and the means and factor they were drawn from."""
    rng = np.random.default_rng(0)
    means = rng.uniform(80, 170, (CLASSES, D))
    factor = np.linalg.qr(rng.normal(size=(D, rank)))[0].T * np.array([[60.0], [40.0], [30.0]])
    labels = rng.integers(0, CLASSES, N)
    pixels = means[labels] + rng.normal(size=(N, rank)) @ factor
    return np.rint(pixels).astype(np.int64), labels, means, factor


def moments(noise: float = 0.0) -> dict[str, np.ndarray]:
    pixels, labels, _, _ = drawn()
    rng = np.random.default_rng(1)
    sums = np.stack([pixels[labels == c].sum(0) for c in range(CLASSES)])
    counts = np.bincount(labels).astype(float)
    rest = pixels - class_centres(sums, counts)[labels]
    return {"sums": sums, "second": rest.T @ rest + symmetric(rng, D, noise), "counts": counts}


def symmetric(rng: np.random.Generator, d: int, noise: float) -> np.ndarray:
    """As releases have it: of deviation `noise` beside the diagonal, and more on it."""
    full = rng.normal(0, noise, (d, d))
    return (full + full.T) / 2**0.5


def test_known_moments_come_back_without_noise() -> None:
    _, _, means, factor = drawn()
    model = fit_gaussian(**moments(), sums_sigma=0.0, second_sigma=0.0, grid=GRID, rank=3)
    np.testing.assert_allclose(model.means.reshape(CLASSES, D) * 255, means, atol=2)
    found = model.factor.reshape(3, D) * 255
    wanted = factor.T @ factor
    assert np.linalg.norm(found.T @ found - wanted) < 0.05 * np.linalg.norm(wanted)


def test_samples_have_the_models_moments() -> None:
    rng = np.random.default_rng(0)
    factor = (0.03 * rng.normal(size=(2, *GRID))).astype(np.float32)
    means = rng.uniform(0.4, 0.6, (2, *GRID)).astype(np.float32)
    model = GaussianModel(means=means, factor=factor, grain=0.02)
    labels = np.repeat([0, 1], 20_000)
    clean = model.sample(labels, torch.Generator().manual_seed(0))
    grain = Grain(deviation=model.grain)
    images = grain.on(clean, 1.0, torch.Generator().manual_seed(1))
    assert (grain.on(clean, 0.5, torch.Generator()) - clean).std() == pytest.approx(0.01, rel=0.02)
    assert images.dtype == clean.dtype == np.float32
    assert images.min() >= 0 and images.max() <= 1
    for c in range(2):
        rows = images[labels == c].reshape(-1, D)
        np.testing.assert_allclose(rows.mean(0), means[c].ravel(), atol=2e-3)
        wanted = factor.reshape(2, D).T @ factor.reshape(2, D) + 0.02**2 * np.eye(D)
        np.testing.assert_allclose(np.cov(rows.T), wanted, atol=3e-4)
    again = model.sample(labels, torch.Generator().manual_seed(0))
    assert np.array_equal(clean, again)


def test_rank_is_what_stands_out_of_the_noise() -> None:
    sigma = 0.02 * 30**2 * N / D**0.5  # the edge is far below the smallest of three directions
    noisy = moments(noise=sigma)
    options = {"sums_sigma": 0.0, "grid": GRID}
    assert fit_gaussian(**noisy, second_sigma=sigma, **options).rank == 3
    assert fit_gaussian(**noisy, second_sigma=sigma, **options, rank=2).rank == 2
    assert fit_gaussian(**noisy, second_sigma=sigma / 10, **options).rank > 3  # noise unknown
    assert fit_gaussian(**noisy, second_sigma=sigma * 1e4, **options).rank == 0


def test_grain_is_the_variance_that_the_factor_leaves() -> None:
    _, _, _, factor = drawn()
    options = {"sums_sigma": 0.0, "second_sigma": 0.0, "grid": GRID}
    whole, cut = (fit_gaussian(**moments(), **options, rank=rank) for rank in (3, 2))
    assert whole.grain * 255 < 1  # what rounding adds
    assert cut.grain * 255 == pytest.approx((np.square(factor[2]).sum() / D) ** 0.5, rel=0.05)


def test_shrinking_beats_not_shrinking() -> None:
    rng = np.random.default_rng(0)
    d, noise = 200, 0.1
    basis = np.linalg.qr(rng.normal(size=(d, 4)))[0]
    truth = (basis * [8.0, 4.0, 2.5, 2.0]) @ basis.T
    seen = truth + symmetric(rng, d, noise)
    shrunk, raw = (low_rank_factor(seen, s, rank=4) for s in (noise, 0.0))
    errors = [np.linalg.norm(f.T @ f - truth) for f in (shrunk, raw)]
    assert errors[0] < 0.9 * errors[1]


def smooth_images(rng: np.random.Generator, count: int, grid: tuple[int, int, int]) -> np.ndarray:
    """Random images whose high frequencies are weak."""
    waves = frequencies(grid)
    strength = 1 / (1 + np.arange(len(waves)) % (grid[1] * grid[2])) ** 0.5
    return (rng.normal(size=(count, len(waves))) * strength) @ waves


def test_means_lose_their_noise_and_nothing_else() -> None:
    rng = np.random.default_rng(0)
    grid = (1, 20, 20)
    truth = smooth_images(rng, 5, grid)
    for noise in (0.01, 0.1, 3.0):
        seen = truth + rng.normal(0, noise, truth.shape)
        denoised = denoised_means(seen, noise=np.full(5, noise), grid=grid)
        errors = [((m - truth) ** 2).mean() for m in (denoised, seen)]
        assert errors[0] <= errors[1] * 1.001
    assert errors[0] < 0.1 * errors[1]
    same = denoised_means(truth, noise=np.zeros(5), grid=grid)
    np.testing.assert_allclose(same, truth, atol=1e-12)


def test_the_waves_are_an_orthonormal_basis_with_the_lowest_first() -> None:
    whole, low = frequencies((2, 6, 5)), frequencies((2, 6, 5), 0.5)
    np.testing.assert_allclose(whole @ whole.T, np.eye(60), atol=1e-12)
    assert low.shape == (2 * 3 * 3, 60)
    rough = np.abs(np.diff(low.reshape(-1, 2, 6, 5), axis=2)).sum(axis=(1, 2, 3)).max()
    assert rough < np.abs(np.diff(whole.reshape(-1, 2, 6, 5), axis=2)).sum(axis=(1, 2, 3)).max()


def test_smooth_directions_are_found_in_noise_that_hides_them_from_a_plain_search() -> None:
    rng, grid, noise = np.random.default_rng(0), (1, 20, 20), 0.1
    waves = frequencies(grid, 0.3)
    factor = np.diag([2.0, 1.8, 1.7, 1.3]) @ waves[:4]
    seen = factor.T @ factor + symmetric(rng, 400, noise)
    assert len(low_rank_factor(seen, noise)) < len(smooth_factor(seen, noise, grid))
    errors = [
        np.linalg.norm(found.T @ found - factor.T @ factor)
        for found in (smooth_factor(seen, noise, grid), low_rank_factor(seen, noise))
    ]
    assert errors[0] < 0.7 * errors[1]


@pytest.mark.parametrize(
    "grid, shape", [((1, 8, 8), (1, 8, 8)), ((1, 5, 4), (1, 13, 10)), ((3, 16, 16), (3, 64, 64))]
)
def test_a_coarse_grid_fills_the_whole_image(
    grid: tuple[int, int, int], shape: tuple[int, int, int]
) -> None:
    d = int(np.prod(grid))
    flat = fit_gaussian(
        sums=np.full((2, d), 100 * 51),
        second=np.zeros((d, d)),
        counts=np.full(2, 100.0),
        sums_sigma=0.0,
        second_sigma=1.0,
        grid=grid,
    ).enlarged(shape)
    assert flat.means.shape == (2, *shape)
    np.testing.assert_allclose(flat.means, 0.2, rtol=1e-5)
    assert flat.sample(np.array([0, 1, 1]), torch.Generator().manual_seed(0)).shape == (3, *shape)


def test_some_images_have_much_uneven_grain_and_some_none() -> None:
    grey = np.full((4000, 1, 8, 8), 0.5, dtype=np.float32)
    grained = Grain(deviation=0.05, uneven=True).on(grey, 1.0, torch.Generator().manual_seed(0))
    strength = (grained - grey).reshape(len(grey), -1).std(axis=1)
    assert strength.min() < 0.005 and 0.09 < strength.max() < 0.13
    assert float(strength.mean()) == pytest.approx(0.05, rel=0.05)


@pytest.mark.parametrize("block", [1, 4, 5])
def test_grain_is_as_large_as_what_is_known(block: int) -> None:
    """The deviation of a block is that of its middle; between two middles noise is softer."""
    shape = torch.Size((500, 3, 20, 20))
    found = grains(shape, block, torch.Generator().manual_seed(0))
    assert found.shape == shape
    beside = (found[..., 1:] - found[..., :-1]).std()
    assert float(beside) == pytest.approx(2**0.5, rel=0.02) if block == 1 else beside < 0.4
    if block == 1:
        plain = torch.randn(shape, generator=torch.Generator().manual_seed(0))
        assert torch.equal(found, plain)
    if block == 5:  # a middle is a pixel
        assert float(found[..., 2::5, 2::5].std()) == pytest.approx(1, rel=0.02)


def test_arrays_round_trip_and_strangers_are_refused() -> None:
    model = fit_gaussian(**moments(), sums_sigma=0.0, second_sigma=0.0, grid=GRID)
    again = GaussianModel.from_arrays(model.arrays(), shape=GRID)
    assert np.array_equal(again.means, model.means)
    assert again.grain == pytest.approx(model.grain)
    with pytest.raises(DataLensError, match="no class-gaussian"):
        GaussianModel.from_arrays(model.arrays(), shape=(1, 5, 6))
    with pytest.raises(DataLensError, match="second moments"):
        fit_gaussian(**moments(), sums_sigma=0.0, second_sigma=0.0, grid=(1, 6, 6))
