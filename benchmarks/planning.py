"""The planner's predictions against what is measured.

    python benchmarks/planning.py images agreement small ranks figure
    python benchmarks/planning.py grid --jobs 2      # about 40 minutes of one core

- images: the constants of synthesizers/kept.py, on MNIST and Fashion-MNIST
- agreement: of compact teachers on fashion-mini and MNIST; the constants of synthesizers/quorum.py
- small: few records, small budgets, a quick judge: where images begin to be useful
- ranks: predicted against measured accuracy in docs/results: Spearman's correlation
- grid: `datalens bench utility` over a grid of settings on fashion-mini and MNIST, held-out records
- figure: Theorem 6's terms over k, for gradients of teachers and for the Weibull model

All goes to docs/results/planning. Of small and grid, what is there already is not repeated.
"""

import argparse
import json
import time
from collections.abc import Callable
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
from planning_figure import figure
from planning_grid import RESULTS, correlation, grid, predicted, ranks
from planning_teachers import agreement_grid
from sklearn.linear_model import LogisticRegression

from datalens.data import Records, load
from datalens.student.gaussian import frequencies
from datalens.synthesizers import METHODS
from datalens.synthesizers.kept import DECAY
from datalens.workflows.bench.machine import description

SMALL = list(product((1000, 2000, 6000, 20_000), (0.1, 0.3, 1.0, 3.0)))
SMALL_IMAGES = 1500


def images(given: argparse.Namespace) -> dict[str, Any]:
    """How far class means lie apart, and how energy falls."""
    found = {}
    for name in ("mnist", "fashion-mnist"):
        records = load(name, data_dir=given.data_dir)
        x = records.images[:20_000].reshape(20_000, -1) / 255
        labels = records.labels[:20_000]
        means = np.stack([x[labels == c].mean(0) for c in range(10)])
        apart = means - means.mean(0)
        spectrum = np.linalg.eigvalsh(np.cov((x - means[labels]).T))[::-1][:200]
        slope = np.polyfit(np.log(np.arange(1, 201)), np.log(spectrum), 1)[0]
        low = np.argsort(np.add.outer(np.arange(28), np.arange(28)).ravel(), kind="stable")
        energy = ((apart @ frequencies((1, 28, 28)).T) ** 2).mean(0)[low]
        found[name] = {
            "apart": float(np.sqrt((apart**2).mean())),
            "decay_of_the_spectrum": -float(slope),
            "energy_of_means_in_lowest": shares(energy),
        }
    found["model"] = {"energy_of_means_in_lowest": shares(np.arange(1.0, 785) ** -DECAY)}
    return found


def shares(energy: np.ndarray) -> dict[int, float]:
    return {j: float(energy[:j].sum() / energy.sum()) for j in (3, 10, 30, 100)}


def small(given: argparse.Namespace) -> dict[str, Any]:
    """`auto` on the first records of fashion-mini, seeded, judged by logistic regression."""
    path = given.out / "small.json"
    rows = json.loads(path.read_text())["rows"] if path.exists() else []
    records, test = load("fashion-mini"), load("fashion-mini", split="test")
    known = {(row["records"], row["epsilon"], row["seed"]) for row in rows}
    for seed, (n, epsilon) in product(range(given.seeds), SMALL[: given.most]):
        if (n, epsilon, seed) in known:
            continue
        public = replace(records.public, n_records=n)
        part = Records(images=records.images[:n], labels=records.labels[:n], public=public)
        method = METHODS["datalens"](epsilon=epsilon).fit(part, seed=seed)
        drawn = method.sample(SMALL_IMAGES, seed=seed)
        judge = LogisticRegression(max_iter=30, tol=1e-2)
        judge.fit(drawn.images.reshape(SMALL_IMAGES, -1) / 255, drawn.labels)
        seen = judge.score(test.images.reshape(len(test.labels), -1) / 255, test.labels)
        told = predicted("datalens", {"epsilon": epsilon}, public)
        row = {"records": n, "epsilon": epsilon, "seed": seed, "seen": seen, "told": told}
        rows.append(row)
        keep(path, {"rows": rows})
        print(row, flush=True)
    return {"rows": rows, "spearman": correlation(rows)}


PARTS: dict[str, Callable[[argparse.Namespace], dict[str, Any]]] = {
    "images": images,
    "agreement": agreement_grid,
    "small": small,
    "ranks": ranks,
    "grid": grid,
    "figure": figure,
}


def keep(path: Path, found: dict[str, Any]) -> None:
    path.write_text(json.dumps(found, indent=1) + "\n")


def in_short(found: dict[str, Any]) -> dict[str, Any]:
    """Without its rows, which are many."""
    return {
        name: in_short(part) if isinstance(part, dict) else part
        for name, part in found.items()
        if name != "rows"
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("parts", nargs="+", choices=PARTS)
    parser.add_argument(
        "--datasets", nargs="+", default=["fashion-mini", "mnist"], help="of agreement and grid"
    )
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--epsilons", nargs="+", type=float, default=[1.0, 10.0])
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--most", type=int, default=None, help="cells of small or grid, for a try")
    parser.add_argument("--images", type=int, default=3000, help="that the judge of grid sees")
    parser.add_argument("--data-dir", type=Path, default=None)
    parser.add_argument("--out", type=Path, default=RESULTS / "planning")
    given = parser.parse_args()
    given.out.mkdir(parents=True, exist_ok=True)
    for part in given.parts:
        started = time.monotonic()
        found = PARTS[part](given)
        machine = {"seconds": round(time.monotonic() - started, 1), "machine": description()}
        keep(given.out / f"{part}.json", found | machine)
        print(part, in_short(found))


if __name__ == "__main__":
    main()
