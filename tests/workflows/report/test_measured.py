"""The internal page of a real run: each figure of its evaluation, computed another way."""

import re
from pathlib import Path

import numpy as np
import pytest
from scipy.optimize import minimize
from scipy.spatial.distance import cdist
from scipy.special import logsumexp
from scipy.stats import binomtest
from sklearn.metrics import roc_auc_score

from datalens.data import load
from datalens.synthesizers import METHODS
from datalens.workflows.cache import Cache
from datalens.workflows.evaluation import Effort, evaluate_synthetic
from datalens.workflows.fitting import fit_run
from datalens.workflows.report.internal import write_internal
from datalens.workflows.runs import load_run
from datalens.workflows.source import Source

from .test_public import text_of

TEST = 397
EFFORT = Effort(judged=TEST, measured=TEST, classifiers=("cnn", "logistic-regression"))
"""As many synthetic images as there are test records: all take part in everything."""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("measured")
    source, run = Source(name="digits"), folder / "run"
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("DATALENS_HOME", str(folder / "home"))
        fit_run(METHODS["class-gaussian"](epsilon=10.0), source, run, ledger=None, seed=None)
        evaluate_synthetic(run, source, effort=EFFORT)
        write_internal(run)
    return folder


@pytest.fixture
def page(folder: Path) -> str:
    return text_of((folder / "run/internal/report.html").read_text())


def after(text: str, words: str) -> float:
    """The figure that stands behind these words."""
    found = re.search(re.escape(words) + r" (-?[\d.,]+)( %)?", text)
    assert found, words
    return float(found[1].replace(",", "").rstrip(".")) / (100 if found[2] else 1)


def close(number: float) -> object:
    """As three digits, or per cent with one behind the point, show it."""
    return pytest.approx(number, rel=6e-3, abs=6e-4)


def frechet(one: np.ndarray, other: np.ndarray) -> float:
    """By the eigenvalues of the product itself, whose roots add up to the trace of its root."""
    first, second = np.cov(one.T), np.cov(other.T)
    roots = np.sqrt(np.linalg.eigvals(first @ second).real.clip(0))
    apart = np.square(one.mean(0) - other.mean(0)).sum()
    return float(apart + np.trace(first + second) - 2 * roots.sum())


def test_each_figure_is_found_another_way(page: str, folder: Path) -> None:
    train, test = load("digits"), load("digits", split="test")
    images, _ = load_run(folder / "run").sample(TEST, seed=0)
    domain = Cache().domain(train)
    assert f"learnt from {TEST} synthetic images tested on {TEST} real images of digits" in page
    assert "To be read with the figures" not in page  # nothing was left out

    right = (domain.probabilities(test.images).argmax(1) == test.labels).mean()
    assert after(page, "higher is better; by a classifier that is") == close(right)
    assert f"right on {TEST} real images" in page
    p = domain.probabilities(images)
    divergences = [(each * np.log(each / p.mean(0))).sum() for each in p]
    assert after(page, "inception score") == close(np.exp(np.mean(divergences)))

    ours, theirs = domain.features(images), domain.features(test.images)
    assert after(page, "FID") == close(frechet(ours, theirs))
    chance = np.random.default_rng(0)
    ours, theirs = chance.permutation(ours), chance.permutation(theirs)
    sizes, means = [TEST // parts for parts in (4, 3, 2, 1)], []
    for size in sizes:
        starts = range(0, TEST - size + 1, size)
        means.append(np.mean([frechet(ours[i:][:size], theirs[i:][:size]) for i in starts]))
    line = np.polyfit(1 / np.array(sizes), means, 1)
    assert after(page, f"from {TEST} images of each kind,") == close(line[1])
    features = f"domain classifier, 64 dimensions. {TEST} synthetic images were compared with"
    assert f"{features} {TEST} real" in page

    reach = np.sort(cdist(theirs, theirs), axis=1)[:, 5]  # the first is itself
    within = cdist(ours, theirs) <= reach
    assert after(page, "precision") == close(within.any(1).mean())
    reached = np.sort(cdist(ours, ours), axis=1)[:, 5]
    assert after(page, "recall") == close((cdist(theirs, ours) <= reached).any(1).mean())
    assert after(page, "density") == close(within.sum() / (5 * TEST))
    assert after(page, "coverage") == close((cdist(theirs, ours).min(1) <= reach).mean())


def test_so_is_each_figure_on_copies(page: str, folder: Path) -> None:
    train, test = load("digits").images, load("digits", split="test").images
    images, _ = load_run(folder / "run").sample(TEST, seed=0)
    flat = {"train": train, "test": test, "drawn": images}
    flat = {name: each.reshape(len(each), -1) / 255 for name, each in flat.items()}
    ours, theirs = (cdist(flat[name], flat["train"]).min(1) for name in ("drawn", "test"))
    percents = (1, 5, 25, 50, 75, 95, 99)
    heads = " ".join(str(percent) for percent in percents)
    rows = rf"Percentile {heads} synthetic ([\d. ]+) held-out ([\d. ]+) "
    shown = re.search(rows, page)
    assert shown and [[float(each) for each in row.split()] for row in shown.groups()] == [
        [close(np.percentile(distances, percent)) for percent in percents]
        for distances in (ours, theirs)
    ]
    known = {record.tobytes() for record in train}
    assert after(page, "copies") == sum(image.tobytes() in known for image in images)
    nearer = (ours < np.percentile(theirs, 1)).mean()
    assert after(page, "nearer than held-out records") == close(nearer)
    assert after(page, "looked among") == len(train)

    chance = np.random.default_rng(0)
    mixed = flat["train"][chance.permutation(len(train))]
    members, further = mixed[: len(train) // 2], mixed[len(train) // 2 :]
    others = flat["test"][chance.permutation(TEST)[: TEST // 2]]
    areas = []
    for samples in (further, flat["drawn"]):
        inside, outside = (-cdist(group, samples).min(1) for group in (members, others))
        seen = np.repeat([1, 0], [len(inside), len(outside)])
        areas.append(roc_auc_score(seen, np.concatenate([inside, outside])))
    assert after(page, "nearest neighbour") == close(areas[1])
    threshold = np.sort(outside)[-2]  # of 198, one in a hundred is above it
    row = re.search(r"nearest neighbour [\d.]+ [\d.]+ to [\d.]+ ([\d.]+) ([\d.]+) %", page)
    assert row and float(row[1]) == close(areas[0])
    assert float(row[2]) / 100 == close((inside > threshold).mean())
    figures = (
        r"nearest neighbour [\d.]+ ([\d.]+) to ([\d.]+) [\d.]+ [\d.]+ % ([\d.]+) % to ([\d.]+) %"
    )
    ends = [float(each) for each in re.search(figures, page).groups()]  # type: ignore[union-attr]
    assert ends[:2] == [close(end) for end in around(inside, outside)]
    exact = binomtest(int((inside > threshold).sum()), len(inside)).proportion_ci(method="exact")
    assert [end / 100 for end in ends[2:]] == [close(exact.low), close(exact.high)]

    near = flat["test"][chance_of_others(TEST)]
    middle = near.mean(0)
    _, roots, directions = np.linalg.svd(near - middle, full_matrices=False)
    scale = directions[:8].T / (roots[:8] / np.sqrt(len(near) - 1))
    places = {"members": members, "others": others, "near": near, "drawn": flat["drawn"]}
    places = {name: (each - middle) @ scale for name, each in places.items()}
    scores = []
    for group in ("members", "others"):
        logs = []
        for kind in ("drawn", "near"):
            width = len(places[kind]) ** (-1 / 12)  # Scott's rule, in eight dimensions
            bells = -np.square(cdist(places[group], places[kind])) / (2 * width**2)
            logs.append(logsumexp(bells, axis=1) - np.log(len(places[kind])) - 8 * np.log(width))
        scores.append(logs[0] - logs[1])
    seen = np.repeat([1, 0], [len(each) for each in scores])
    assert after(page, "density ratio") == close(roc_auc_score(seen, np.concatenate(scores)))


def around(inside: np.ndarray, outside: np.ndarray) -> tuple[float, float]:
    """95 % about the area, from all pairs of a member and another (DeLong et al. 1988)."""
    wins = (inside[:, None] > outside) + (inside[:, None] == outside) / 2
    parts = [wins.mean(axis).var(ddof=1) / wins.shape[1 - axis] for axis in (0, 1)]
    reach = 1.959964 * np.sqrt(sum(parts))
    return wins.mean() - reach, wins.mean() + reach


def chance_of_others(count: int) -> np.ndarray:
    """Test records that the attack has as a reference: behind those that it is asked about."""
    chance = np.random.default_rng(0)
    chance.permutation(len(load("digits").images))
    return chance.permutation(count)[count // 2 :]


def confusion(page: str, name: str, source: str = "synthetic") -> np.ndarray:
    """As the page has it, of a classifier that learned from synthetic or real images."""
    words = page.split(f"Confusion: {name}, trained on {source} images")[1].split("Confusion")[0]
    rows = words.split("0 1 2 3 4 5 6 7 8 9 ")[1].split()[: 10 * 11]
    cells = np.array([int(each) for each in rows]).reshape(10, 11)
    assert (cells[:, 0] == np.arange(10)).all()
    return cells[:, 1:]


def test_accuracies_are_those_of_the_confusion(page: str) -> None:
    labels = load("digits", split="test").labels
    cells = confusion(page, "cnn")
    assert (cells.sum(1) == np.bincount(labels)).all()
    assert after(page, "accuracy") == close(cells.trace() / TEST)
    real = confusion(page, "cnn", "real")
    assert (real.sum(1) == np.bincount(labels)).all()
    row = re.search(r"Trained on real cnn ([\d.]+) % ([\d.]+) %", page)
    shares = [each.trace() / TEST for each in (cells, real)]
    assert row and [float(each) / 100 for each in row.groups()] == [close(s) for s in shares]
    by_class = page.split("By class")[1]
    for label in range(10):
        row = re.search(rf" {label} ([\d.]+) %", by_class)
        assert row and float(row[1]) / 100 == close(cells[label, label] / cells[label].sum())


def test_a_classifier_that_was_written_out_is_as_often_right(page: str, folder: Path) -> None:
    """Logistic regression by its own objective and gradient, of the images that are published."""
    test = load("digits", split="test")
    images, labels = load_run(folder / "run").sample(TEST, seed=0)
    x, asked = (each.reshape(len(each), -1) / 255 for each in (images, test.images))
    truth = np.eye(10)[labels]

    def loss(flat: np.ndarray) -> tuple[float, np.ndarray]:
        weights, shifts = flat[:640].reshape(64, 10), flat[640:]
        logits = x @ weights + shifts
        sums = logsumexp(logits, axis=1, keepdims=True)
        miss = 0.1 * (np.exp(logits - sums) - truth)
        slope = np.concatenate([(x.T @ miss + weights).ravel(), miss.sum(0)])
        return 0.1 * (sums.sum() - (logits * truth).sum()) + np.square(weights).sum() / 2, slope

    best = minimize(loss, np.zeros(650), jac=True, method="L-BFGS-B", tol=1e-9).x
    said = (asked @ best[:640].reshape(64, 10) + best[640:]).argmax(1)
    cells = confusion(page, "logistic-regression")
    right = (said == test.labels).mean()
    assert abs(cells.trace() / TEST - right) <= 2 / TEST  # neither goes to the very end
    assert after(page, "logistic-regression") == close(cells.trace() / TEST)
