"""Figures that README.md repeats are those in the files behind them."""

import json
import re

import pytest

from datalens.workflows.bench.utility.printed import DATALENS, printed

from .shown import ROOT

UTILITY = ROOT / "docs" / "results" / "utility"
EPSILONS = ("0.2", "1", "10")
ROW = re.compile(r"^\| (?P<data>[\w-]+) \| (?P<method>[^|]+) \|(?P<cells>.*)\|$", re.MULTILINE)


def rows(page: str) -> list[tuple[str, str, list[str]]]:
    """Data set, method, and what stands under each epsilon."""
    return [
        (found["data"], found["method"], [each.strip() for each in found["cells"].split("|")])
        for found in ROW.finditer(page)
    ]


def measured(data: str, method: str, epsilon: str) -> str:
    file = UTILITY / f"{data}-{method}-epsilon-{epsilon}.json"
    accuracy = json.loads(file.read_text())["accuracy"]
    mean, spread = accuracy["mean"], accuracy["spread"]
    return f"{100 * mean:.1f}" + (f" ± {100 * spread:.1f}" if spread is not None else "")


def in_the_paper(data: str, epsilon: str) -> str:
    return f"*{100 * printed(data)[DATALENS][float(epsilon)]:.1f}*"


@pytest.mark.parametrize("data", ["mnist", "fashion-mnist"])
def test_the_readme_says_what_was_measured(data: str) -> None:
    shown = [row for row in rows((ROOT / "README.md").read_text()) if row[0] == data]
    assert {"datalens", "class-gaussian"} < {method for _, method, _ in shown}
    for _, method, cells in shown:
        if method.startswith("*"):
            assert cells == [in_the_paper(data, epsilon) for epsilon in EPSILONS]
        else:
            assert cells == [measured(data, method, epsilon) for epsilon in EPSILONS]


def test_another_figure_would_be_seen() -> None:
    (row,) = rows("| mnist | datalens | 92.0 ± 0.4 | 99.9 | 97.1 |\n")
    assert row == ("mnist", "datalens", ["92.0 ± 0.4", "99.9", "97.1"])
    assert row[2][1] != measured("mnist", "datalens", "1")
