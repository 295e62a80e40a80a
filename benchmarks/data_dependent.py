"""Figure 2 of the paper: epsilon by step, data-independent against data-dependent; one table.

    OMP_NUM_THREADS=1 python benchmarks/data_dependent.py --data-dir DATA

DATA holds mnist/ and celeba/ (img_align_celeba/, list_attr_celeba.txt, list_eval_partition.txt).
Runs are seeded and NOT private; what they find out about these public records is written to
--out, one JSON a data set, which is skipped when it exists, and a figure.

MNIST has the paper's own teachers, noise and threshold. There are too few faces for the paper's
8,000 teachers: 400 vote under noise of the paper's ratio to teachers, and since q depends on
tally / sigma alone, epsilon is what 8,000 teachers who agree as much would pay at the paper's
sigma.
"""

import argparse
import json
import math
import os
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from data_dependent_figure import figure
from PIL import Image

from datalens import DataLens, Records, load
from datalens.privacy.data_dependent import (
    ORDERS,
    Composition,
    least_passing,
    peaks,
    renyi_curve,
    theorem_4,
)
from datalens.synthesizers.diagnosis import FILE
from datalens.synthesizers.session import Session
from datalens.workflows.bench.machine import description
from datalens.workflows.presets import load_preset

DELTA = 1e-5
ENOUGH = 1e6
"""An epsilon that any number of steps fits in, where noise is scaled down with the teachers."""
COMPACT = {"discriminator": "compact", "teacher_learning_rate": 1e-3, "accountant": "paper"}
"""The reference network takes half an hour; no teachers get above `at_most` anyway."""
HAIR = ("Black_Hair", "Blond_Hair", "Brown_Hair")
SIDE = 64


@dataclass(frozen=True, kw_only=True)
class Setting:
    title: str
    settings: dict[str, Any]
    teachers: int
    """The paper's."""
    sigma: float
    """The paper's."""

    @property
    def rho(self) -> float:
        return 2 * self.settings["top_k"] / self.sigma**2


def mnist() -> Setting:
    paper = load_preset("paper", data_name="mnist", epsilon=1)
    settings = paper | COMPACT | {"epsilon": 1.0, "delta": DELTA}
    return Setting(title="MNIST", settings=settings, teachers=4000, sigma=5000.0)


def celeba_hair() -> Setting:
    """Table 4 and section 5.3; batch size and steps are ours, to end at epsilon 1."""
    teachers, sigma = 400, 9000 / 8000 * 400
    settings = load_preset("paper", data_name="mnist", epsilon=1) | COMPACT
    settings |= {"epsilon": ENOUGH, "delta": DELTA, "n_teachers": teachers, "sigma": sigma}
    settings |= {"top_k": 700, "quorum": 0.9, "batch_size": 15, "real_batch": 12, "steps": 80}
    return Setting(title="CelebA, hair colour", settings=settings, teachers=8000, sigma=9000.0)


SETTINGS = {"mnist": mnist, "celeba-hair": celeba_hair}


def faces(folder: Path) -> Records:
    """Training faces with exactly one of three hair colours, stretched to 64x64."""
    rows = [line.split() for line in (folder / "list_attr_celeba.txt").read_text().splitlines()]
    names = rows[1]  # the first line is a count
    places = [1 + names.index(name) for name in HAIR]
    split = dict(
        line.split() for line in (folder / "list_eval_partition.txt").read_text().splitlines()
    )
    images, labels = [], []
    for row in rows[2:]:
        hair = [row[place] == "1" for place in places]
        if split[row[0]] == "0" and sum(hair) == 1:
            with Image.open(folder / "img_align_celeba" / row[0]) as opened:
                small = opened.convert("RGB").resize((SIDE, SIDE), Image.Resampling.BILINEAR)
            images.append(np.asarray(small).transpose(2, 0, 1))
            labels.append(hair.index(True))
    return Records.from_arrays(
        np.stack(images), np.array(labels), class_names=HAIR, name="celeba-hair"
    )


def measure(name: str, data_dir: Path, seed: int) -> dict[str, Any]:
    setting = SETTINGS[name]()
    records = load("mnist", data_dir=data_dir) if name == "mnist" else faces(data_dir / "celeba")
    with tempfile.TemporaryDirectory() as folder:
        os.environ["DATALENS_HOME"] = folder
        session = Session.start(ledger="bench", folder=Path(folder) / "internal", seed=seed)
        started = time.monotonic()
        DataLens(**setting.settings).fit(records, session=session)
        seconds = time.monotonic() - started
        lines = [json.loads(line) for line in (session.folder / FILE).read_text().splitlines()]
    values = math.prod(records.public.shape)
    return {
        "data": name,
        "title": setting.title,
        "private": False,
        "seed": seed,
        "settings": setting.settings,
        "records": records.public.n_records,
        "values": values,
        "paper": {"teachers": setting.teachers, "sigma": setting.sigma, "rho": setting.rho},
        "steps": by_step(setting, lines, values),
        "log10_peak_at_most": at_most(setting, values),
        "applicable_up_to": most_values(lines, values, setting.rho),
        "seconds": round(seconds, 1),
        "diagnosis_seconds": round(diagnosis_seconds(setting, lines, values), 4),
        "machine": description(),
    }


def by_step(setting: Setting, lines: list[dict[str, Any]], values: int) -> list[dict[str, Any]]:
    run = Composition(rho=setting.rho, delta=DELTA, accountant="paper")
    found = []
    for line in lines:
        bound = run.add(np.array(line["log_q"]))
        releases = (line["step"] + 1) * len(line["log_q"])
        log10_peak = np.array(line["log_peak"]) / math.log(10)
        found.append(
            {
                "step": line["step"] + 1,
                "releases": releases,
                "independent": bound.independent,
                "dependent": bound.dependent,
                "least": bound.least,
                "not_a_bound": as_of_an_argmax(setting.rho, releases, values),
                "log10_peak": [float(log10_peak.min()), float(log10_peak.max())],
            }
        )
    return found


def as_of_an_argmax(rho: float, releases: int, values: int) -> float:
    """Theorem 4's formula at q = 1 - 1/d, its precondition passed over: NOT a bound.

    1 - 1/d caps the q of a noisy argmax over d values, which is what the public code computes.
    """
    log_q = math.log1p(-1 / values)
    best = math.sqrt(-log_q / rho)
    mu1 = np.maximum(ORDERS, 1 + best)
    each = theorem_4(log_q, rho, order=ORDERS, mu1=mu1, mu2=np.array(best))
    return float((releases * each + math.log(1 / DELTA) / (ORDERS - 1)).min())


def at_most(setting: Setting, values: int) -> float:
    """Log10 of 1 - q, whatever the teachers: were every value as sure as any tally can make it."""
    chosen = setting.settings
    any_tally = np.arange(chosen["n_teachers"] + 1)[:, None]
    passing = least_passing(chosen["quorum"], chosen["n_teachers"])
    found = peaks(any_tally, sigma=float(chosen["sigma"]), passing=passing)
    return float(found.log_peak.max()) * values / math.log(10)


def needed(rho: float) -> float:
    """Log10 of the least 1 - q to which Theorem 4 is applicable, by bisection."""
    low, high = -12.0, -0.5
    for _ in range(50):
        middle = (low + high) / 2
        if renyi_curve(math.log1p(-(10**middle)), rho) is None:
            low = middle
        else:
            high = middle
    return high


def most_values(lines: list[dict[str, Any]], values: int, rho: float) -> dict[str, int]:
    """How many values an image could have, each as sure as here on average, while Theorem 4 is
    applicable, and while it is below the data-independent bound at an order near the run's."""
    log_each = float(np.mean([line["log_peak"] for line in lines])) / values
    near = (ORDERS > 5) & (ORDERS < 100)
    applicable = helpful = 0
    for d in range(1, 100):
        curve = renyi_curve(math.log(-math.expm1(d * log_each)), rho)
        applicable = d if curve is not None else applicable
        helps = curve is not None and bool((curve < rho * ORDERS)[near].any())
        helpful = d if helps else helpful
    return {"applicable": applicable, "helpful": helpful}


def diagnosis_seconds(setting: Setting, lines: list[dict[str, Any]], values: int) -> float:
    """What the diagnosis adds to a step: the least of five, on a tally of the same size."""
    chosen = setting.settings
    teachers = chosen["n_teachers"]
    shape = (chosen["batch_size"], values)
    tally = np.random.default_rng(0).integers(-teachers // 5, teachers // 5, shape)
    run = Composition(rho=setting.rho, delta=DELTA, accountant="paper")
    taken = []
    for _ in range(5):
        started = time.perf_counter()
        passing = least_passing(chosen["quorum"], teachers)
        run.add(peaks(tally, sigma=float(chosen["sigma"]), passing=passing).log_q)
        taken.append(time.perf_counter() - started)
    return min(taken)


def table(cells: list[dict[str, Any]]) -> str:
    lines = [
        "| data | values | steps | epsilon, independent | epsilon, dependent |"
        " log10(1 - q) | at most, whatever the teachers | needed | q = 1 - 1/d, no bound |"
        " run, minutes | diagnosis, ms a step |",
        "|---|---|---|---|---|---|---|---|---|---|---|",
    ]
    for c in cells:
        last = c["steps"][-1]
        applicable = sum(step["dependent"] is not None for step in c["steps"])
        dependent = f"{last['dependent']:.3f}" if applicable else "not applicable at any step"
        low = min(step["log10_peak"][0] for step in c["steps"])
        high = max(step["log10_peak"][1] for step in c["steps"])
        lines.append(
            f"| {c['title']} | {c['values']:,} | {last['step']} | {last['independent']:.3f} |"
            f" {dependent} | {low:.0f} to {high:.0f} | {c['log10_peak_at_most']:.0f} |"
            f" {c['log10_peak_needed']:.1f} | {last['not_a_bound']:.2f} |"
            f" {c['seconds'] / 60:.1f} | {1000 * c['diagnosis_seconds']:.1f} |"
        )
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data-dir", type=Path, required=True)
    parser.add_argument("--datasets", nargs="+", default=list(SETTINGS), choices=SETTINGS)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, default=Path("docs/results/data_dependent"))
    given = parser.parse_args()
    given.out.mkdir(parents=True, exist_ok=True)
    cells = []
    for name in given.datasets:
        path = given.out / f"{name}.json"
        if not path.exists():
            found = measure(name, given.data_dir, given.seed)
            path.write_text(json.dumps(found, indent=1) + "\n")
        cell = json.loads(path.read_text())
        cells.append(cell | {"log10_peak_needed": needed(cell["paper"]["rho"])})
    (given.out / "figure2.svg").write_text(figure(cells))
    print(table(cells))


if __name__ == "__main__":
    main()
