"""What the paper does not print: the page is that of the files, and rows change what they say."""

from pathlib import Path

import guesses

from datalens.synthesizers.settings import DataLensSettings
from datalens.workflows.presets import load_preset

FOLDER = Path(__file__).parents[2] / "docs" / "results" / "guesses"


def test_the_page_is_made_of_the_files() -> None:
    rows = {row["run"]: row for row in guesses.read(FOLDER)}
    assert rows.keys() == guesses.ROWS.keys()
    machine = next(iter(rows.values()))["machine"]
    assert (FOLDER / "README.md").read_text() == guesses.page(rows, machine)


def test_each_row_differs_from_the_preset_in_what_it_names() -> None:
    preset = load_preset("paper", data_name="mnist", epsilon=1.0)
    for name, changes in guesses.ROWS.items():
        own = {key: value for key, value in changes.items() if key != "latents"}
        DataLensSettings(epsilon=1.0, **preset | own)
        assert all(preset[key] != value for key, value in own.items()), name
