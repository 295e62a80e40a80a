"""One change at a time to what `datalens` does, judged on held-out training records.

    python benchmarks/ablation.py --jobs 2
    python benchmarks/ablation.py --jobs 2 --first 6 --images 50000 --seeds 1 \
        --out docs/results/ablation-50000

The first has every change, the second the main ones with as many images as elsewhere. The test
sets are not read. One JSON for each cell goes to --out, as with `datalens bench utility`; what is
there already is not repeated.
"""

import argparse
from pathlib import Path
from typing import Any

from datalens.workflows.bench.utility.cells import asked
from datalens.workflows.bench.utility.running import run_bench

PLAIN = {"clusters": 1, "label_share": 0.0, "spread": 1.0}
"""One Gaussian for each class, which keeps its own labels."""
CHANGES: list[tuple[str, dict[str, Any]]] = [
    ("class-gaussian", {}),
    ("datalens", PLAIN),
    ("datalens", PLAIN | {"clusters": 20}),
    ("datalens", {"clusters": 1, "spread": 1.0}),
    ("datalens", {}),
    ("datalens", {"spread": 1.0}),
    ("datalens", {"spread": 2.0}),
    ("datalens", {"own_label": 0.0}),
    ("datalens", {"own_label": 3.0}),
    ("datalens", {"label_share": 0.5}),
    ("datalens", {"cluster_share": 0.3}),
    ("datalens", {"vote_share": 0.2}),
]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--datasets", nargs="+", default=["mnist", "fashion-mnist"])
    parser.add_argument("--epsilons", nargs="+", type=float, default=[1.0])
    parser.add_argument("--seeds", type=int, default=2)
    parser.add_argument("--images", type=int, default=10_000)
    parser.add_argument("--first", type=int, default=len(CHANGES), help="so many changes alone")
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--out", type=Path, default=Path("docs/results/ablation"))
    given = parser.parse_args()
    cells = [
        cell
        for method, settings in CHANGES[: given.first]
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
            f"python benchmarks/ablation.py --first {given.first} --seeds {given.seeds}"
            f" --images {given.images}"
        ),
        images=given.images,
    )


if __name__ == "__main__":
    main()
