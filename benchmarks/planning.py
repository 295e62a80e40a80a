"""The planner's predictions against what is measured.

    python benchmarks/planning.py images agreement small ranks figure
    python benchmarks/planning.py grid --jobs 2      # hours

- images: the constants of planning/kept.py, on MNIST and Fashion-MNIST
- agreement: of compact teachers on fashion-mini; the constants of planning/quorum.py
- small: few records, small budgets, a quick judge: where images begin to be useful
- ranks: predicted against measured accuracy in docs/results: Spearman's correlation
- grid: `datalens bench utility` on fashion-mini over a grid of settings, and its correlation
- figure: Theorem 6's terms over k

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
import torch
from scipy.stats import spearmanr
from sklearn.linear_model import LogisticRegression

from datalens.data import PublicFacts, Records, deal, load
from datalens.ensemble import Teachers, make_discriminator
from datalens.mechanism.ballots import BallotRule, room
from datalens.planning.kept import DECAY
from datalens.planning.prediction import predict
from datalens.planning.quorum import agreement
from datalens.planning.theory import Descent, best_k, bound, noise_constant, weibull_taus
from datalens.student.gaussian import frequencies
from datalens.synthesizers import METHODS
from datalens.workflows.bench.machine import description
from datalens.workflows.bench.utility.cells import asked
from datalens.workflows.bench.utility.results import Result, read_results
from datalens.workflows.bench.utility.running import run_bench
from datalens.workflows.curves import Panel, svg

RESULTS = Path("docs/results")
TEACHERS, PER_CLASS = 60, 1
SPREAD = 0.15
"""Of the noise on the class means that teachers are asked about."""
SMALL = list(product((1000, 2000, 6000, 20_000), (0.1, 0.3, 1.0, 3.0)))
SMALL_IMAGES = 1500
GRID: list[dict[str, Any]] = [
    {},
    {"clusters": 1},
    {"label_share": 0.0},
    {"vote_share": 0.2},
    *(
        {"warm_start": False, "top_k": k, "n_teachers": n}
        for k in (12, 49, 196)
        for n in (500, 2000)
    ),
]


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


def agreement_grid(given: argparse.Namespace) -> dict[str, Any]:
    """Pairs of ballots: their product over k, its root being the net share on a named entry."""
    records, rows = load("fashion-mini"), []
    for shard, updates in product((10, 20, 60), (20, 40)):
        shards = deal(20_000, 20_000 // shard, seed=b"planning").positions[:TEACHERS]
        teachers = Teachers(
            discriminator=make_discriminator("compact", (1, 28, 28), 10),
            images=torch.from_numpy(records.images[shards]),
            labels=torch.from_numpy(records.labels[shards]),
            secret=b"planning",
            learning_rate=1e-3,
        )
        chance = torch.Generator().manual_seed(0)
        shown, labels = shown_images(records, chance)
        for step in range(updates):
            teachers.train(shown, labels, step=step)
        parts = [part for _, part in teachers.gradients(shown, labels)]
        gradients = torch.cat(parts) * room(shown).flatten(1)
        for k in (3, 12, 49, 196, 784):
            seen = paired(gradients, k, chance)
            told = agreement(k, 784, shard)
            rows.append(
                {"shard": shard, "updates": updates, "top_k": k, "seen": seen, "told": told}
            )
    seen, told = ([row[name] for row in rows] for name in ("seen", "told"))
    ratio = np.exp(np.abs(np.log(np.array(seen) / np.array(told)))).max()
    return {"rows": rows, "spearman": correlation(told, seen), "largest_ratio": float(ratio)}


def shown_images(records: Records, chance: torch.Generator) -> tuple[torch.Tensor, torch.Tensor]:
    labels = torch.arange(10 * PER_CLASS) % 10
    pixels = torch.from_numpy(records.images).float() / 255
    means = torch.stack([pixels[records.labels == c].mean(0) for c in range(10)])
    noise = torch.randn(len(labels), 1, 28, 28, generator=chance)
    return (means[labels] + SPREAD * noise).clamp(0, 1), labels


def paired(gradients: torch.Tensor, k: int, chance: torch.Generator) -> float:
    teachers, m, d = gradients.shape
    dice = torch.rand(teachers, m, k, generator=chance)
    places, votes = BallotRule(top_k=k, clip=1.0).vote(gradients, dice)
    tally = torch.zeros(m, d)
    by_image = (x.transpose(0, 1).flatten(1) for x in (places, votes.float()))
    tally.scatter_add_(1, next(by_image), next(by_image))
    pairs = (tally**2).sum(1) - (votes != 0).sum((0, 2))
    return float(pairs.mean() / (teachers * (teachers - 1) * k)) ** 0.5


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
    return {"rows": rows, "spearman": correlation(*(column(rows, x) for x in ("told", "seen")))}


def ranks(given: argparse.Namespace) -> dict[str, Any]:
    """What is in docs/results already."""
    return {
        name: confronted(read_results(RESULTS / name))
        for name in ("utility", "sweeps", "ablation-50000")
    }


def grid(given: argparse.Namespace) -> dict[str, Any]:
    out = given.out / "grid"
    cells = [
        cell
        for settings in GRID
        for cell in asked(
            datasets=["fashion-mini"],
            methods=["datalens"],
            epsilons=given.epsilons,
            settings=settings,
            held_out=True,
        )
    ]
    command = "python benchmarks/planning.py grid"
    bench = run_bench(
        cells[: given.most],
        seeds=given.seeds,
        jobs=given.jobs,
        out=out,
        command=command,
        images=10_000,
    )
    return confronted({result.stem: result for result in bench.results})


def confronted(results: dict[str, Result]) -> dict[str, Any]:
    """By data set, because one is harder than another, which no public fact tells."""
    rows = []
    for result in results.values():
        configuration, facts = result.configuration, result.configuration["data"]
        public = PublicFacts(
            name=facts["name"],
            n_records=facts["n_records"],
            shape=tuple(facts["shape"]),
            class_names=tuple(facts["class_names"]),
        )
        told = predicted(configuration["method"], configuration["settings"], public)
        if told is not None:
            row = {"cell": result.stem, "data": result.dataset, "told": told}
            rows.append(row | {"seen": result.accuracy})
    by_data = {
        name: correlation(*(column(rows, x, name) for x in ("told", "seen")))
        for name in sorted({row["data"] for row in rows})
    }
    return {"rows": rows, "spearman": by_data}


def predicted(method: str, settings: dict[str, Any], public: PublicFacts) -> float | None:
    expected = predict(METHODS[method](**settings).resolve(public))
    return expected and expected.accuracy


def column(rows: list[dict[str, Any]], name: str, data: str | None = None) -> list[float]:
    return [row[name] for row in rows if data is None or row["data"] == data]


def correlation(told: list[float], seen: list[float]) -> dict[str, float | int]:
    return {"spearman": float(spearmanr(told, seen).statistic), "cells": len(seen)}


def figure(given: argparse.Namespace) -> dict[str, Any]:
    """4,000 teachers, 784 values, Weibull gradients of norm 1; what noise costs, over k."""
    d, shown = 784, [int(k) for k in np.unique(np.geomspace(1, 784, 60).astype(int))]
    panels, best = [], {}
    for rho in (0.05, 0.5):
        descent = Descent(
            smoothness=1.0,
            gradient=1.0,
            clip=1.0,
            n_values=d,
            noise=noise_constant(rho=rho, releases=1000, n_teachers=4000),
            disagreement=(0.0,) * d,
            step_size=0.01,
            steps=1000,
            gap=1.0,
        )
        taus = weibull_taus(d, 0.5)
        best[rho] = {
            "unquantised": best_k(descent, taus),
            "signs": best_k(descent, taus, signs_of=4000),
        }
        bounds = [bound(descent, top_k=k, tau=float(taus[k - 1])) for k in shown]
        terms = ("start", "compression", "movement", "noise", "total")
        panels.append(
            Panel(
                title=f"rho {rho:g}, best k {best[rho]['unquantised']}",
                x_label="k",
                y_label="bound",
                x=shown,
                lines={name: [getattr(b, name) for b in bounds] for name in terms},
                logarithmic=True,
            )
        )
    (given.out / "tradeoff.svg").write_text(svg(panels))
    return {"best_k": best}


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


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("parts", nargs="+", choices=PARTS)
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--epsilons", nargs="+", type=float, default=[1.0, 10.0])
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--most", type=int, default=None, help="cells of small or grid, for a try")
    parser.add_argument("--data-dir", type=Path, default=None)
    parser.add_argument("--out", type=Path, default=RESULTS / "planning")
    given = parser.parse_args()
    given.out.mkdir(parents=True, exist_ok=True)
    for part in given.parts:
        started = time.monotonic()
        found = PARTS[part](given)
        machine = {"seconds": round(time.monotonic() - started, 1), "machine": description()}
        keep(given.out / f"{part}.json", found | machine)
        print(part, {name: value for name, value in found.items() if name != "rows"})


if __name__ == "__main__":
    main()
