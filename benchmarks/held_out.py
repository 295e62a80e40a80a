"""Cells of `datalens bench utility` with settings of their own, judged on held-out records.

What benchmarks/ablation.py and noise_off.py share: options, cells, and one JSON for each in --out;
what is there already is not repeated. The test sets are not read.
"""

import argparse
from pathlib import Path
from typing import Any

from datalens.workflows.bench.utility.cells import asked
from datalens.workflows.bench.utility.running import run_bench

Change = tuple[str, dict[str, Any]]
"""A method, and what is set in it."""


def measure(
    script: str,
    about: str,
    changes: list[Change],
    *,
    datasets: list[str],
    epsilons: list[float],
    seeds: int,
) -> None:
    """Read the command line, whose defaults are given, and fill the folder it names."""
    parser = argparse.ArgumentParser(description=about)
    parser.add_argument("--datasets", nargs="+", default=datasets)
    parser.add_argument("--epsilons", nargs="+", type=float, default=epsilons)
    parser.add_argument("--seeds", type=int, default=seeds)
    parser.add_argument("--images", type=int, default=10_000)
    parser.add_argument("--first", type=int, default=len(changes), help="so many changes alone")
    parser.add_argument("--only", help="changes of this method alone")
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--out", type=Path, default=Path("docs/results") / script.replace("_", "-"))
    given = parser.parse_args()
    if given.only and given.only not in (method for method, _ in changes):
        parser.error(f"--only {given.only}: there is no change of it")
    cells = [
        cell
        for method, settings in changes[: given.first]
        if given.only in (None, method)
        for cell in asked(
            datasets=given.datasets,
            methods=[method],
            epsilons=given.epsilons,
            settings=settings,
            held_out=True,
        )
    ]
    run_bench(
        cells,
        seeds=given.seeds,
        jobs=given.jobs,
        out=given.out,
        command=(
            f"python benchmarks/{script}.py --first {given.first}"
            + (f" --only {given.only}" if given.only else "")
            + f" --seeds {given.seeds} --images {given.images}"
        ),
        images=given.images,
    )
