"""The page on the moments' grid and on grain says what its file holds."""

import json
from pathlib import Path

import gains

FOLDER = Path(__file__).parents[2] / "docs" / "results" / "gains"


def test_the_page_is_made_of_the_file() -> None:
    kept = json.loads((FOLDER / "gains.json").read_text())
    assert (FOLDER / "README.md").read_text() == gains.page(kept)
    wanted = {(seed, *unit) for seed, unit in gains.UNITS}
    names = ("seed", "method", "data", "epsilon")
    assert {tuple(unit[name] for name in names) for unit in kept["units"]} == wanted


def test_the_difference_is_of_the_same_seed() -> None:
    units = [
        {"equal": {"linear": 0.5 + seed / 10}, "grain 0": {"linear": 0.51 + seed / 10}}
        for seed in range(3)
    ]
    assert gains.columns(units, "equal", "grain 0").endswith("+1.0 ± 0.0")
