"""The paper's Tables 4 and 7 with our implementation: its loop, one parameter moved at a time.

    python benchmarks/sweeps.py --jobs 2
    python benchmarks/sweeps.py --datasets celeba-gender celeba-hair --epsilons 1 --jobs 2

The preset `paper` with compact teachers. Epsilon 1 is what the tables are printed for; epsilon 10
is where the loop has a signal to work with. Where there are fewer records than the paper had, there
are as many teachers as have shards of the paper's size. Cells go to docs/results/sweeps, one JSON
each, as those of `datalens bench utility` do, and tables of all that are there, with the paper's
figures, to tables.md beside them; what is there already is not repeated.
"""

import argparse
import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from datalens.workflows.bench.tables import for_markdown
from datalens.workflows.bench.utility.cells import Cell, asked
from datalens.workflows.bench.utility.printed import RECORDS
from datalens.workflows.bench.utility.results import Result
from datalens.workflows.bench.utility.running import run_bench
from datalens.workflows.presets import load_preset, teachers_within

METHOD = "datalens-paper-compact"
Change = dict[str, Any]
"""What goes over the preset."""

GREY, FACES = (2000, 3000, 4000), (4000, 6000, 8000)
TEACHERS = {"mnist": GREY, "fashion-mnist": GREY, "celeba-gender": FACES, "celeba-hair": FACES}
"""Of the paper, with the records it had."""
TOP_K = {"mnist": (100, 200, 300), "celeba-gender": (500, 700, 900)}
TOP_K |= {"fashion-mnist": TOP_K["mnist"], "celeba-hair": TOP_K["celeba-gender"]}
BETA = {
    "mnist": (0.0, 0.1, 0.3, 0.5, 0.7, 0.9),
    "celeba-gender": (0.5, 0.6, 0.7, 0.8, 0.85, 0.9),
}
BETA |= {"fashion-mnist": BETA["mnist"], "celeba-hair": BETA["celeba-gender"]}
COMPONENTS: dict[str, Change] = {
    "all": {},
    "without top-k": {"keep_all": True},
    "without quantisation": {"quantise": False},
    "without threshold": {"threshold": False},
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
    "celeba-gender": {
        "top-k": [69.22, 70.58, 68.11],
        "teachers": [63.78, 70.58, 69.36],
        "beta": [64.40, 67.89, 69.22, 68.61, 70.58, 63.81],
        "components": [70.58, 61.34, 68.89, 68.60],
    },
    "celeba-hair": {
        "top-k": [57.92, 60.61, 57.69],
        "teachers": [56.69, 58.35, 60.61],
        "beta": [49.57, 56.69, 56.12, 60.22, 58.35, 60.61],
        "components": [60.61, 33.18, 53.25, 55.04],
    },
}
"""Tables 4 and 7, epsilon 1, best on test. Of Places365 they have nothing."""


def teachers(dataset: str, number: int, n_records: int) -> Change:
    """Shards as large as `number` teachers had in the paper, whose batches are as large as they."""
    shard = RECORDS[dataset] // number
    return {"n_teachers": n_records // shard, "batch_size": shard, "real_batch": shard}


def sweeps(dataset: str, n_records: int) -> dict[str, dict[str, Change]]:
    """By table and column, the column called as the paper's is."""
    return {
        "top-k": {str(k): {"top_k": k} for k in TOP_K[dataset]},
        "teachers": {f"{n:,}": teachers(dataset, n, n_records) for n in TEACHERS[dataset]},
        "beta": {str(beta): {"quorum": beta} for beta in BETA[dataset]},
        "components": COMPONENTS,
    }


def moved(dataset: str, epsilon: float, n_records: int, change: Mapping[str, Any]) -> str:
    """What a change differs in from the preset: of the best that is printed, nothing does."""
    preset = load_preset("paper", data_name=dataset, epsilon=epsilon)
    preset["n_teachers"] = teachers_within(preset, n_records)
    other = {name: value for name, value in change.items() if preset.get(name) != value}
    return json.dumps(other, sort_keys=True)


def records_of(cell: Cell | Result) -> int:
    n_records: int = cell.configuration["data"]["n_records"]
    return n_records


def wanted(dataset: str, epsilons: list[float]) -> list[Cell]:
    """One of each that differs."""
    (some,) = asked(datasets=[dataset], methods=[METHOD], epsilons=epsilons[:1], settings={})
    found = {}
    for columns in sweeps(dataset, records_of(some)).values():
        for change in columns.values():
            for cell in asked(
                datasets=[dataset], methods=[METHOD], epsilons=epsilons, settings=change
            ):
                found[json.dumps(cell.configuration, sort_keys=True)] = cell
    return list(found.values())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "--datasets", nargs="+", choices=list(PRINTED), default=["mnist", "fashion-mnist"]
    )
    parser.add_argument("--epsilons", nargs="+", type=float, default=[1.0, 10.0])
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--images", type=int, default=10_000)
    parser.add_argument("--seeded", action="store_true", help="noise from seeds; NOT PRIVATE")
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--most-minutes", type=float)
    parser.add_argument("--out", type=Path, default=Path("docs/results/sweeps"))
    given = parser.parse_args()
    bench = run_bench(
        [cell for dataset in given.datasets for cell in wanted(dataset, given.epsilons)],
        seeds=given.seeds,
        jobs=given.jobs,
        out=given.out,
        command=command("sweeps.py", given),
        images=given.images,
        seeded=given.seeded,
        most_minutes=given.most_minutes,
    )
    (given.out / "tables.md").write_text(tables(bench.results))


def command(script: str, given: argparse.Namespace) -> str:
    """What a page says that its cells were made by."""
    words = ["--datasets", *given.datasets]
    words += ["--epsilons", *(f"{epsilon:g}" for epsilon in given.epsilons)]
    words += [f"--seeds {given.seeds} --images {given.images}"]
    words += ["--seeded"] if given.seeded else []
    return " ".join([f"python benchmarks/{script}", *words])


def tables(results: Iterable[Result]) -> str:
    """One for each data set and parameter: ours by epsilon, and the paper's."""
    cells = [cell for cell in results if cell.method == METHOD and cell.epsilon_asked]
    parts = []
    for dataset in sorted({cell.dataset for cell in cells}, key=list(PRINTED).index):
        own = [cell for cell in cells if cell.dataset == dataset]
        for parameter, columns in sweeps(dataset, records_of(own[0])).items():
            epsilons = sorted({cell.epsilon_asked or 0.0 for cell in own})
            rows = [row(own, epsilon, columns) for epsilon in epsilons]
            printed = [f"{figure:.1f}" for figure in PRINTED[dataset][parameter]]
            rows.append(["the paper, epsilon 1, best on test", *printed])
            heads = ["", *(head(name, change) for name, change in columns.items())]
            parts.append(for_markdown(f"{dataset}: {parameter}", (heads, rows)))
    return "\n".join(parts)


def head(name: str, change: Change) -> str:
    """The paper's, with the teachers that there are here where they are not as many."""
    here = change.get("n_teachers")
    return name if here is None or f"{here:,}" == name else f"{name} (here {here:,})"


def row(cells: list[Result], epsilon: float, columns: dict[str, Change]) -> list[str]:
    found = {}
    for cell in cells:
        if cell.epsilon_asked == epsilon:
            found[moved(cell.dataset, epsilon, records_of(cell), cell.overrides)] = cell
    dataset, n_records = cells[0].dataset, records_of(cells[0])
    each = [moved(dataset, epsilon, n_records, change) for change in columns.values()]
    return [f"ours, epsilon {epsilon:g}", *(shown(found.get(which)) for which in each)]


def shown(cell: Result | None) -> str:
    """Last epoch, and best on test, which is what compares with the paper."""
    if cell is None:
        return ""
    spread = "" if cell.spread is None else f" ± {100 * cell.spread:.1f}"
    return f"{100 * cell.accuracy:.1f}{spread} ({100 * cell.best_on_test:.1f})"


if __name__ == "__main__":
    main()
