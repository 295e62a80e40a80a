"""Membership inference finds a generator that copies, and accuses no other."""

import numpy as np
import pytest
from scipy.stats import binomtest
from sklearn.metrics import roc_auc_score

from datalens.errors import DataLensError
from datalens.utility.membership import Membership, density_ratio, judged, membership
from datalens.utility.membership import attacked as attacked_splits


def people(count: int, seed: int) -> np.ndarray:
    """Images of one population: smooth blobs at chance places."""
    chance = np.random.default_rng(seed)
    centre, size = chance.uniform(2, 10, (count, 2, 1, 1)), chance.uniform(1, 3, (count, 1, 1))
    row, column = np.mgrid[:12, :12]
    away = (row - centre[:, 0]) ** 2 + (column - centre[:, 1]) ** 2
    noise = chance.normal(0, 0.05, (count, 12, 12))
    return (255 * np.clip(np.exp(-away / size**2) + noise, 0, 1)).astype(np.uint8)[:, None]


def attacked(synthetic: np.ndarray) -> dict[str, Membership]:
    found = membership(
        members=people(500, 1), others=people(500, 2), reference=people(800, 3), synthetic=synthetic
    )
    return {figures.attack: figures for figures in found}


def test_a_generator_that_copies_is_flagged() -> None:
    found = attacked(people(500, 1))
    assert found["nearest neighbour"].auc > 0.99
    assert found["nearest neighbour"].hits_at_one_percent > 0.9
    for figures in found.values():
        assert figures.auc_interval[0] > 0.6, figures


def test_a_generator_that_never_saw_the_members_is_not() -> None:
    for figures in attacked(people(500, 4)).values():
        low, high = figures.auc_interval
        assert low < 0.5 < high, figures
        assert figures.hits_interval[0] < 0.02, figures


@pytest.mark.parametrize("shift, differs", [(0, False), (40, True)])
def test_the_control_shows_how_far_splits_differ_of_themselves(shift: int, differs: bool) -> None:
    """A generator that never saw the members, and a test split that is darker, or is not."""
    train, drawn = people(1000, 1), people(500, 4)
    unseen = np.maximum(people(1000, 2).astype(int) - shift, 0).astype(np.uint8)
    density = attacked_splits(drawn, train, unseen)[1]
    assert (density.auc > 0.6) is differs and density.control_auc is not None
    assert (density.control_auc > 0.6) is differs
    copied = attacked_splits(train, train, unseen)
    assert all(figures.auc > (figures.control_auc or 1) + 0.05 for figures in copied)


def test_nobody_is_in_two_groups(monkeypatch: pytest.MonkeyPatch) -> None:
    groups = []

    def caught(**given: np.ndarray) -> list[Membership]:
        groups.append({name: set(group[:, 0, 0, 0]) for name, group in given.items()})
        return []

    monkeypatch.setattr("datalens.utility.membership.membership", caught)
    numbers = np.arange(60, dtype=np.uint8)[:, None, None, None]
    assert attacked_splits(numbers[50:], numbers[:30], numbers[30:50]) == []
    own, control = groups
    assert own["members"] < set(range(30)) and own["synthetic"] == set(range(50, 60))
    assert own["others"] | own["reference"] == set(range(30, 50))
    assert not own["others"] & own["reference"]
    assert control["synthetic"] == set(range(30)) - own["members"]
    assert all(control[name] == own[name] for name in ("members", "others", "reference"))


def test_members_found_are_counted_beyond_the_last_false_alarm() -> None:
    chance = np.random.default_rng(1)
    inside, outside = chance.normal(1, 1, 300), chance.normal(0, 1, 500)
    figures = judged("test", inside, outside)
    alarms = [int((outside > at).sum()) for at in inside]
    hits = sum(count < 0.01 * 500 for count in alarms)
    assert figures.hits_at_one_percent == pytest.approx(hits / 300, abs=1 / 300) and hits > 10
    exact = binomtest(round(figures.hits_at_one_percent * 300), 300).proportion_ci(method="exact")
    assert figures.hits_interval == pytest.approx((exact.low, exact.high))


def test_the_density_ratio_is_the_one_written_out() -> None:
    """In two dimensions, where the space is only turned and scaled."""
    chance = np.random.default_rng(2)
    asked, drawn, near = (chance.normal(at, 1, (150, 2)) for at in (0, 0.5, 0))
    centre, (spread, turn) = near.mean(0), np.linalg.eigh(np.cov(near.T))

    def log_density(group: np.ndarray) -> np.ndarray:
        places, at = ((x - centre) @ turn / np.sqrt(spread) for x in (group, asked))
        width = len(group) ** (-1 / 6)  # Scott's rule
        away = ((at[:, None] - places[None]) ** 2).sum(-1)
        kernels = np.exp(-away / (2 * width**2)) / (2 * np.pi * width**2)
        return np.log(kernels.mean(1))

    expected = log_density(drawn) - log_density(near)
    assert density_ratio(asked, drawn, near) == pytest.approx(expected, abs=1e-8)


def test_the_area_is_the_usual_one_and_its_interval_covers_it() -> None:
    chance = np.random.default_rng(0)
    truth, covered = 0.7602, 0  # of two normals one deviation apart: Phi(1 / sqrt(2))
    for _ in range(200):
        inside, outside = chance.normal(1, 1, 60), chance.normal(0, 1, 80)
        figures = judged("test", inside, outside)
        known = np.repeat([1, 0], [60, 80])
        expected = roc_auc_score(known, np.concatenate([inside, outside]))
        assert figures.auc == pytest.approx(expected)
        covered += figures.auc_interval[0] < truth < figures.auc_interval[1]
    assert 178 <= covered < 200  # 190 expected; and intervals are not all of [0, 1]


def test_ties_count_half() -> None:
    figures = judged("test", np.ones(100), np.ones(100))
    assert figures.auc == 0.5 and figures.hits_at_one_percent == 0


def test_what_cannot_be_compared_is_refused() -> None:
    with pytest.raises(DataLensError, match="100 records"):
        attacked(people(50, 1))
    with pytest.raises(DataLensError, match="different shapes"):
        attacked(people(500, 1)[:, :, :8])
