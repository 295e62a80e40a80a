"""`datalens bench utility` on one's own images, on few records, in colour, and within a time."""

import io
import json
import sys
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from datalens.data import places365
from datalens.errors import DataLensError
from datalens.workflows.bench.machine import source_digest
from datalens.workflows.bench.utility import cells, not_run, pages, running, unit, workers
from datalens.workflows.bench.utility.results import read_results
from datalens.workflows.presets import PAPER_SETS, load_preset, teachers_within

from .test_bench_utility import STEM, Fake, alive, asked, orders, sleeper, wait_for

PAPER = "datalens-paper-compact"


def pets(
    folder: Path, *, names: Iterable[str] = ("cat", "dog"), n: int = 30, side: int = 8
) -> Path:
    """Class folders of colour images, each class in a shade of its own."""
    chance = np.random.default_rng(0)
    for split, count in (("train", n), ("test", 4)):
        for place, name in enumerate(names):
            (folder / split / name).mkdir(parents=True)
            for number in range(count):
                pixels = chance.integers(0, 100, (side, side, 3), dtype=np.uint8) + 70 * place
                Image.fromarray(pixels.astype(np.uint8)).save(
                    folder / split / name / f"{number}.png"
                )
    return folder


def own(folder: Path, **changes: Any) -> list[cells.Cell]:
    return asked(datasets=[str(folder)], **changes)


def test_a_folder_is_benched_under_its_last_part(
    run: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And a page that is published does not say where it lies."""
    folder, work = pets(tmp_path / "mine" / "pets"), Fake()
    (cell,) = own(folder)
    assert (cell.stem, cell.path) == ("pets-class-gaussian-epsilon-3", folder)
    assert cell.configuration["data"]["shape"] == [3, 8, 8]
    monkeypatch.setattr(running, "Processes", lambda **given: work)
    words = ("--epsilons", 3, "--methods", "class-gaussian", "--seeds", 1, "--out", "out")
    assert run("bench", "utility", "--datasets", f"{folder},digits", *words).code == 0
    assert {stem for stem, _ in work.begun} == {cell.stem, STEM}
    page = Path("out/README.md").read_text()
    assert "--datasets pets,digits --epsilons" in page and "mine" not in page


def test_a_worker_reads_the_folder(tmp_path: Path) -> None:
    (cell,) = own(pets(tmp_path / "pets"))
    order = running._order(cell, 0, 40, None, source_digest())
    order = unit.Order.model_validate_json(order.model_dump_json())  # as it is told
    unit.repeat(order.model_copy(update={"cache": tmp_path / "cache"}), tmp_path)
    figures = json.loads((tmp_path / unit.FIGURES).read_text())
    assert set(figures["per_class"]) == {"cat", "dog"}
    assert figures["test_images"] == 8 and figures["noise"] == "exact"


@pytest.mark.parametrize(
    "names, said",
    [
        (["digits"], "name of another data set"),
        (["one/pets", "two/pets"], "name of another data set"),
        (["my pets"], "rename it, with letters"),
        (["pets/train"], "no test data"),
    ],
)
def test_folders_that_are_refused(tmp_path: Path, names: list[str], said: str) -> None:
    for name in names:
        pets(tmp_path / name.removesuffix("/train"), n=2)
    with pytest.raises(DataLensError, match=said):
        asked(datasets=[str(tmp_path / name) for name in names])


@pytest.mark.parametrize("name", PAPER_SETS)
@pytest.mark.parametrize("epsilon", [1.0, 10.0])
def test_teachers_of_the_papers_shards(name: str, epsilon: float) -> None:
    preset = load_preset("paper", data_name=name, epsilon=epsilon)
    number, shard = preset["n_teachers"], preset["real_batch"]
    assert teachers_within(preset, number * shard) == number
    hair = 404 if epsilon == 1 else 202  # shards of 12 or 24: 8,000 teachers or 4,000
    few = {"celeba-gender": (8500, 314), "celeba-hair": (4850, hair), "places365": (9461, 473)}
    here, expected = few.get(name, (6000, 400))
    assert teachers_within(preset, here) == expected
    assert shard <= here / expected < shard + 1


def test_fewer_records_than_the_paper_had(tmp_path: Path) -> None:
    """Teachers as the shards allow, an override of the cell; but not over what was asked for."""
    folder = pets(tmp_path / "woods", names=places365.CLASS_NAMES, n=20, side=64)
    (few,) = own(folder, methods=[PAPER], epsilons=[1.0])
    assert (
        few.overrides == {"n_teachers": 3} and few.stem == f"woods-{PAPER}-epsilon-1-n_teachers-3"
    )
    settings = few.configuration["settings"]
    assert (settings["sigma"], settings["top_k"], settings["real_batch"]) == (9000, 700, 20)
    (given,) = own(folder, methods=[PAPER], epsilons=[1.0], settings={"n_teachers": "5"})
    assert given.overrides == {"n_teachers": 5}
    (other,) = own(folder, methods=["class-gaussian"])
    assert other.overrides == {}


def test_a_stand_in_has_the_papers_figures_and_says_so(tmp_path: Path) -> None:
    """What has the classes of Places365 has; what has others, whatever its name, has none."""
    woods = pets(tmp_path / "woods", names=places365.CLASS_NAMES, n=20, side=64)
    scenes = pets(tmp_path / "scenes", n=20, side=64)
    found = [
        *own(woods, methods=["class-gaussian", PAPER], epsilons=[1.0]),
        *own(scenes, epsilons=[1.0]),
    ]
    result = running.run_bench(
        found, seeds=1, jobs=1, out=tmp_path / "out", command="it", images=50, work=Fake()
    )
    tables = pages.utility_tables(result.results)
    rows = {name: tables[f"{name}: accuracy %, by epsilon"][1] for name in ("woods", "scenes")}
    assert ["DataLens in the paper: best on test, as printed", "43.1"] in rows["woods"]
    assert [row[0] for row in rows["scenes"]] == ["class-gaussian"]
    page = (tmp_path / "out" / "README.md").read_text()
    assert "woods stands in for places365, which it is not" in page
    assert "woods has 60 training records here; the paper had 120,000, 2000 times" in page
    assert f"woods, {PAPER}, epsilon 1: 3 teachers instead of 6,000" in page
    assert "sigma / N is 3e+03 where the paper has 1.5" in page
    assert "scenes stands" not in page and "scenes has" not in page


class Noise:
    """As much of a synthesizer as a sheet needs."""

    class_names = ("a", "b", "c")

    def __init__(self, shape: tuple[int, int, int]) -> None:
        self.shape = shape

    def sample(
        self, count: int, labels: list[int], seed: int | None
    ) -> tuple[np.ndarray, list[int]]:
        chance = np.random.default_rng(0)
        return chance.integers(0, 256, (count, *self.shape), dtype=np.uint8), labels


def sheet_of(shape: tuple[int, int, int], path: Path) -> int:
    """Colours in a sheet of noise."""
    unit.write_small_sheet(Noise(shape), path)  # type: ignore[arg-type]
    with Image.open(path) as picture:
        assert picture.size == (10 * (shape[2] + 2) + 2, 3 * (shape[1] + 2) + 2)
        return len(picture.convert("RGB").getcolors(10_000))


def test_sheets_have_colours_enough_and_are_small(tmp_path: Path) -> None:
    assert 4 <= sheet_of((1, 16, 16), tmp_path / "grey.png") <= 8
    colour = tmp_path / "colour.png"
    assert 32 < sheet_of((3, 64, 64), colour) <= 64
    assert colour.stat().st_size < 110_000
    whole = io.BytesIO()
    Image.fromarray(np.random.default_rng(0).integers(0, 256, (200, 662, 3), np.uint8)).save(
        whole, "PNG"
    )
    assert whole.tell() > 300_000  # what it would be with every colour


class Slow(Fake):
    """Every repetition takes more than it may."""

    def __call__(self, order: unit.Order) -> workers.Outcome:
        self.begun.append((order.stem, order.seed))
        raise workers.TookTooLong(120)


def within(out: Path, minutes: float | None, work: workers.Work) -> running.Bench:
    return running.run_bench(
        asked(),
        seeds=1,
        jobs=1,
        out=out,
        command="it",
        images=200,
        most_minutes=minutes,
        work=work,
    )


def test_what_takes_too_long_is_listed_and_not_tried_again(tmp_path: Path) -> None:
    result = within(tmp_path, 120, Slow())
    assert result.failed == [] and [cell.stem for cell in result.not_run] == [STEM]
    assert (tmp_path / not_run.FILE).read_text().count("\n") == 1
    assert "| digits | class-gaussian | 3 | 120 |" in (tmp_path / "README.md").read_text()
    for minutes, tried in ((120, 0), (60, 0), (121, 1), (None, 1)):
        work = Slow()
        within(tmp_path, minutes, work)
        assert len(work.begun) == tried
    assert read_results(tmp_path) == {}


def test_a_cell_that_was_run_after_all_leaves_the_list(tmp_path: Path) -> None:
    within(tmp_path, 120, Slow())
    result = within(tmp_path, 240, Fake())
    assert result.not_run == [] and not (tmp_path / not_run.FILE).exists()
    page = (tmp_path / "README.md").read_text()
    assert "Not run" not in page and "70.0 (n = 1)" in page


def test_a_list_that_is_none_is_refused(tmp_path: Path) -> None:
    (tmp_path / not_run.FILE).write_text('{"dataset": "digits"}\n')
    with pytest.raises(DataLensError, match=r"not-run\.jsonl is no list"):
        within(tmp_path, 120, Fake())


def test_a_process_is_ended_when_its_time_is_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Within seconds, though it would sleep for ten minutes; and its cell is not begun again."""
    monkeypatch.setattr(workers, "WORKER", sleeper(tmp_path))
    processes = workers.Processes(jobs=1, most_minutes=2 / 60)
    started = time.monotonic()
    results = list(workers.done(orders(3), processes, jobs=1))
    assert time.monotonic() - started < 300
    assert [type(outcome) for _, outcome in results] == 3 * [workers.TookTooLong]
    (pid,) = wait_for(1, tmp_path)
    assert not alive(pid)


def test_a_process_with_time_enough_is_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    code = 'import sys; open(sys.argv[1] + "/figures.json", "w").write("{}")'
    monkeypatch.setattr(workers, "WORKER", [sys.executable, "-c", code])
    assert workers.Processes(jobs=1, most_minutes=1)(orders(1)[0]).figures == {}


@pytest.mark.parametrize("minutes", ["0", "-1", "nan"])
def test_minutes_are_more_than_none(run: Any, minutes: str) -> None:
    said = run("bench", "utility", "--datasets", "digits", "--most-minutes", minutes)
    assert said.code == 2 and "--most-minutes takes positive numbers" in said.err
