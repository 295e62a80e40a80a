"""The tables of a folder of cells, and its README."""

import math
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from statistics import fmean

from datalens.errors import DataLensError
from datalens.files import replace_file
from datalens.workflows.bench.tables import Rows, for_markdown
from datalens.workflows.bench.utility.cells import plain, variants
from datalens.workflows.bench.utility.not_run import NotRun
from datalens.workflows.bench.utility.notes import compared, notes
from datalens.workflows.bench.utility.printed import (
    Row,
    printed,
    printed_distances,
    printed_scores,
)
from datalens.workflows.bench.utility.results import Repetition, Result, spread

HEADING = "# Accuracy of a judge that has learned from synthetic images"
PAGE = "README.md"
USUAL = 3
"""Repetitions; where there are others, their number is shown."""
NOTHING = ""
BEST = "best on test, as printed"
NOISE = {False: "the operating system", True: "its seed"}
"""By whether a cell is seeded."""

ABOUT = """\
Per cent of real test images that the judge, a small convolutional network trained on {images}
synthetic images, puts into the right class. Last epoch, mean ± sample standard deviation over n
repetitions ({usual} where no n is given), each with a fit of its own and fresh noise from
{noise}; repetition s is judged with seed s. Nothing is selected on test data, except in
what is called best on test, which is optimistic and there for comparison with the paper's figures.
All figures come from real test images, and no budget was spent on them: of private data, this page
is internal.

This page is rewritten by `datalens bench utility` from the JSON files beside it, which have every
setting, each repetition and each class. In the column none nobody is protected.
"""


LOOKS = """\
Inception Score and FID are of at most 10,000 of the same synthetic images, beside as many test
images, by the judge's network trained on the real training images. The JSON files also have the FID
followed to ever more images, and precision, recall, density and coverage. A blank is a cell that
was measured before these figures were.
"""


def utility_tables(results: Iterable[Result]) -> dict[str, Rows]:
    """Title, heads and rows of each table, over all cells."""
    cells = sorted(results, key=_order)
    found: dict[str, Rows] = {}
    for dataset, held_out in dict.fromkeys((cell.dataset, cell.held_out) for cell in cells):
        own = [cell for cell in cells if (cell.dataset, cell.held_out) == (dataset, held_out)]
        heads, ours = _grid(own, _accuracy)
        epsilons = _columns(own)
        known_as = "" if held_out else compared(own[0])
        paper = _paper(printed(known_as), epsilons, BEST, 100, 1)
        name = f"{dataset}, held-out training records" if held_out else dataset
        found[f"{name}: accuracy %, by epsilon"] = (heads, ours + paper)
        found[f"{name}: best on test %, and minutes a repetition"] = _grid(own, _best_and_time)
        if any(cell.measures for cell in own):
            found |= _looks(name, own, known_as)
    found["Epsilon by each accountant"] = (ACCOUNTED, [_accounted(cell) for cell in cells])
    return found


def _looks(name: str, cells: list[Result], printed_of: str) -> dict[str, Rows]:
    """Inception Score and FID; blank where a cell was measured before there were any."""
    epsilons = _columns(cells)
    heads, scores = _grid(cells, _figure("inception_score"))
    _, distances = _grid(cells, _figure("fid"))
    scores += _paper(printed_scores(printed_of), epsilons, "as printed", 1, 2)
    inception = "with Inception-v3, as printed"
    distances += _paper(printed_distances(printed_of), epsilons, inception, 1, 2)
    accuracies = [each.domain_accuracy for cell in cells for each in cell.measures]
    by = f"by a classifier that is {100 * accuracies[0]:.1f} % accurate on real images"
    return {
        f"{name}: Inception Score {by}": (heads, scores),
        f"{name}: FID in the features of that classifier": (heads, distances),
    }


ACCOUNTED = [
    "data",
    "method",
    "asked",
    "certified",
    "paper",
    "Gaussian (no bound)",
    "if replaced",
    "delta",
    "releases",
    "teachers",
    "steps",
]


def not_run_tables(cells: Iterable[NotRun]) -> dict[str, Rows]:
    """None where every cell was run."""
    rows = [
        [cell.dataset, label(cell), plain(cell.epsilon_asked), f"{cell.minutes:g}"]
        for cell in sorted(cells, key=_order)
    ]
    heads = ["data", "method", "epsilon", "ended after, minutes"]
    return {"Not run, because a repetition takes too long": (heads, rows)} if rows else {}


def write_page(out: Path, results: Iterable[Result], not_run: Iterable[NotRun] = ()) -> None:
    """OUT/README.md, over everything in the folder."""
    replace_file(out / PAGE, page(results, not_run).encode())


def check_page(out: Path) -> None:
    """Somebody else's README is not overwritten."""
    file = out / PAGE
    if file.exists() and not file.read_text(errors="replace").startswith(HEADING):
        raise DataLensError(f"{file} is not a page of bench utility; name another --out.")


def page(results: Iterable[Result], not_run: Iterable[NotRun] = ()) -> str:
    cells = sorted(results, key=_order)
    repetitions = [each for cell in cells for each in cell.repetitions]
    images = sorted({each.synthetic_images for each in repetitions})
    kinds = sorted({cell.seeded for cell in cells})
    about = ABOUT.format(
        images=" or ".join(f"{count:,}" for count in images),
        usual=USUAL,
        noise=" or ".join(NOISE[seeded] for seeded in kinds),
    )
    parts = [f"{HEADING}\n", about]
    parts += [LOOKS] if any(cell.measures for cell in cells) else []
    tables = utility_tables(cells) | not_run_tables(not_run)
    parts += [for_markdown(title, rows) for title, rows in tables.items()]
    if said := notes(cells):
        parts.append(said)
    commands = dict.fromkeys(each.command for each in repetitions)
    machines = dict.fromkeys(map(_machine, repetitions))
    parts += ["By\n", "".join(f"    {command}\n" for command in commands)]
    parts += ["on\n", "".join(f"- {machine}\n" for machine in machines)]
    parts.append("Samples of repetition 0, one row a class:\n")
    parts += [f"{cell.stem}\n\n![{cell.stem}]({cell.stem}.png)\n" for cell in cells]
    return "\n".join(parts)


def label(result: Result | NotRun) -> str:
    """A row's name: the method, and settings given on top of it."""
    return ", ".join([result.method, *(f"{n} {v}" for n, v in result.overrides.items())])


def _columns(cells: list[Result]) -> list[float | None]:
    """Every epsilon; what has none comes last."""
    return sorted({cell.epsilon_asked for cell in cells}, key=_size)


def _size(epsilon: float | None) -> float:
    return math.inf if epsilon is None else epsilon


def _order(result: Result | NotRun) -> tuple[str, bool, int, str, float]:
    known = list(variants())
    place = known.index(result.method) if result.method in known else len(known)
    return result.dataset, result.held_out, place, label(result), _size(result.epsilon_asked)


def _grid(cells: list[Result], show: Callable[[Result], str]) -> Rows:
    """Rows by method, columns by epsilon."""
    epsilons = _columns(cells)
    shown = {(label(cell), cell.epsilon_asked): show(cell) for cell in cells}
    rows = [
        [name, *(shown.get((name, epsilon), NOTHING) for epsilon in epsilons)]
        for name in dict.fromkeys(label(cell) for cell in cells)
    ]
    return ["method", *map(plain, epsilons)], rows


def _accuracy(cell: Result) -> str:
    count = len(cell.repetitions)
    spread = "" if cell.spread is None else f" ± {100 * cell.spread:.1f}"
    return f"{100 * cell.accuracy:.1f}{spread}" + ("" if count == USUAL else f" (n = {count})")


def _figure(name: str) -> Callable[[Result], str]:
    def show(cell: Result) -> str:
        each = [getattr(measured, name) for measured in cell.measures]
        if not each:
            return NOTHING
        around = spread(each)
        shown = f"{fmean(each):.2f}" + ("" if around is None else f" ± {around:.2f}")
        return shown + ("" if len(each) == USUAL else f" (n = {len(each)})")

    return show


def _best_and_time(cell: Result) -> str:
    seconds = sum(each.seconds.all for each in cell.repetitions) / len(cell.repetitions)
    return f"{100 * cell.best_on_test:.1f}; {seconds / 60:.1f} min"


def _paper(
    rows_of: Mapping[str, Row], epsilons: list[float | None], how: str, times: int, digits: int
) -> list[list[str]]:
    """What the paper prints at these epsilons."""
    rows = []
    for name, figures in rows_of.items():
        known = {e: f"{times * figure:.{digits}f}" for e, figure in figures.items()}
        shown = [NOTHING if e is None else known.get(e, NOTHING) for e in epsilons]
        if any(shown):
            rows.append([f"{name} in the paper: {how}", *shown])
    return rows


def _accounted(cell: Result) -> list[str]:
    found, settings = cell.to_json(), cell.configuration["settings"]
    by = found["epsilon"]
    replaced, delta = found["epsilon_replace"], found["delta"]
    return [
        cell.dataset,
        label(cell),
        plain(cell.epsilon_asked),
        *(f"{by[name]:.4f}" if name in by else NOTHING for name in ACCOUNTANTS),
        NOTHING if replaced is None else f"{replaced:.4f}",
        NOTHING if delta is None else f"{delta:g}",
        f"{found['releases']:,}",
        f"{settings['n_teachers']:,}" if "n_teachers" in settings else NOTHING,
        str(settings.get("steps", NOTHING)),
    ]


ACCOUNTANTS = ("certified", "paper", "gaussian")


def _machine(repetition: Repetition) -> str:
    described = {**repetition.machine, "threads": repetition.threads, **repetition.versions}
    return ", ".join(f"{name} {value}" for name, value in described.items())
