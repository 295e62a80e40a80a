"""What the script behind docs/results/dpsgd keeps of its cells, and the page and figure of them."""

import json
import re
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
from classifying.cells import Cell, cifar, dpdl, mnist, product
from classifying.curves import panels
from classifying.figure import figure
from classifying.pages import page
from classifying.results import Repetition, Result, add, missing, path_of, read_results

from datalens.errors import DataLensError


def result(cell: Cell, seed: int = 0, right: float = 0.9, **changes: Any) -> Result:
    repetition = Repetition(
        seed=seed,
        accuracy=right,
        seconds=60.0,
        cpu_seconds=30.0,
        threads=1,
        machine={},
        source="x",
    )
    named: dict[str, Any] = {
        "cell": cell.to_json(),
        "training": {
            "recipe": {"clip": 1.0, "batch_size": 16, "learning_rate": 0.5},
            "steps": 3,
            "noise_multiplier": 2.0,
        },
        "epsilon": {"pld": 0.1, "certified": 0.12, "moments": 0.2},
        "command": "python benchmarks/classifiers.py run",
        "repetitions": (repetition,),
    }
    return Result(**(named | changes))


def test_a_repetition_that_is_there_is_not_missing(tmp_path: Path) -> None:
    cells = [mnist(0.8, 0.1), mnist(0.8, 1.0)]
    add(tmp_path, result(cells[0]))
    assert missing(tmp_path, cells, 2) == [(cells[1], 0), (cells[0], 1), (cells[1], 1)]
    add(tmp_path, result(cells[0], seed=1, right=0.8))
    (found,) = read_results(tmp_path).values()
    assert found.accuracy == pytest.approx(0.85)
    assert found.spread == pytest.approx(0.0707, abs=1e-4)


def test_two_recipes_are_not_averaged(tmp_path: Path) -> None:
    cell = mnist(0.8, 0.1)
    add(tmp_path, result(cell))
    with pytest.raises(DataLensError, match="another recipe"):
        add(tmp_path, result(cell, seed=1, training={"steps": 4}))


def test_a_file_that_is_no_cell_is_refused(tmp_path: Path) -> None:
    add(tmp_path, result(mnist(0.8, 0.1)))
    path_of(tmp_path, mnist(0.8, 0.1)).rename(tmp_path / "cells" / "other.json")
    with pytest.raises(DataLensError, match="no cell"):
        read_results(tmp_path)


def test_the_page_says_what_holds_and_what_does_not(tmp_path: Path) -> None:
    results = {
        cell: result(cell, right=right)
        for cell, right in ((mnist(0.8, 0.1), 0.90), (mnist(0.8, 0.2), 0.85))
    }
    lines = page(results, [], tmp_path).splitlines()
    above, missed = (next(x for x in lines if x.startswith(f"| {e} |")) for e in ("0.1", "0.2"))
    assert "90.00 (n = 1)" in above and "+4.12 | above" in above
    assert "-5.80 | NOT MET" in missed
    assert not any("Table 9" in line for line in lines)


def test_the_page_says_whether_compression_helps(tmp_path: Path) -> None:
    def both(gain: float) -> dict[Cell, Result]:
        found = {}
        for keep, more in ((0.8, gain), (1.0, 0.0)):
            cell = mnist(keep, 0.1)
            made = result(cell, right=0.9 + more)
            for seed in (1, 2):
                made = made.with_(result(cell, seed, 0.9 + more + seed / 1000).repetitions[0])
            found[cell] = made
        return found

    assert "at 1, worse at 0" in page(both(0.02), [], tmp_path).replace("\n", " ")
    assert "at 0, worse at 1" in page(both(-0.02), [], tmp_path).replace("\n", " ")
    assert "worse at 0, and neither at 1" in page(both(0.0), [], tmp_path).replace("\n", " ")


def test_others_stand_in_the_table_of_the_paper(tmp_path: Path) -> None:
    cells = [mnist(0.8, 0.5), dpdl(0.5), product("mnist", "wavelets", 0.5)]
    settings = {"batch_size": 512, "steps": 9, "learning_rate": 1.0, "noise_multiplier": 1.0}
    rights = (0.90, 0.91, 0.92)
    results = {c: result(c, right=r, training=settings) for c, r in zip(cells, rights, strict=True)}
    text = page(results, [], tmp_path)
    table = text[text.index("Table 8a") : text.index("`datalens classify --method")]
    assert "DPDL), ours | 91.00 (n = 1) |" in table
    assert "wavelets, ours | 92.00 (n = 1) |" in table
    assert "DPDL" not in page({cells[0]: results[cells[0]]}, [], tmp_path)


def test_a_search_without_noise_stands_last(tmp_path: Path) -> None:
    named = ("dataset", "keep", "clip", "batch_size", "steps", "way", "learning_rate", "accuracy")
    tried = dict(zip(named, ("fashion-mnist", 0.8, 1.0, 512, 9, 3.0, 0.5, 0.8), strict=True))
    search = [{**tried, "epsilon": None}, {**tried, "epsilon": 1.0}]
    rows = [x for x in page({}, search, tmp_path).splitlines() if x.startswith("| fashion-mnist")]
    assert [row.split("|")[2].strip() for row in rows] == ["1", "inf"]


def test_synthetic_data_stands_beside(tmp_path: Path) -> None:
    cell = Cell(dataset="mnist", epsilon=1.0, recipe="default")
    found = {
        "accuracy": {"mean": 0.954, "spread": 0.002},
        "repetitions": [{"seconds": {"fit": 60.0, "sample": 30.0, "judge": 30.0}}] * 3,
    }
    (tmp_path / "mnist-datalens-epsilon-1.json").write_text(json.dumps(found))
    settings = {"batch_size": 512, "steps": 9, "learning_rate": 1.0, "noise_multiplier": 1.0}
    text = page({cell: result(cell, training=settings)}, [], tmp_path)
    assert "| mnist | 1 | 90.00 (n = 1); 0.5 min |  | 95.4 ± 0.2; 2.0 min |" in text


ROOT = Path(__file__).parents[2]
RESULTS = ROOT / "docs" / "results" / "dpsgd"
REPEATED = r"\| (?:(?:fashion-)?mnist \| )?[\d.]+ \| .*±"
"""A row that begins with an epsilon, or with a data set and one."""


def test_the_page_and_the_figure_are_those_of_the_cells() -> None:
    results = read_results(RESULTS)
    search = json.loads((RESULTS / "search.json").read_text())
    utility = ROOT / "docs" / "results" / "utility"
    assert (RESULTS / "README.md").read_text() == page(results, search, utility)
    assert (RESULTS / "figure3.svg").read_text() == figure(panels(results))
    fewer = dict(list(results.items())[1:])
    assert (RESULTS / "README.md").read_text() != page(fewer, search, utility)


@pytest.mark.parametrize("where", ["docs/classify.md", "docs/methods/dpsgd.md"])
def test_figures_that_other_pages_repeat_are_those_of_the_page(where: str) -> None:
    known = (RESULTS / "README.md").read_text().splitlines()
    repeated = [x for x in (ROOT / where).read_text().splitlines() if re.match(REPEATED, x)]
    assert len(repeated) >= 3
    assert set(repeated) <= set(known)


def test_the_figure_has_a_line_for_each_share_ours_and_theirs() -> None:
    cells = [mnist(0.8, 0.1), mnist(0.8, 1.0), cifar("resnet18", 0.8, 0.1)]
    drawn = figure(panels({cell: result(cell) for cell in cells}))
    tree = ElementTree.fromstring(drawn)
    lines = tree.findall("{http://www.w3.org/2000/svg}polyline")
    assert sum("stroke-dasharray" in line.attrib for line in lines) == 3 * 4
    dots = tree.findall("{http://www.w3.org/2000/svg}circle")
    assert len(dots) == 3
    assert "DPDL" not in drawn and "DPDL" in figure(panels({dpdl(0.5): result(dpdl(0.5))}))
    assert "ours on resnet18" in drawn
