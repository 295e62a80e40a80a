"""What each value that the paper does not print decides: one row each, from the preset.

    python benchmarks/guesses.py --data-dir DATA --out docs/results/guesses

MNIST at the paper's ratio of noise to teachers at epsilon 1, with few of its teachers: 75 of 15
records, 87 steps (1,305 releases). Noise comes from a seed, so these runs are NOT PRIVATE. A CNN
learns from synthetic images and is tested on training records that no teacher has. Rows that are
in the file already are passed over, so that two processes can divide them with --rows.
"""

import argparse
import json
import os
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch

from datalens.classifiers.judge import judge
from datalens.data import Records, load
from datalens.student import DcganGenerator
from datalens.synthesizers import METHODS
from datalens.workflows.bench.machine import description
from datalens.workflows.presets import load_preset

TEACHERS, SHARD, STEPS, SEED = 75, 15, 87, 0
IMAGES, EPOCHS, HELD_OUT = 5000, 6, 10_000
ROWS: dict[str, dict[str, Any]] = {
    "the preset": {},
    "balanced labels": {"balanced_labels": True},
    "teachers learn from the images that are voted on": {"fakes": "voted"},
    "Gaussian latent vectors": {"latents": "normal"},
    "the student's learning rate 2e-4": {"student_learning_rate": 2e-4},
    "a small generator without batch norm": {"generator": "small"},
    "the teachers' learning rate 2e-4, no updates before the first vote": {
        "teacher_learning_rate": 2e-4,
        "teacher_warm_up": 0,
    },
    "steps of 1, cut to [0, 1]": {"step_size": 1.0, "cut_targets": True},
}


def measured(changes: dict[str, Any], given: argparse.Namespace) -> dict[str, Any]:
    whole = load("mnist", split="train", data_dir=given.data_dir)
    known = len(whole.labels) - HELD_OUT
    chosen = np.random.default_rng(SEED).permutation(known)[: TEACHERS * SHARD]
    records = Records.from_arrays(whole.images[chosen], whole.labels[chosen], n_classes=10)
    preset = load_preset("paper", data_name="mnist", epsilon=1.0)
    ratio = preset["sigma"] / preset["n_teachers"]
    settings = preset | {"n_teachers": TEACHERS, "sigma": ratio * TEACHERS, "steps": STEPS}
    uniform = DcganGenerator.latents
    if changes.get("latents") == "normal":
        DcganGenerator.latents = lambda self, count, chance: torch.randn(  # type: ignore[method-assign]
            count, self.latent, generator=chance
        )
    named = {name: value for name, value in changes.items() if name != "latents"}
    started = time.monotonic()
    made = METHODS["datalens"](epsilon=1000.0, **settings | named)
    made.fit(records, ledger="guesses", seed=SEED)
    seconds = time.monotonic() - started
    images, labels = made.sample(IMAGES, seed=SEED)
    test = slice(known, None)
    found = judge(
        images, labels, whole.images[test], whole.labels[test], 10, epochs=EPOCHS, seed=SEED
    )
    DcganGenerator.latents = uniform  # type: ignore[method-assign]
    return {"accuracy": found.accuracy, "best": found.accuracy_best_on_test, "seconds": seconds}


def page(rows: dict[str, dict[str, Any]], machine: dict[str, Any]) -> str:
    """README.md, made of what the files hold."""
    lines = [
        f"| {name} | {100 * rows[name]['accuracy']:.1f} | {100 * rows[name]['best']:.1f} |"
        for name in ROWS
        if name in rows
    ]
    minutes = sum(row["seconds"] for row in rows.values()) / 60
    return f"""# What the paper does not print, one value at a time

For those who want to reproduce the paper. The preset `paper` on MNIST at the noise of epsilon 1,
with {TEACHERS} of its teachers, {SHARD} records each, and the same ratio of noise to teachers;
{STEPS} steps. Each row changes one thing of the preset; one seed ({SEED}), noise from the seed (NOT
PRIVATE). A CNN learns {EPOCHS} epochs from {IMAGES} synthetic images and is tested on {HELD_OUT:,}
training records that no teacher has. The best epoch is chosen on these, and optimistic. By
`benchmarks/guesses.py`: {minutes:.0f} minutes of fitting on one thread each of an
{machine["processor"]}, beside other work.

| run | last epoch, % | best epoch, % |
|---|---|---|
{chr(10).join(lines)}
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data-dir", type=Path)
    parser.add_argument("--out", type=Path, default=Path("docs/results/guesses"))
    parser.add_argument("--rows", nargs="*", default=list(ROWS))
    given = parser.parse_args()
    torch.set_num_threads(1)
    given.out.mkdir(parents=True, exist_ok=True)
    names = list(ROWS)
    for name in given.rows:
        path = given.out / f"row-{names.index(name)}.json"
        if path.exists():
            continue
        with tempfile.TemporaryDirectory() as home:
            os.environ["DATALENS_HOME"] = home
            found = {"run": name, **measured(ROWS[name], given), "machine": description()}
        path.write_text(json.dumps(found, indent=1) + "\n")
        print(json.dumps(found), flush=True)
    rows = {row["run"]: row for row in read(given.out)}
    (given.out / "README.md").write_text(page(rows, next(iter(rows.values()))["machine"]))


def read(folder: Path) -> list[dict[str, Any]]:
    """The rows that are there."""
    return [json.loads(path.read_text()) for path in sorted(folder.glob("row-*.json"))]


if __name__ == "__main__":
    main()
