"""`datalens report RUN1 RUN2 ...`: runs side by side."""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from datalens.data.documents import read_json, reading
from datalens.errors import DataLensError
from datalens.workflows.report.internal import TIMINGS, check_place
from datalens.workflows.report.page import bound, decimal, figure, per_cent, render, write
from datalens.workflows.report.published import ClassSamples, Published, published
from datalens.workflows.writing import EVALUATION

MOST_RUNS = 12


@dataclass(frozen=True, kw_only=True)
class Row:
    """One property of all runs, in their order; "" where a run has none."""

    name: str
    values: tuple[str, ...]
    internal: bool = False


def write_comparison(runs: list[Path], out: Path, *, internal: bool = False) -> Path:
    """One page over several runs, from published files alone unless it is `internal`.

    How long a run took is among the internal figures: it may depend on the records.
    """
    if len({run.resolve() for run in runs}) < len(runs):
        raise DataLensError("A run is named twice; a comparison needs different runs.")
    if len(runs) > MOST_RUNS:
        raise DataLensError(f"A page has room for {MOST_RUNS} runs; {len(runs)} were named.")
    if internal:
        check_place(out)
    found = told_apart([published(run) for run in runs])
    rows = [*public_rows(found), *(internal_rows(runs) if internal else ())]
    with reading(runs[0]):
        page = render(
            "compare.html.j2",
            runs=found,
            rows=rows,
            internal=internal,
            classes=by_class(found),
        )
    return write(page, out)


def free_place(*, internal: bool) -> Path:
    """comparison.html in this folder; what is there already may be somebody's, and stays."""
    stem = "comparison-INTERNAL" if internal else "comparison"
    for number in range(1, 10_000):
        path = Path(f"{stem}.html" if number == 1 else f"{stem}-{number}.html")
        if not path.exists() and not path.is_symlink():
            return path
    raise DataLensError(f"This folder is full of pages called {stem}; give --out.")


def told_apart(runs: list[Published]) -> list[Published]:
    """Runs of the same name bear their numbers too."""
    names = [run.name for run in runs]
    return [
        replace(run, name=f"{run.name} ({run.certificate['run']})")
        if names.count(run.name) > 1
        else run
        for run in runs
    ]


def public_rows(runs: list[Published]) -> list[Row]:
    """What certificates say, side by side."""
    certificates = [run.certificate for run in runs]

    def row(name: str, values: list[str]) -> Row:
        return Row(name=name, values=tuple(values))

    names = {
        "certified": "epsilon, certified",
        "pld": "epsilon, by privacy loss",
        "paper": "epsilon, by the paper's theorem",
        "gaussian": "epsilon, Gaussian (no bound)",
    }
    rows = [
        row("data", [c["data"]["name"] for c in certificates]),
        row("records", [f"{c['data']['n_records']:,}" for c in certificates]),
        row("method", [c["method"] for c in certificates]),
        row("private", ["yes" if c["private"] else "NOT PRIVATE" for c in certificates]),
        *(
            row(words, [_bound(c["epsilon"].get(n)) for c in certificates])
            for n, words in names.items()
        ),
        row("epsilon, a record replaced", [_bound(c["epsilon_replace"]) for c in certificates]),
        row("delta", [decimal(c["delta"]) if c["delta"] else "" for c in certificates]),
        row("releases", [f"{c['releases']:,}" for c in certificates]),
        row("steps", [_count(c["facts"].get("steps")) for c in certificates]),
        row("teachers", [_count(c["facts"].get("teachers")) for c in certificates]),
        row("noise", [c["noise"]["kind"] for c in certificates]),
    ]
    return [each for each in rows if any(each.values)]


def internal_rows(runs: list[Path]) -> list[Row]:
    """What only those may see who may see the records."""
    seconds, right = [], []
    for run in runs:
        with reading(run / "internal" / TIMINGS) as file:
            seconds.append(_figure(_told(file).get("seconds")))
        with reading(run / "internal" / EVALUATION) as file:
            told = _told(file)
            share, spread = told.get("accuracy"), told.get("accuracy_spread")
            shown = "" if share is None else per_cent(share)
            right.append(shown if spread is None else f"{shown} ± {per_cent(spread)}")
    rows = [
        Row(name="seconds to fit", values=tuple(seconds), internal=True),
        Row(name="accuracy on real images", values=tuple(right), internal=True),
    ]
    return [row for row in rows if any(row.values)]


def by_class(runs: list[Published]) -> dict[str, list[tuple[str, ClassSamples]]]:
    """The samples of each class, run by run; classes of one name are the same."""
    found: dict[str, list[tuple[str, ClassSamples]]] = {}
    for run in runs:
        for samples in run.samples:
            found.setdefault(samples.name, []).append((run.name, samples))
    return found


def _figure(number: Any) -> str:
    return "" if number is None else figure(number)


def _bound(number: Any) -> str:
    return "" if number is None else bound(number)


def _count(number: Any) -> str:
    return f"{number:,}" if number else ""


def _told(file: Path) -> dict[str, Any]:
    return read_json(file) if file.exists() else {}
