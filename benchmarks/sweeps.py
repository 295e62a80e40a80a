"""The paper's Tables 4 and 7 with our implementation: its loop, one parameter moved at a time.

    python benchmarks/sweeps.py --jobs 2

The preset `paper` with compact teachers. Epsilon 1 is what the tables are printed for; epsilon 10
is where the loop has a signal to work with. Cells go to docs/results/sweeps, one JSON each, as
those of `datalens bench utility` do, and tables with the paper's figures to tables.md beside
them; what is there already is not repeated.
"""

import argparse
import json
from pathlib import Path
from typing import Any

from datalens.workflows.bench.tables import for_markdown
from datalens.workflows.bench.utility.cells import asked
from datalens.workflows.bench.utility.results import Result
from datalens.workflows.bench.utility.running import run_bench

METHOD = "datalens-paper-compact"
RECORDS = 60_000


def teachers(number: int) -> dict[str, Any]:
    """With the batch that the paper gives them: as many images as a shard has records."""
    return {
        "n_teachers": number,
        "batch_size": RECORDS // number,
        "real_batch": RECORDS // number,
    }


AS_PRINTED: dict[str, Any] = {}
SWEEPS: dict[str, dict[str, dict[str, Any]]] = {
    "top-k": {str(k): {"top_k": k} for k in (100, 200, 300)},
    "teachers": {f"{number:,}": teachers(number) for number in (2000, 3000, 4000)},
    "beta": {str(beta): {"quorum": beta} for beta in (0.0, 0.1, 0.3, 0.5, 0.7, 0.9)},
    "components": {
        "all": AS_PRINTED,
        "without top-k": {"keep_all": True},
        "without quantisation": {"quantise": False},
        "without threshold": {"threshold": False},
    },
}

PRINTED: dict[str, dict[str, list[float]]] = {
    "mnist": {
        "top-k": [58.89, 71.23, 67.53],
        "teachers": [58.41, 70.61, 71.23],
        "beta": [63.61, 64.50, 68.90, 69.21, 71.23, 69.56],
        "components": [71.23, 51.70, 67.41, 63.61],
    },
    "fashion-mnist": {
        "top-k": [57.38, 64.78, 60.88],
        "teachers": [56.08, 59.52, 64.78],
        "beta": [58.59, 61.03, 60.60, 61.22, 62.13, 64.78],
        "components": [64.78, 47.75, 61.59, 58.59],
    },
}
"""Tables 4 and 7, epsilon 1, best on test."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--datasets", nargs="+", default=["mnist", "fashion-mnist"])
    parser.add_argument("--epsilons", nargs="+", type=float, default=[1.0, 10.0])
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--images", type=int, default=10_000)
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--out", type=Path, default=Path("docs/results/sweeps"))
    given = parser.parse_args()
    wanted = {
        (cell.dataset, parameter, cell.epsilon, name): cell
        for parameter, variants in SWEEPS.items()
        for name, settings in variants.items()
        for cell in asked(
            datasets=given.datasets, methods=[METHOD], epsilons=given.epsilons, settings=settings
        )
    }
    different = {as_text(cell.configuration): cell for cell in wanted.values()}
    bench = run_bench(
        list(different.values()),
        seeds=given.seeds,
        jobs=given.jobs,
        out=given.out,
        command=f"python benchmarks/sweeps.py --seeds {given.seeds} --images {given.images}",
        images=given.images,
    )
    found = {as_text(result.configuration): result for result in bench.results}
    figures = {where: found.get(as_text(cell.configuration)) for where, cell in wanted.items()}
    (given.out / "tables.md").write_text(tables(figures))


def as_text(configuration: dict[str, Any]) -> str:
    """Equal for equal ones: what is printed as the best is in each of the tables."""
    return json.dumps(configuration, sort_keys=True)


def tables(figures: dict[tuple[str, str, float, str], Result | None]) -> str:
    """One for each data set and parameter: ours by epsilon, and the paper's."""
    parts = []
    for dataset, parameter in dict.fromkeys((where[0], where[1]) for where in figures):
        names = SWEEPS[parameter]
        rows = [
            [
                f"ours, epsilon {epsilon:g}",
                *(shown(figures[dataset, parameter, epsilon, name]) for name in names),
            ]
            for epsilon in dict.fromkeys(where[2] for where in figures)
        ]
        printed = [f"{figure:.1f}" for figure in PRINTED[dataset][parameter]]
        rows.append(["the paper, epsilon 1, best on test", *printed])
        parts.append(for_markdown(f"{dataset}: {parameter}", (["", *names], rows)))
    return "\n".join(parts)


def shown(cell: Result | None) -> str:
    """Last epoch, and best on test, which is what compares with the paper."""
    if cell is None:
        return ""
    spread = "" if cell.spread is None else f" ± {100 * cell.spread:.1f}"
    return f"{100 * cell.accuracy:.1f}{spread} ({100 * cell.best_on_test:.1f})"


if __name__ == "__main__":
    main()
