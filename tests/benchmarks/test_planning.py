"""What docs say of the planner is what benchmarks/planning.py finds in its files."""

import json
from argparse import Namespace
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import planning_figure
import pytest

ROOT = Path(__file__).parents[2]
FILES = ROOT / "docs" / "results" / "planning"


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
