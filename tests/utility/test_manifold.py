"""Precision, recall, density and coverage, by loops over all pairs."""

import numpy as np
import pytest

from datalens.errors import DataLensError
from datalens.utility.manifold import Prdc, prdc


def by_loops(real: np.ndarray, synthetic: np.ndarray, k: int) -> Prdc:
    def away(a: np.ndarray, b: np.ndarray) -> float:
        return float(np.sqrt(((a - b) ** 2).sum()))

    def reach(points: np.ndarray, i: int) -> float:
        return sorted(away(points[i], p) for j, p in enumerate(points) if j != i)[k - 1]

    reaches = [reach(real, i) for i in range(len(real))]
    own = [reach(synthetic, j) for j in range(len(synthetic))]
    pairs = [[away(r, s) for s in synthetic] for r in real]
    n, m = range(len(real)), range(len(synthetic))
    return Prdc(
        precision=sum(any(pairs[i][j] <= reaches[i] for i in n) for j in m) / len(m),
        recall=sum(any(pairs[i][j] <= own[j] for j in m) for i in n) / len(n),
        density=sum(pairs[i][j] <= reaches[i] for i in n for j in m) / (k * len(m)),
        coverage=sum(any(pairs[i][j] <= reaches[i] for j in m) for i in n) / len(n),
    )


@pytest.mark.parametrize("seed", range(4))
def test_every_figure_is_that_of_the_loops(seed: int) -> None:
    chance = np.random.default_rng(seed)
    real, synthetic = chance.normal(size=(40, 3)), chance.normal(0.7, 0.6, (55, 3))
    found = prdc(real, synthetic, neighbours=3 + seed)
    expected = by_loops(real, synthetic, 3 + seed)
    assert found.to_json() == pytest.approx(expected.to_json())
    swapped = by_loops(synthetic, real, 3 + seed)
    assert swapped.to_json() != pytest.approx(found.to_json())  # the two sets are not alike here


def test_many_images_are_taken_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    import sklearn

    chance = np.random.default_rng(9)
    real, synthetic = chance.normal(size=(700, 4)), chance.normal(0.5, 1, (600, 4))
    whole = prdc(real, synthetic)
    with sklearn.config_context(working_memory=0.2):  # MiB: 43 rows at a time
        assert prdc(real, synthetic) == whole


@pytest.mark.parametrize("times, density", [(1, 1.2), (10, 2.0)])
def test_a_point_on_the_rim_is_inside(times: int, density: float) -> None:
    """A set against itself: of each point, as often as it is there, and its five neighbours."""
    points = np.repeat(np.random.default_rng(3).normal(30, 5, (50, 64)), times, axis=0)
    found = prdc(points, points)
    assert found == Prdc(precision=1, recall=1, density=density, coverage=1)


def test_what_each_figure_sees() -> None:
    chance = np.random.default_rng(0)
    real = chance.normal(size=(500, 4))
    one_kind = prdc(real, chance.normal(0, 0.05, (500, 4)))
    assert one_kind.precision > 0.95 and one_kind.recall < 0.05 and one_kind.coverage < 0.3
    elsewhere = prdc(real, chance.normal(20, 1, (500, 4)))
    assert elsewhere == Prdc(precision=0, recall=0, density=0, coverage=0)
    alike = prdc(real, chance.normal(size=(500, 4)))
    assert alike.density == pytest.approx(1, abs=0.15) and alike.coverage > 0.9


def test_too_few_images_are_refused() -> None:
    with pytest.raises(DataLensError, match="more than 5 images"):
        prdc(np.zeros((5, 2)), np.zeros((50, 2)))
