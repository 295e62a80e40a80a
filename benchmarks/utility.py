"""Accuracy of the project's judge on synthetic data, one table.

    python benchmarks/utility.py --datasets fashion-mini --epsilons 1 10 --seeds 3

Each cell is fitted `--seeds` times with secure noise; repetition s is judged with judge seed s.
Last epoch, mean and standard deviation over repetitions, and minutes a repetition took (fit and
judge). Nothing is selected on test data. Cells are written as they are done, one JSON each, and
skipped when they exist.
"""

import argparse
import json
import os
import platform
import tempfile
import time
from pathlib import Path
from statistics import fmean, stdev
from typing import Any

import torch

from datalens import load
from datalens.synthesizers import METHODS
from datalens.utility.accuracy import JUDGED_IMAGES, judged_accuracy
from datalens.workflows.presets import load_preset

VARIANTS: dict[str, tuple[str, str]] = {
    "class-gaussian": ("class-gaussian", "auto"),
    "datalens": ("datalens", "auto"),
    "datalens-paper": ("datalens", "paper"),
}


def cell(
    variant: str, dataset: str, epsilon: float, seeds: int, overrides: dict[str, Any]
) -> dict[str, Any]:
    method, preset = VARIANTS[variant]
    settings = load_preset(preset, data_name=dataset, epsilon=epsilon) | overrides
    train, test = load(dataset), load(dataset, split="test")
    judged, certificates, seconds = [], [], []
    for seed in range(seeds):
        started = time.monotonic()
        fitted = METHODS[method](epsilon=epsilon, **settings).fit(train, ledger="benchmark")
        judged.append(judged_accuracy(*fitted.sample(JUDGED_IMAGES), test, seeds=[seed]))
        certificates.append(fitted.certificate)
        seconds.append(time.monotonic() - started)
        print(f"{variant} {dataset} {epsilon:g} #{seed}: {judged[-1].accuracy:.4f}", flush=True)
    each = [found.accuracy for found in judged]
    return {
        "variant": variant,
        "dataset": dataset,
        "epsilon_asked": epsilon,
        "epsilon": certificates[0]["epsilon"],
        "delta": certificates[0]["delta"],
        "settings": settings,
        "releases": certificates[0]["releases"],
        "accuracy": fmean(each),
        "spread": stdev(each) if len(each) > 1 else None,
        "per_repetition": each,
        "best_on_test": fmean(found.accuracy_best_on_test for found in judged),
        "seconds_each": fmean(seconds),
        "threads": torch.get_num_threads(),
        "versions": certificates[0]["versions"],
        "machine": f"{os.cpu_count()} cores, {platform.machine()}",
    }


def table(cells: list[dict[str, Any]]) -> str:
    lines = [
        "| data | method | epsilon | accuracy % | best on test % | repetitions | minutes each |",
        "|---|---|---|---|---|---|---|",
    ]
    for c in cells:
        spread = f" ± {100 * c['spread']:.1f}" if c["spread"] is not None else ""
        lines.append(
            f"| {c['dataset']} | {c['variant']} | {c['epsilon_asked']:g} |"
            f" {100 * c['accuracy']:.1f}{spread} | {100 * c['best_on_test']:.1f} |"
            f" {len(c['per_repetition'])} | {c['seconds_each'] / 60:.1f} |"
        )
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--datasets", nargs="+", default=["fashion-mini"])
    parser.add_argument("--epsilons", nargs="+", type=float, default=[10.0])
    parser.add_argument("--methods", nargs="+", default=["class-gaussian", "datalens"])
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--set", nargs="*", default=[], help="settings of datalens, NAME=VALUE")
    parser.add_argument("--out", type=Path, default=Path("docs/results/utility"))
    arguments = parser.parse_args()
    overrides = dict(pair.split("=", 1) for pair in arguments.set)
    arguments.out.mkdir(parents=True, exist_ok=True)
    cells = []
    with tempfile.TemporaryDirectory() as home:  # repetitions must not spend anyone's real budget
        os.environ["DATALENS_HOME"] = home
        for dataset in arguments.datasets:
            for epsilon in arguments.epsilons:
                for variant in arguments.methods:
                    tail = "".join(f"-{k}-{v}" for k, v in overrides.items())
                    path = arguments.out / f"{dataset}-{variant}-epsilon-{epsilon:g}{tail}.json"
                    if not path.exists():
                        found = cell(variant, dataset, epsilon, arguments.seeds, overrides)
                        path.write_text(json.dumps(found, indent=1) + "\n")
                    cells.append(json.loads(path.read_text()))
    print(table(cells))


if __name__ == "__main__":
    main()
