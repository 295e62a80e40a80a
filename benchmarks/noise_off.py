"""Does each rival learn at all? A budget so large that its noise is next to nothing.

    python benchmarks/noise_off.py --jobs 2

Judged on held-out training records of MNIST. Where noise costs nothing, so do steps and large
shards: settings beside a method's name are those that it was given. One JSON for each cell goes to
--out, as with `datalens bench utility`; what is there already is not repeated.
"""

import argparse
from pathlib import Path
from typing import Any

from datalens.workflows.bench.utility.cells import asked
from datalens.workflows.bench.utility.running import run_bench

EPSILON = 10_000.0
FEW = {"n_teachers": 100}
RIVALS: list[tuple[str, dict[str, Any]]] = [
    ("dp-merf", {}),
    ("dpgan", {}),
    ("gswgan", FEW | {"refresh_every": 20}),
    (
        "gpate",
        FEW
        | {"refresh_every": 5, "steps": 2000}
        | {"generator_learning_rate": 1e-3, "moving_average": 0.998},
    ),
    ("pategan", {"steps": 400}),
    ("gswgan", {}),
    ("gpate", {}),
    ("pategan", {}),
]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--datasets", nargs="+", default=["mnist"])
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--images", type=int, default=10_000)
    parser.add_argument("--first", type=int, default=len(RIVALS), help="so many cells alone")
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--out", type=Path, default=Path("docs/results/noise-off"))
    given = parser.parse_args()
    cells = [
        cell
        for method, settings in RIVALS[: given.first]
        for cell in asked(
            datasets=given.datasets,
            methods=[method],
            epsilons=[EPSILON],
            settings=settings,
            held_out=True,
        )
    ]
    run_bench(
        cells,
        seeds=given.seeds,
        jobs=given.jobs,
        out=given.out,
        command=f"python benchmarks/noise_off.py --seeds {given.seeds} --images {given.images}",
        images=given.images,
    )


if __name__ == "__main__":
    main()
