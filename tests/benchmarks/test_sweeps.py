"""Cells and pages of the scripts behind the paper's Tables 4, 5 and 7."""

from pathlib import Path
from typing import Any

import compressors
import numpy as np
import pytest
import sweeps
from PIL import Image

from datalens.workflows.bench.utility.cells import Cell
from datalens.workflows.bench.utility.results import Repetition, Result, read_results
from datalens.workflows.presets import load_preset

RESULTS = Path(__file__).parents[2] / "docs" / "results"
FACES = 240
"""Of 162,770 in the paper."""


@pytest.fixture
def faces(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """CelebA's layout with a few faces, where data sets are looked for first."""
    base = tmp_path / "data" / "celeba"
    (base / "img_align_celeba").mkdir(parents=True)
    names = [f"{number:06}.jpg" for number in range(1, FACES + 3)]
    hair = ("1 -1 -1", "-1 1 -1", "-1 -1 1")
    marks = [f"{name} {hair[i % 3]} {(-1) ** i}" for i, name in enumerate(names)]
    heads = [str(len(names)), "Black_Hair Blond_Hair Brown_Hair Male"]
    (base / "list_attr_celeba.txt").write_text("\n".join([*heads, *marks]) + "\n")
    parts = [f"{name} {0 if i < FACES else 2}\n" for i, name in enumerate(names)]
    (base / "list_eval_partition.txt").write_text("".join(parts))
    for name in names:
        Image.fromarray(np.zeros((8, 8, 3), np.uint8)).save(base / "img_align_celeba" / name)
    monkeypatch.setenv("DATALENS_DATA", str(tmp_path / "data"))


def done(cell: Cell, accuracy: float) -> Result:
    repetition = Repetition(
        seed=0,
        accuracy=accuracy,
        best_on_test=accuracy,
        per_class={},
        epsilon={"certified": 1.0},
        epsilon_replace=2.0,
        delta=1e-5,
        releases=1,
        noise="exact",
        synthetic_images=10,
        test_images=10,
        seconds={"fit": 60, "sample": 1, "judge": 1},
        threads=1,
        versions={},
        machine={"processor": "abacus"},
        command="it",
    )
    return Result.of(cell).with_(repetition)


@pytest.mark.parametrize("dataset", sweeps.PRINTED)
def test_the_best_that_is_printed_is_the_preset(dataset: str) -> None:
    """The same figure stands in every table, in the column of what the preset has."""
    preset = load_preset("paper", data_name=dataset, epsilon=1.0)
    records = preset["n_teachers"] * preset["real_batch"]
    best = set()
    for parameter, columns in sweeps.sweeps(dataset, records).items():
        figures = sweeps.PRINTED[dataset][parameter]
        assert len(columns) == len(figures)
        (as_preset,) = (
            place
            for place, change in enumerate(columns.values())
            if sweeps.moved(dataset, 1.0, records, change) == "{}"
        )
        assert figures[as_preset] == max(figures)
        best.add(figures[as_preset])
    assert best == {compressors.TABLE_5[dataset][0]}


@pytest.mark.usefixtures("faces")
def test_every_cell_on_few_faces_has_the_papers_shards() -> None:
    cells = sweeps.wanted("celeba-gender", [1.0])
    assert len(cells) == 13
    for cell in cells:
        settings = cell.configuration["settings"]
        assert settings["n_teachers"] == cell.overrides["n_teachers"]
        assert settings["n_teachers"] == FACES // settings["real_batch"]
        assert settings["sigma"] == 9000
    teachers = {cell.configuration["settings"]["n_teachers"] for cell in cells}
    assert teachers == {240 // 40, 240 // 27, 240 // 20}
    assert {cell.configuration["settings"]["top_k"] for cell in cells} == {500, 700, 900, 12288}


@pytest.mark.usefixtures("faces")
def test_the_tables_have_what_is_there_and_the_papers_figures() -> None:
    """Each column its own cell; nothing where there is none; grey and colour side by side."""
    cells = sweeps.wanted("celeba-hair", [1.0])
    results = [done(cell, place / 100) for place, cell in enumerate(cells)]
    kept = read_results(RESULTS / "sweeps").values()
    grey = [result for result in kept if result.dataset in ("mnist", "fashion-mnist")]
    text = sweeps.tables([*results[:-1], *grey])
    _, _, faces = text.partition("**celeba-hair: top-k**")
    rows = [line for line in faces.splitlines() if line.startswith("| ours")]
    shown = [[figure.strip() for figure in row.split("|")[2:-1]] for row in rows]
    of = {cell.stem: f"{place}.0 ({place}.0)" for place, cell in enumerate(cells)}
    base = of[f"celeba-hair-{sweeps.METHOD}-epsilon-1-n_teachers-20"]
    assert shown[0][1] == shown[1][2] == shown[2][5] == shown[3][0] == base
    assert shown[3][3] == ""  # the last cell is not there
    each = {figure for row in shown for figure in row}
    assert each == {*of.values(), ""} - {"12.0 (12.0)"}
    assert "| 4,000 (here 10) | 6,000 (here 15) | 8,000 (here 20) |" in faces
    assert "| the paper, epsilon 1, best on test | 60.6 | 33.2 | 53.2 | 55.0 |" in faces
    assert "**mnist: beta**" in text


def test_what_is_published_is_what_the_scripts_write() -> None:
    cells = read_results(RESULTS / "sweeps").values()
    assert sweeps.tables(cells) == (RESULTS / "sweeps" / "tables.md").read_text()
    folder = RESULTS / "compressors"
    page = compressors.accuracy_table(list(read_results(folder / "accuracy").values()))
    assert page == (folder / "accuracy.md").read_text()


@pytest.mark.usefixtures("faces")
def test_compressors_on_few_faces() -> None:
    cells = compressors.cells(["celeba-gender"], [1.0])
    settings: list[dict[str, Any]] = [cell.configuration["settings"] for cell in cells.values()]
    assert {each["n_teachers"] for each in settings} == {FACES // 27}
    assert len({each["steps"] for each in settings}) == 1
    assert [each.get("compressor", "topagg") for each in settings] == list(compressors.NAMES)
    page = compressors.accuracy_table([done(cell, 0.5) for cell in list(cells.values())[:2]])
    assert "| celeba-gender | ours, epsilon 1 | 50.0 (50.0) | 50.0 (50.0) |  |" in page
    assert "| celeba-gender | Table 5, epsilon 1 | (70.6) | (44.5) | (65.5) |" in page
