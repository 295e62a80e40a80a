"""What a kind of teacher does to accuracy, when votes are all the student has; one table.

    python benchmarks/teachers.py --dataset mnist --seeds 3 --out docs/results/teachers

The paper's loop at epsilon 10 (untrained student, no warm start) with fewer teachers and the
paper's ratio of noise to teachers. So few teachers at that ratio are NOT private: the runs are
seeded, and every variant gets the same seeds. Each run is judged in its last epoch; each cell is a
JSON of its own, and skipped when it exists.
"""

import argparse
import json
import os
import tempfile
import time
from pathlib import Path
from statistics import fmean, stdev
from typing import Any

from datalens import DataLens, load
from datalens.utility.accuracy import JUDGED_IMAGES, judged_accuracy
from datalens.workflows.bench.machine import description
from datalens.workflows.presets import load_preset

VARIANTS: dict[str, dict[str, Any]] = {
    "reference": {"moments": "float32"},
    "reference-bfloat16-moments": {"moments": "bfloat16"},
    "compact": {"discriminator": "compact", "teacher_learning_rate": 1e-3},
}
"""`compact` has the learning rate it has by default."""
ENOUGH = 1e6
"""An epsilon that any number of steps fits in: nothing here is private."""


def cell(variant: str, dataset: str, teachers: int, steps: int, seeds: int) -> dict[str, Any]:
    paper = load_preset("paper", data_name=dataset, epsilon=10)
    ratio = paper["sigma"] / paper["n_teachers"]
    changed = {"n_teachers": teachers, "sigma": ratio * teachers, "steps": steps}
    settings = paper | changed | VARIANTS[variant]
    train, test = load(dataset), load(dataset, split="test")
    judged, seconds = [], []
    for seed in range(seeds):
        started = time.monotonic()
        fitted = DataLens(epsilon=ENOUGH, **settings).fit(train, ledger="bench", seed=seed)
        seconds.append(time.monotonic() - started)
        judged.append(judged_accuracy(*fitted.sample(JUDGED_IMAGES), test, seeds=[seed]))
        print(f"{variant} {dataset} #{seed}: {judged[-1].accuracy:.4f}", flush=True)
    each = [found.accuracy for found in judged]
    return {
        "variant": variant,
        "dataset": dataset,
        "settings": settings,
        "accuracy": fmean(each),
        "spread": stdev(each) if len(each) > 1 else None,
        "per_seed": each,
        "fit_seconds": fmean(seconds),
        "machine": description(),
    }


def table(cells: list[dict[str, Any]]) -> str:
    lines = ["| data | teachers | accuracy % | seeds | fit, minutes |", "|---|---|---|---|---|"]
    for c in cells:
        spread = f" ± {100 * c['spread']:.1f}" if c["spread"] is not None else ""
        lines.append(
            f"| {c['dataset']} | {c['variant']} | {100 * c['accuracy']:.1f}{spread} |"
            f" {len(c['per_seed'])} | {c['fit_seconds'] / 60:.1f} |"
        )
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--dataset", default="mnist")
    parser.add_argument("--variants", nargs="+", default=list(VARIANTS), choices=VARIANTS)
    parser.add_argument("--teachers", type=int, default=300)
    parser.add_argument("--steps", type=int, default=110)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--out", type=Path, default=Path("docs/results/teachers"))
    given = parser.parse_args()
    given.out.mkdir(parents=True, exist_ok=True)
    cells = []
    with tempfile.TemporaryDirectory() as home:
        os.environ["DATALENS_HOME"] = home
        for variant in given.variants:
            path = given.out / f"{given.dataset}-{variant}.json"
            if not path.exists():
                found = cell(variant, given.dataset, given.teachers, given.steps, given.seeds)
                path.write_text(json.dumps(found, indent=1) + "\n")
            cells.append(json.loads(path.read_text()))
    print(table(cells))


if __name__ == "__main__":
    main()
