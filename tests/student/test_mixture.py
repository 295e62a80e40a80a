"""Samples have the clusters they should; files that do not fit are refused."""

import numpy as np
import pytest
import torch

from datalens.errors import DataLensError
from datalens.student import GaussianModel, MixtureModel

SHAPE = (1, 4, 3)


def model() -> MixtureModel:
    rng = np.random.default_rng(0)
    basis = np.linalg.qr(rng.normal(size=(12, 2)))[0].T
    return MixtureModel(
        means=np.full((2, *SHAPE), 0.5, dtype=np.float32),
        basis=basis.reshape(2, *SHAPE).astype(np.float32),
        centres=np.array([[[0.2, 0], [-0.2, 0]], [[0, 0.1], [0, 0]]], dtype=np.float32),
        shares=np.array([[0.25, 0.75], [1, 0]], dtype=np.float32),
        factor=0.01 * np.eye(2, dtype=np.float32),
        grain=0.02,
    )


def test_places_lie_in_the_clusters_in_their_shares() -> None:
    labels = torch.arange(20_000) % 2
    places = model().places(labels, torch.Generator().manual_seed(0)).numpy()
    first, second = places[::2], places[1::2]
    assert (first[:, 0] > 0).mean() == pytest.approx(0.25, abs=0.015)
    np.testing.assert_allclose(first[first[:, 0] > 0].mean(axis=0), [0.2, 0], atol=1e-3)
    np.testing.assert_allclose(second.mean(axis=0), [0, 0.1], atol=1e-3)  # none from the empty one
    np.testing.assert_allclose(second.std(axis=0), 0.01, rtol=0.03)
    wide = model().places(labels, torch.Generator().manual_seed(0), spread=3.0).numpy()
    np.testing.assert_allclose(wide[1::2].std(axis=0), 0.03, rtol=0.03)


def test_images_are_the_means_moved_along_the_basis() -> None:
    mixture = model()
    places = torch.tensor([[0.1, -0.2], [50.0, 0.0]])
    images = mixture.images(places, torch.tensor([0, 1])).numpy()
    moved = 0.1 * mixture.basis[0] - 0.2 * mixture.basis[1]
    np.testing.assert_allclose(images[0], 0.5 + moved, atol=1e-6)
    assert images[1].min() == 0 and images[1].max() == 1


def test_one_gaussian_is_a_mixture_of_one_cluster() -> None:
    rng = np.random.default_rng(0)
    factor = (0.03 * rng.normal(size=(2, *SHAPE))).astype(np.float32)
    means = rng.uniform(0.4, 0.6, (2, *SHAPE)).astype(np.float32)
    mixture = MixtureModel.of(GaussianModel(means=means, factor=factor, grain=0.0))
    labels = torch.arange(40_000) % 2
    places = mixture.places(labels, torch.Generator().manual_seed(0))
    rows = mixture.images(places, labels)[1::2].flatten(1).numpy()
    np.testing.assert_allclose(rows.mean(axis=0), means[1].ravel(), atol=2e-3)
    wanted = factor.reshape(2, -1).T @ factor.reshape(2, -1)
    np.testing.assert_allclose(np.cov(rows.T), wanted, atol=3e-4)
    np.testing.assert_allclose(mixture.deviations(), 1.0)


def test_arrays_round_trip_and_strangers_are_refused() -> None:
    mixture = model()
    again = MixtureModel.from_arrays(mixture.arrays(), shape=SHAPE, n_classes=2, clusters=2)
    for name, array in mixture.arrays().items():
        assert np.array_equal(again.arrays()[name], array)
    for damage, says in (
        ({"extra": np.zeros(1, dtype=np.float32)}, "arrays"),
        ({"grain": np.array([-0.1], dtype=np.float32)}, "grain"),
        ({"factor": np.zeros((3, 2), dtype=np.float32)}, "factor"),
        ({"centres": np.zeros((2, 3, 2), dtype=np.float32)}, "centres"),
        ({"shares": np.array([[0.5, 0.4], [1, 0]], dtype=np.float32)}, "add up to 1"),
        ({"shares": np.array([[1.5, -0.5], [1, 0]], dtype=np.float32)}, "add up to 1"),
    ):
        with pytest.raises(DataLensError, match=says):
            MixtureModel.from_arrays(
                mixture.arrays() | damage, shape=SHAPE, n_classes=2, clusters=2
            )
    with pytest.raises(DataLensError, match="centres"):
        MixtureModel.from_arrays(mixture.arrays(), shape=SHAPE, n_classes=2, clusters=9)
    with pytest.raises(DataLensError, match="means"):
        MixtureModel.from_arrays(mixture.arrays(), shape=(1, 3, 4), n_classes=2, clusters=2)


def test_a_coarse_model_is_enlarged() -> None:
    large = model().enlarged((1, 8, 6))
    assert large.means.shape == (2, 1, 8, 6) and large.basis.shape == (2, 1, 8, 6)
    places = torch.zeros(3, 2)
    np.testing.assert_allclose(large.images(places, torch.tensor([0, 1, 1])).numpy(), 0.5)
