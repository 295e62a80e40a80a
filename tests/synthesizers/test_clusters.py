"""Clusters that are there are found, from noisy sums alone."""

import numpy as np
import torch

from datalens.data import PublicFacts, Records
from datalens.mechanism.noise import SeededNoise
from datalens.privacy.accountants import total_rho
from datalens.student import GaussianModel, MixtureModel
from datalens.synthesizers.clusters import ROUNDS, ClusterPlan, spread_of

SHAPE, N = (1, 8, 8), 6000
FACTOR = np.zeros((2, 64))
FACTOR[0, :8], FACTOR[1, 32:40] = 0.1, 0.1
OFFSETS = np.array([[1.4, 0.4], [-1.4, 0.4], [0.0, -1.6]])


class Shop:
    """Sells seeded releases, and remembers what it sold; some it has lost."""

    def __init__(self, lost: tuple[str, ...] = ()) -> None:
        self.sold: list[str] = []
        self.lost = lost

    def obtain(self, key, mechanism, query, *, shape=None):  # type: ignore[no-untyped-def]
        self.sold.append(key)
        if key in self.lost:
            return None
        value = query()
        release = value + mechanism.draw(value.shape, noise=SeededNoise(b"test"), key=key)
        assert shape is None or release.shape == shape
        return release


def records() -> Records:
    """Two classes of three clusters, the second upside down."""
    rng = np.random.default_rng(0)
    labels, own = rng.integers(0, 2, N), rng.integers(0, 3, N)
    places = OFFSETS[own] * np.where(labels == 0, 1, -1)[:, None] + 0.1 * rng.normal(size=(N, 2))
    pixels = np.rint(255 * (0.5 + places @ FACTOR)).clip(0, 255).astype(np.uint8)
    return Records.from_arrays(pixels.reshape(-1, *SHAPE), labels, n_classes=2)


def gaussian() -> GaussianModel:
    means = np.full((2, *SHAPE), 0.5, dtype=np.float32)
    factor = FACTOR.reshape(2, *SHAPE).astype(np.float32)
    return GaussianModel(means=means, factor=factor, grain=0.0)


def bought(rho: float = 10.0, clusters: int | None = 8, shop: Shop | None = None) -> MixtureModel:
    private = records()
    plan = ClusterPlan.within(rho, public=private.public, clusters=clusters)
    return plan.buy(private, shop or Shop(), gaussian(), torch.Generator().manual_seed(1))


def distance(mixture: MixtureModel) -> float:
    """Of the records' own centres, on average, from the nearest that was found."""
    basis = mixture.basis.reshape(2, -1)
    apart = []
    for sign, centres, shares in zip((1, -1), mixture.centres, mixture.shares, strict=True):
        truth = sign * OFFSETS @ FACTOR @ basis.T
        found = centres[shares > 0.02]
        apart.append(np.linalg.norm(truth[:, None] - found[None], axis=2).min(axis=1))
    return float(np.mean(apart))


def test_clusters_are_found_where_they_are() -> None:
    good, noisy = bought(), bought(rho=1e-5)
    scale = np.linalg.norm(FACTOR[0])  # clusters lie about 1.6 of these from the mean
    assert distance(good) < 0.15 * scale
    assert distance(noisy) > 2 * distance(good)
    np.testing.assert_allclose(good.shares.sum(axis=1), 1, rtol=1e-5)
    assert (good.centres[good.shares == 0] == 0).all()


def test_what_is_left_within_a_cluster_is_its_spread() -> None:
    mixture = bought()
    found = np.sqrt(np.diag(mixture.factor.T @ mixture.factor))
    spread = 0.1 * np.linalg.norm(FACTOR[0])
    assert (spread * 0.7 < found).all() and (found < spread * 4).all()  # few centres are spare
    assert (found < 0.35 * np.linalg.norm(FACTOR, axis=1)).all()  # far less than the whole


def test_a_lost_round_is_passed_over_and_a_lost_spread_is_that_of_the_class() -> None:
    shop = Shop(lost=("clusters/1", "cluster-moments"))
    mixture = bought(shop=shop)
    assert shop.sold == [*(f"clusters/{i}" for i in range(ROUNDS)), "cluster-moments"]
    assert distance(mixture) < 0.5 * np.linalg.norm(FACTOR[0])
    np.testing.assert_allclose(np.diag(mixture.factor), np.linalg.norm(FACTOR, axis=1), rtol=1e-5)


def test_buying_again_what_is_bought_gives_the_same() -> None:
    first, second = bought(), bought()
    for name, array in first.arrays().items():
        assert np.array_equal(array, second.arrays()[name])


def test_a_model_without_directions_has_clusters_without_places() -> None:
    private, flat = records(), np.zeros((0, *SHAPE), dtype=np.float32)
    model = GaussianModel(means=gaussian().means, factor=flat, grain=0.1)
    plan = ClusterPlan.within(1.0, public=private.public, clusters=2)
    mixture = plan.buy(private, Shop(), model, torch.Generator().manual_seed(1))
    assert mixture.rank == 0 and np.allclose(mixture.shares.sum(axis=1), 1)


def facts(n: int) -> PublicFacts:
    return PublicFacts(name="made", n_records=n, shape=SHAPE, class_names=("a", "b"))


def test_more_budget_and_more_records_bear_more_clusters() -> None:
    def clusters(rho: float, n: int) -> int:
        return ClusterPlan.within(rho, public=facts(n)).clusters

    assert clusters(1e-9, 1000) == 1
    assert clusters(0.001, 20_000) < clusters(0.1, 20_000) < clusters(0.1, 200_000)


def test_the_plan_costs_what_it_may() -> None:
    for rho in (1e-4, 0.02, 3.0):
        plan = ClusterPlan.within(rho, public=facts(5000))
        assert 0.999 * rho < total_rho(plan.charges) <= rho * (1 + 1e-9)


def test_noise_does_not_make_a_spread() -> None:
    rng = np.random.default_rng(0)
    noise, rank = 0.5, 30
    full = rng.normal(0, noise, (rank, rank))
    factor = spread_of((full + full.T) / 2**0.5, noise=noise)
    largest = np.linalg.eigvalsh(factor.T @ factor).max()
    assert largest < 2.5 * noise * rank**0.5
    assert np.linalg.eigvalsh(factor.T @ factor).min() > 0
