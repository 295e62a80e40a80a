"""What docs say of the planner is what benchmarks/planning.py finds in its files."""

import json
from argparse import Namespace
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import planning_figure
import planning_grid
import pytest

from datalens.workflows.bench.utility.results import read_results

ROOT = Path(__file__).parents[2]
RESULTS = ROOT / "docs" / "results"
FILES = RESULTS / "planning"
CELLS = {"fashion-mini": 19, "mnist": 20}
"""Of the whole grid."""
CHOSEN = 0.7
"""What the proxy that plan ranks by must reach."""
MEASURED = {
    "the grid, fashion-mini: settings and epsilons": ("planning/grid", "fashion-mini"),
    "the grid, MNIST: settings and epsilons": ("planning/grid", "mnist"),
    "docs/results/utility, MNIST: methods and epsilons": ("utility", "mnist"),
    "docs/results/utility, Fashion-MNIST: methods and epsilons": ("utility", "fashion-mnist"),
    "docs/results/ablation-50000, MNIST: parts of `datalens`": ("ablation-50000", "mnist"),
    "docs/results/ablation-50000, Fashion-MNIST: parts of `datalens`": (
        "ablation-50000",
        "fashion-mnist",
    ),
    "docs/results/sweeps, MNIST: votes alone": ("sweeps", "mnist"),
    "docs/results/sweeps, Fashion-MNIST: votes alone": ("sweeps", "fashion-mnist"),
    "docs/results/sweeps, CelebA gender: votes alone": ("sweeps", "celeba-gender"),
    "docs/results/sweeps, CelebA hair: votes alone": ("sweeps", "celeba-hair"),
}
"""Lines of the table in docs/planning.md: folder and data set of the cells behind them."""
AGREED = {
    "agreement of 60 compact teachers on fashion-mini, by shard, k and updates": "fashion-mini",
    "agreement of 60 compact teachers on MNIST, the same": "mnist",
}
SMALL = "small budgets on fashion-mini, two seeds"


def kept(part: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((FILES / f"{part}.json").read_text())
    return found


def table(page: str, first: str) -> list[list[str]]:
    """The rows of the table whose head begins so."""
    lines = (ROOT / "docs" / page).read_text().split("\n")
    begin = next(i for i, line in enumerate(lines) if line.startswith(f"| {first}")) + 2
    rows = []
    for line in lines[begin:]:
        if not line.startswith("|"):
            return rows
        rows.append([cell.strip() for cell in line.strip("|").split("|")])
    return rows


def test_the_figure_of_theorem_6_is_what_the_script_draws(tmp_path: Path) -> None:
    found = planning_figure.figure(Namespace(out=tmp_path))
    before = kept("figure")
    for name, each in found.items():
        for epsilon, best in each["best_k"].items():
            # On another processor teachers may differ in their last digits.
            assert best["signs"] == pytest.approx(before[name]["best_k"][epsilon]["signs"], rel=0.1)
    rows = {name: list(map(int, cells)) for name, *cells in table("theory.md", "best k")}
    told = {name: [best["signs"] for best in before[name]["best_k"].values()] for name in found}
    assert rows == told
    assert told["measured"] == sorted(told["measured"]) and len(set(told["measured"])) == 3


@pytest.mark.parametrize("term", planning_figure.TERMS)
def test_every_term_is_drawn_by_its_name(term: str) -> None:
    drawn = ElementTree.parse(FILES / "tradeoff.svg").getroot()
    words = [each.text for each in drawn.iter() if each.tag.endswith("text")]
    lines = [each for each in drawn.iter() if each.tag.endswith("polyline")]
    assert words.count(term) == 4  # two kinds of gradients, two scales
    assert len(lines) == 4 * len(planning_figure.TERMS)
    assert all(each.attrib["points"] for each in lines)


def test_the_bound_of_the_figure_has_all_its_terms() -> None:
    """None is nought, and together they are the total."""
    gradients = planning_figure.modelled()
    drawn = planning_figure.panel("model", gradients, steep=True).lines
    assert all(line[30] > 0 for line in drawn.values())
    parts = sum(line[30] for name, line in drawn.items() if name != "total")
    assert parts == pytest.approx(drawn["total"][30])


def stated(part: dict[str, Any]) -> list[str]:
    return [f"{part['spearman']:.2f}", str(part["cells"])]


@pytest.fixture(scope="module")
def confronted() -> dict[str, Any]:
    """Told by the predictor as it is now, seen in the files as they are now."""
    folders = {folder for folder, _ in MEASURED.values()}
    return {folder: planning_grid.confronted(read_results(RESULTS / folder)) for folder in folders}


def test_the_table_says_what_the_files_say(confronted: dict[str, Any]) -> None:
    expected = {
        line: stated(confronted[folder]["spearman"][data])
        for line, (folder, data) in MEASURED.items()
        if data in confronted[folder]["spearman"]
    }
    for line, data in AGREED.items():
        rows = [row for row in kept("agreement")["rows"] if row["data"] == data]
        expected[line] = stated(planning_grid.correlation(rows))
    expected[SMALL] = stated(planning_grid.correlation(kept("small")["rows"]))
    shown = {line: cells for line, *cells in table("planning.md", "predicted against measured")}
    assert shown == expected, "run: python benchmarks/planning.py ranks"


def test_the_file_of_ranks_is_that_of_the_predictor_as_it_is(confronted: dict[str, Any]) -> None:
    before = kept("ranks")
    for folder, found in confronted.items():
        for row, old in zip(found["rows"], before[folder]["rows"], strict=True):
            assert row["cell"] == old["cell"]
            assert row["told"] == pytest.approx(old["told"]), "the predictor is another one"
            assert row["seen"] == old["seen"]


@pytest.mark.parametrize("data", CELLS)
def test_the_proxy_ranks_the_grid(confronted: dict[str, Any], data: str) -> None:
    found = confronted["planning/grid"]["spearman"][data]
    assert found["cells"] == CELLS[data] and found["spearman"] >= CHOSEN


def test_the_page_says_what_the_grid_does_not_rank(confronted: dict[str, Any]) -> None:
    """Within one kind of settings, or one budget, where it is lower."""
    within = confronted["planning/grid"]["within"]
    shown = {line: cells for line, *cells in table("planning.md", "within the grid")}
    assert shown == {
        line: ["{} ({})".format(*stated(within[data][line])) for data in CELLS]
        for line in within["mnist"]
    }


@pytest.mark.parametrize("data", AGREED.values())
def test_the_proxy_ranks_agreement(data: str) -> None:
    rows = [row for row in kept("agreement")["rows"] if row["data"] == data]
    assert planning_grid.correlation(rows)["spearman"] >= CHOSEN
    # Told for other teachers than those who were asked, it would rank nothing.
    others = [
        row | {"told": other["told"]} for row, other in zip(rows, rows[7:] + rows[:7], strict=True)
    ]
    assert planning_grid.correlation(others)["spearman"] < CHOSEN


def test_the_grid_is_what_was_written_down(tmp_path: Path) -> None:
    """Every cell in the folder is one of GRID, and nothing was taken away."""
    settings = [{"method": method} | given for method, given in planning_grid.GRID]
    for result in read_results(FILES / "grid").values():
        assert {"method": result.method} | result.overrides in settings, result.stem
        assert result.held_out and result.epsilon_asked in (1.0, 10.0)


def test_small_budgets_are_as_the_page_says() -> None:
    rows = kept("small")["rows"]
    expected: dict[tuple[str, str], list[str]] = {}
    for row in sorted(rows, key=lambda row: (row["records"], row["epsilon"], row["seed"])):
        cell = expected.setdefault(
            (f"{row['records']:,}", f"{row['epsilon']:g}"), [f"{100 * row['told']:.0f}"]
        )
        cell.append(f"{100 * row['seen']:.0f}")
    shown = {
        (records, epsilon): [told, *seen.split(", ")]
        for records, epsilon, told, seen in table("planning.md", "records |")
    }
    assert shown == expected
