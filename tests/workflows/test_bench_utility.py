"""`datalens bench utility`: what is skipped, kept, resumed, refused and shown."""

import json
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from threading import Event, Thread
from typing import Any

import numpy as np
import pytest
from PIL import Image

from datalens import load
from datalens.data import Records
from datalens.errors import DataLensError
from datalens.privacy.ledger import ledger_path
from datalens.synthesizers import METHODS, ClassGaussian
from datalens.utility.domain import DomainClassifier
from datalens.utility.measures import measured
from datalens.workflows import cli
from datalens.workflows.bench.machine import source_digest
from datalens.workflows.bench.utility import cells, folder, pages, running, unit, workers
from datalens.workflows.bench.utility.printed import (
    printed,
    printed_distances,
    printed_scores,
)
from datalens.workflows.bench.utility.results import read_results
from datalens.workflows.bench.utility.unit import Order

DIGITS = {"datasets": ["digits"], "methods": ["class-gaussian"], "epsilons": [3.0], "settings": {}}


class Fake:
    """Work without a fit: a repetition's accuracy follows from its seed."""

    def __init__(self, fail: Iterable[tuple[str, int]] = ()) -> None:
        self.fail, self.begun, self.stopped = set(fail), [], False

    def __call__(self, order: Order) -> workers.Outcome:
        self.begun.append((order.stem, order.seed))
        if (order.stem, order.seed) in self.fail:
            raise DataLensError("the weather is bad.")
        return outcome(order)

    def stop(self) -> None:
        self.stopped = True


def outcome(order: Order) -> workers.Outcome:
    figures = {
        "seed": order.seed,
        "accuracy": 0.7 + 0.1 * order.seed,
        "best_on_test": 0.9,
        "per_class": {"0": 0.5 + 0.1 * order.seed, "1": None},
        "epsilon": {"certified": 0.99, "paper": 1.2, "gaussian": 0.9},
        "epsilon_replace": 1.9,
        "delta": 1e-5,
        "releases": 66,
        "noise": "seeded" if order.seeded else "exact",
        "synthetic_images": order.images,
        "test_images": 397,
        "seconds": {"fit": 30.0, "sample": 10.0, "judge": 50.0},
        "threads": 1,
        "versions": {"torch": "2"},
        "machine": {"processor": "abacus"},
    }
    return workers.Outcome(figures=figures, sheet=b"PNG" if order.seed == 0 else None)


def asked(**changes: Any) -> list[cells.Cell]:
    return cells.asked(**{**DIGITS, **changes})


def bench(
    out: Path, found: Sequence[cells.Cell], work: workers.Work, *, seeds: int = 3, **named: Any
) -> running.Bench:
    usual = {"jobs": 1, "command": "bench it", "images": 200}
    return running.run_bench(found, seeds=seeds, out=out, work=work, **{**usual, **named})


STEM = "digits-class-gaussian-epsilon-3"


def test_the_judge_learns_from_as_many_images_as_there_are_records_within_reason() -> None:
    (few,) = asked()
    facts = few.configuration["data"]
    assert facts["n_records"] == 1400
    more = few.configuration | {"data": facts | {"n_records": 60_000}}
    many = replace(few, configuration=more)
    assert [few.images(None), many.images(None)] == [1400, 50_000]
    assert [few.images(200), many.images(200)] == [200, 200]


def test_what_is_there_is_skipped_and_more_seeds_are_added(tmp_path: Path) -> None:
    first, second, third = Fake(), Fake(), Fake()
    bench(tmp_path, asked(), first, seeds=2)
    assert first.begun == [(STEM, 0), (STEM, 1)]
    bench(tmp_path, asked(), second, seeds=2)
    assert second.begun == []
    bench(tmp_path, asked(), third, seeds=3)
    assert third.begun == [(STEM, 2)]
    kept = json.loads((tmp_path / f"{STEM}.json").read_text())
    assert kept["seeds"] == [0, 1, 2]
    assert kept["accuracy"]["mean"] == pytest.approx(0.8)
    assert kept["accuracy"]["spread"] == pytest.approx(0.1)
    assert kept["accuracy"]["each"] == pytest.approx([0.7, 0.8, 0.9])
    assert kept["per_class"] == {"0": pytest.approx(0.6), "1": None}
    assert kept["configuration"]["settings"]["sums_share"] == 0.15
    assert kept["configuration"]["data"]["n_records"] == 1400
    assert {path.name for path in tmp_path.iterdir() if path.is_file()} == {
        f"{STEM}.json",
        f"{STEM}.png",
        "README.md",
    }


def test_repetitions_with_other_numbers_of_images_are_not_averaged(tmp_path: Path) -> None:
    bench(tmp_path, asked(), Fake(), seeds=1)
    file = tmp_path / f"{STEM}.json"
    kept = json.loads(file.read_text())
    kept["repetitions"][0]["synthetic_images"] += 1
    file.write_text(json.dumps(kept))
    with pytest.raises(DataLensError, match="--images"):
        bench(tmp_path, asked(), Fake(), seeds=2)


@pytest.mark.parametrize("first", [False, True])
def test_repetitions_with_and_without_a_seed_are_not_averaged(tmp_path: Path, first: bool) -> None:
    bench(tmp_path, asked(), Fake(), seeds=1, seeded=first)
    with pytest.raises(DataLensError, match=f"made with{'' if first else 'out'} --seeded"):
        bench(tmp_path, asked(), Fake(), seeds=2, seeded=not first)
    bench(tmp_path, asked(), Fake(), seeds=2, seeded=first)
    page = " ".join((tmp_path / "README.md").read_text().split())
    assert ("fresh noise from its seed;" in page) is first
    assert ("fresh noise from the operating system;" in page) is not first
    assert ("All cells are of experiments with noise from a seed" in page) is first


def test_a_page_counts_the_cells_that_are_seeded(tmp_path: Path) -> None:
    bench(tmp_path, asked(), Fake(), seeds=1)
    bench(tmp_path, asked(epsilons=[1.0]), Fake(), seeds=1, seeded=True)
    page = " ".join((tmp_path / "README.md").read_text().split())
    assert "from the operating system or its seed;" in page
    assert "1 of the 2 cells are of experiments" in page and "NOT PRIVATE" in page


def test_one_repetition_of_every_cell_comes_before_the_second_of_any(tmp_path: Path) -> None:
    work = Fake()
    bench(tmp_path, asked(epsilons=[1.0, 3.0]), work, seeds=2)
    assert [seed for _, seed in work.begun] == [0, 0, 1, 1]


def test_what_takes_long_does_not_come_last(tmp_path: Path) -> None:
    work = Fake()
    bench(tmp_path, asked(methods=["class-gaussian", "gpate", "dcgan"]), work, seeds=2)
    begun = [(stem.split("-")[1], seed) for stem, seed in work.begun]
    assert begun == [(method, seed) for seed in (0, 1) for method in ("dcgan", "gpate", "class")]
    assert set(running.SLOWEST) == set(METHODS)


@pytest.mark.parametrize("jobs", [1, 2])
def test_an_interruption_keeps_what_is_done(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, jobs: int
) -> None:
    """Ctrl-C while the third repetition is written: two are there, whole, and are not repeated."""
    keep, calls = folder.Folder.keep, []

    def interrupted(self: folder.Folder, *arguments: Any) -> None:
        calls.append(arguments)
        if len(calls) == 3:
            raise KeyboardInterrupt
        keep(self, *arguments)

    work, again = Fake(), Fake()
    with monkeypatch.context() as patch:
        patch.setattr(folder.Folder, "keep", interrupted)
        with pytest.raises(KeyboardInterrupt):
            bench(tmp_path, asked(), work, seeds=5, jobs=jobs)
    assert work.stopped
    before = set(read_results(tmp_path)[STEM].seeds)
    assert len(before) == 2
    bench(tmp_path, asked(), again, seeds=5, jobs=jobs)
    assert {seed for _, seed in again.begun} == set(range(5)) - before
    assert read_results(tmp_path)[STEM].seeds == [0, 1, 2, 3, 4]


def test_the_page_is_of_the_whole_folder(tmp_path: Path) -> None:
    """Also when nothing is left to do, and somebody has lost the page."""
    bench(tmp_path, asked(), Fake(), seeds=1)
    page = (tmp_path / "README.md").read_text()
    (tmp_path / "README.md").unlink()
    work = Fake()
    bench(tmp_path, asked(), work, seeds=1)
    assert work.begun == [] and (tmp_path / "README.md").read_text() == page


def test_a_file_is_never_half_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    bench(tmp_path, asked(), Fake(), seeds=1)
    before = (tmp_path / f"{STEM}.json").read_text()
    real = Path.write_bytes

    def broken(self: Path, content: bytes) -> int:
        real(self, content[: len(content) // 2])
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(Path, "write_bytes", broken)
        with pytest.raises(OSError, match="No space"):
            bench(tmp_path, asked(), Fake(), seeds=2)
    assert (tmp_path / f"{STEM}.json").read_text() == before
    assert not list(tmp_path.glob(".*"))


def test_a_failure_is_named_and_the_others_go_on(tmp_path: Path) -> None:
    result = bench(tmp_path, asked(), Fake(fail=[(STEM, 1)]))
    assert result.failed == [f"{STEM}, repetition 1: the weather is bad."]
    assert read_results(tmp_path)[STEM].seeds == [0, 2]
    again = Fake()
    assert bench(tmp_path, asked(), again).failed == []
    assert again.begun == [(STEM, 1)]


def test_overrides_make_a_cell_of_their_own() -> None:
    changes = {"methods": ["datalens"], "settings": {"steps": "2", "sigma": "500.0", "latent": "8"}}
    (plain,), (set_) = asked(methods=["datalens"]), asked(**changes)
    assert set_[0].stem == f"{plain.stem}-latent-8-sigma-500.0-steps-2"
    assert set_[0].configuration["settings"]["latent"] == 8
    # However a value is written, and in whichever order, the cell is the same.
    same = {"sigma": "5e2", "latent": "8", "steps": "2"}
    assert asked(methods=["datalens"], settings=same) == set_


def test_a_variant_brings_its_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    variant = cells.Variant(method="datalens", settings={"vote_share": 0.8})
    monkeypatch.setitem(cells.SPECIAL, "datalens-some", variant)
    (cell,) = asked(methods=["datalens-some"])
    assert cell.stem == "digits-datalens-some-epsilon-3"
    assert cell.configuration["settings"]["vote_share"] == 0.8
    (over,) = asked(methods=["datalens-some"], settings={"vote_share": "0.6"})
    assert over.configuration["settings"]["vote_share"] == 0.6


def test_epsilons_that_differ_have_files_that_differ() -> None:
    close = asked(epsilons=[1.0, 1.0000001, 1.0])
    assert [cell.stem.rpartition("-")[2] for cell in close] == ["1", "1.0000001"]


def test_repetitions_of_another_configuration_are_not_mixed_in(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bench(tmp_path, asked(), Fake(), seeds=1)
    changed = cells.Variant(method="class-gaussian", settings={"sums_share": 0.3})
    monkeypatch.setitem(cells.SPECIAL, "class-gaussian", changed)
    work = Fake()
    with pytest.raises(DataLensError, match=r"another configuration.*settings\.sums_share"):
        bench(tmp_path, asked(), work)
    assert work.begun == []


@pytest.mark.parametrize("content", ["{}", "[]", "no JSON", '{"accuracy": 0.8}'])
def test_a_file_that_is_no_cell_is_refused(tmp_path: Path, content: str) -> None:
    (tmp_path / "other.json").write_text(content)
    with pytest.raises(DataLensError, match=r"other\.json"):
        bench(tmp_path, asked(), Fake())


def test_a_renamed_cell_is_refused(tmp_path: Path) -> None:
    bench(tmp_path, asked(), Fake())
    (tmp_path / f"{STEM}.json").rename(tmp_path / "digits-datalens-epsilon-3.json")
    with pytest.raises(DataLensError, match="is no cell"):
        read_results(tmp_path)


def test_somebody_elses_page_is_not_overwritten(tmp_path: Path) -> None:
    (tmp_path / "README.md").write_text("# My project\n")
    with pytest.raises(DataLensError, match=r"README\.md is not a page"):
        bench(tmp_path, asked(), Fake())
    assert (tmp_path / "README.md").read_text() == "# My project\n"


def test_one_bench_at_a_time_writes_to_a_folder(tmp_path: Path) -> None:
    with folder.alone_in(tmp_path), pytest.raises(DataLensError, match="Another bench"):
        bench(tmp_path, asked(), Fake())
    bench(tmp_path, asked(), Fake(), seeds=1)


def test_the_tables(tmp_path: Path) -> None:
    """The paper's rows stand beside ours; cells that were not asked for are shown too."""
    found = asked(epsilons=[3.0])
    bench(tmp_path, found, Fake(), seeds=1)
    (cell,) = found
    mnist = [
        cells.Cell(
            dataset="mnist",
            method="class-gaussian",
            epsilon=epsilon,
            held_out=False,
            overrides={},
            configuration=cell.configuration,
        )
        for epsilon in (10.0, 0.2)
    ]
    result = bench(tmp_path, mnist, Fake(), seeds=3)
    tables = pages.utility_tables(result.results)
    heads, rows = tables["mnist: accuracy %, by epsilon"]
    assert heads == ["method", "0.2", "10"]
    assert rows[0] == ["class-gaussian", "80.0 ± 10.0", "80.0 ± 10.0"]
    assert rows[1] == ["DataLens in the paper: best on test, as printed", "23.4", "80.7"]
    assert len(rows) == 6
    assert tables["digits: accuracy %, by epsilon"][1] == [["class-gaussian", "70.0 (n = 1)"]]
    best = tables["mnist: best on test %, and minutes a repetition"]
    assert best[1] == [["class-gaussian", "90.0; 1.5 min", "90.0; 1.5 min"]]
    accounted = tables["Epsilon by each accountant"][1]
    assert [row[:2] for row in accounted] == [["digits", "class-gaussian"]] + 2 * [
        ["mnist", "class-gaussian"]
    ]
    assert accounted[0][3:6] == ["0.9900", "1.2000", "0.9000"]
    text = (tmp_path / "README.md").read_text()
    assert "| class-gaussian | 80.0 ± 10.0 |" in text and "70.0 (n = 1)" in text
    assert "    bench it\n" in text and "processor abacus" in text and "96.5 % on mnist" in text
    assert f"![{STEM}]({STEM}.png)" in text
    assert "deviation over n repetitions (3 where no n is given)" in " ".join(text.split())
    assert "of private data, this page is internal." in " ".join(text.split())


def test_cells_from_before_there_were_measures_stay_and_are_blank(tmp_path: Path) -> None:
    """Files without them are read, added to, and shown beside others."""
    old, new = asked(methods=["class-gaussian"]), asked(methods=["dp-merf"])
    bench(tmp_path, old, Fake(), seeds=1)
    file = tmp_path / f"{STEM}.json"
    kept = json.loads(file.read_text())
    del kept["measures"], kept["repetitions"][0]["measures"]
    del kept["repetitions"][0]["seconds"]["measure"]
    file.write_text(json.dumps(kept))
    bench(tmp_path, old, Fake(), seeds=1)
    assert "Inception Score" not in (tmp_path / "README.md").read_text()
    assert json.loads(file.read_text()) == kept

    class Looked(Fake):
        def __call__(self, order: Order) -> workers.Outcome:
            made = super().__call__(order)
            look = {"inception_score": 4.0 + order.seed, "fid": 20.0, "fid_infinite": None}
            counts = {"fid_images": 90, "dimensions": 64, "synthetic_images": 200}
            more = {"prdc": {"precision": 0.5}, "domain_accuracy": 0.987, "real_images": 90}
            made.figures["measures"] = look | counts | more
            return made

    result = bench(tmp_path, new, Looked(), seeds=3)
    tables = pages.utility_tables(result.results)
    title = "digits: Inception Score by a classifier that is 98.7 % accurate on real images"
    assert dict(tables[title][1]) == {"class-gaussian": "", "dp-merf": "5.00 ± 1.00"}
    fids = dict(tables["digits: FID in the features of that classifier"][1])
    assert fids == {"class-gaussian": "", "dp-merf": "20.00 ± 0.00"}
    (stem,) = (cell.stem for cell in new)
    summed = json.loads((tmp_path / f"{stem}.json").read_text())["measures"]
    assert summed["inception_score"] == {"mean": 5.0, "spread": 1.0, "each": [4.0, 5.0, 6.0]}
    assert "measured before" in (tmp_path / "README.md").read_text()


def test_what_is_published_here_can_still_be_read() -> None:
    results = Path(__file__).parents[2] / "docs" / "results" / "utility"
    assert len(read_results(results)) > 20


def test_the_papers_looks() -> None:
    """Tables 3 and 12."""
    for found, truth in ((printed_scores, {1: 4.37, 10: 5.78}), (printed_distances, {1: 186.06})):
        assert truth.items() <= found("mnist")["DataLens"].items()
        assert found("digits") == {}
        rows = [row for name in ("mnist", "fashion-mnist", "celeba-gender") for row in found(name)]
        assert len(rows) == 15 and rows[0] == "DataLens"
    assert printed_distances("celeba-gender")["DataLens"] == {1: 297.73, 10: 320.84}


def test_what_protects_nobody_has_a_column_of_its_own(tmp_path: Path) -> None:
    """One cell, whatever the epsilons: it has none."""
    found = asked(methods=["dcgan", "class-gaussian"], epsilons=[3.0, 1.0])
    assert sorted(cell.stem for cell in found) == [
        "digits-class-gaussian-epsilon-1",
        "digits-class-gaussian-epsilon-3",
        "digits-dcgan",
    ]

    class Bare(Fake):
        def __call__(self, order: Order) -> workers.Outcome:
            made = super().__call__(order)
            if order.configuration["method"] == "dcgan":
                nothing = {"epsilon": {}, "epsilon_replace": None, "delta": None, "noise": "none"}
                made.figures.update(nothing, releases=0)
            return made

    bench(tmp_path, found, Bare(), seeds=1)
    tables = pages.utility_tables(read_results(tmp_path).values())
    heads, rows = tables["digits: accuracy %, by epsilon"]
    assert heads == ["method", "1", "3", "none"]
    assert rows == [
        ["class-gaussian", "70.0 (n = 1)", "70.0 (n = 1)", ""],
        ["dcgan", "", "", "70.0 (n = 1)"],
    ]
    accounted = tables["Epsilon by each accountant"][1]
    assert accounted[-1][:9] == ["digits", "dcgan", "none", "", "", "", "", "", "0"]


def test_the_papers_figures() -> None:
    assert printed("mnist")["DataLens"] == {
        **{0.2: 0.2344, 0.4: 0.2919, 0.6: 0.4201, 0.8: 0.6485},
        **{1: 0.7123, 10: 0.8066},
    }
    assert [round(100 * printed("fashion-mnist")["DataLens"][e], 1) for e in (0.2, 1, 10)] == [
        *(22.3, 64.8, 70.6)
    ]
    both = [*printed("mnist").values(), *printed("fashion-mnist").values()]
    assert [len(row) for row in both] == [6] * 10
    assert printed("digits") == {}


def sleeper(tmp_path: Path) -> list[str]:
    """A worker that says it is there, and then sleeps."""
    text = f"import os, time; open({str(tmp_path)!r} + f'/{{os.getpid()}}', 'w'); time.sleep(600)"
    return [sys.executable, "-c", text]


def alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def wait_for(count: int, place: Path) -> list[int]:
    for _ in range(2400):
        if len(found := [int(path.name) for path in place.iterdir()]) >= count:
            return found
        time.sleep(0.05)
    raise TimeoutError


def orders(count: int) -> list[Order]:
    return [running._order(asked()[0], seed, 200, None, "0") for seed in range(count)]


def test_stopping_ends_every_process(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(workers, "WORKER", sleeper(tmp_path))
    started, found = time.monotonic(), []
    processes, ended = workers.Processes(jobs=2), Event()

    def stop_when_they_run() -> None:
        found.extend(wait_for(2, tmp_path))
        processes.stop()
        ended.set()

    Thread(target=stop_when_they_run, daemon=True).start()
    results = list(workers.done(orders(4), processes, jobs=2))
    assert ended.is_set() and time.monotonic() - started < 300
    assert len(found) == 2 and not any(alive(pid) for pid in found)
    assert all(isinstance(error, DataLensError) for _, error in results)
    assert len(list(tmp_path.iterdir())) == 2  # those that waited never began


@pytest.mark.parametrize(
    "code, said",
    [
        ("raise SystemExit('first\\n\\nthe disk is full.\\n')", "the disk is full."),
        ("import os; os.kill(os.getpid(), 9)", r"killed \(signal 9\)"),
        ("raise SystemExit(3)", "ended with code 3"),
        ("", "ended with code 0"),
    ],
)
def test_what_a_worker_says_at_its_end(
    monkeypatch: pytest.MonkeyPatch, code: str, said: str
) -> None:
    monkeypatch.setattr(workers, "WORKER", [sys.executable, "-c", code])
    with pytest.raises(DataLensError, match=said):
        workers.Processes(jobs=1)(orders(1)[0])


def test_a_worker_that_is_dead_before_it_has_its_order_is_waited_for() -> None:
    words = [sys.executable, "-c", ""]
    with subprocess.Popen(words, stdin=subprocess.PIPE, text=True) as dead:
        dead.wait()
        workers._tell(dead, orders(1)[0])
    assert dead.returncode == 0


def test_a_workers_surroundings(monkeypatch: pytest.MonkeyPatch) -> None:
    """A home of its own, its share of the cores, and nothing of either left behind."""
    code = """
import json, os, sys
where = {name: os.environ[name] for name in ("DATALENS_HOME", "TMPDIR", "OMP_NUM_THREADS")}
order = json.loads(sys.stdin.readline())
open(sys.argv[1] + "/figures.json", "w").write(json.dumps({**where, "seed": order["seed"]}))
"""
    monkeypatch.setattr(workers, "WORKER", [sys.executable, "-c", code])
    monkeypatch.setattr(workers, "cores", lambda: 8)
    home = os.environ["DATALENS_HOME"]
    first, second = (workers.Processes(jobs=3)(order).figures for order in orders(2))
    assert [first["seed"], second["seed"]] == [0, 1]
    assert first["OMP_NUM_THREADS"] == "2"
    assert len({home, first["DATALENS_HOME"], second["DATALENS_HOME"]}) == 3
    assert os.environ["DATALENS_HOME"] == home
    assert not Path(first["TMPDIR"]).exists()


def test_other_code_than_at_the_start_is_not_measured(tmp_path: Path) -> None:
    (order,) = orders(1)
    with pytest.raises(DataLensError, match="source of datalens has changed"):
        unit.repeat(order, tmp_path)
    unit.repeat(order.model_copy(update={"source": source_digest()}), tmp_path)
    assert json.loads((tmp_path / unit.FIGURES).read_text())["versions"]["source"]


def test_a_seeded_repetition_can_be_repeated(tmp_path: Path) -> None:
    """In every figure and every pixel; one that is not seeded cannot."""
    found = []
    for seeded in (True, True, False, False):
        (order,) = orders(1)
        told = {"source": source_digest(), "seeded": seeded}
        unit.repeat(order.model_copy(update=told), tmp_path)
        figures = json.loads((tmp_path / unit.FIGURES).read_text())
        assert figures["noise"] == ("seeded" if seeded else "exact")
        found.append((figures["measures"]["fid"], (tmp_path / unit.SHEET).read_bytes()))
    assert found[0] == found[1]
    assert found[2][0] != found[3][0] and found[2][1] != found[3][1]


def test_the_domain_classifier_is_learned_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And the figures are those of that classifier, whichever worker computes them."""
    learned, learn = [], DomainClassifier.learn

    def counted(*given: Any, **named: Any) -> DomainClassifier:
        learned.append(1)
        return learn(*given, **named)

    monkeypatch.setattr(DomainClassifier, "learn", counted)
    digits, test = load("digits"), load("digits", split="test")
    drawn = digits.images[:200], digits.labels[:200]
    monkeypatch.setattr(ClassGaussian, "sample", lambda self, count, **named: drawn)
    cache = tmp_path / "cache"
    for order in orders(2):
        told = {"source": source_digest(), "cache": cache, "seed": order.seed + 1}
        unit.repeat(order.model_copy(update=told), tmp_path)
    assert learned == [1] and len(list(cache.glob("domain-*.safetensors"))) == 1
    found = json.loads((tmp_path / unit.FIGURES).read_text())["measures"]
    domain = learn(digits)
    own = measured(drawn[0], test.images, domain)
    assert found["fid"] == pytest.approx(own.fid, rel=1e-6)
    assert found["inception_score"] == pytest.approx(own.inception_score)
    assert found["domain_accuracy"] == domain.tested(test).accuracy


@pytest.fixture
def command(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Any:
    def call(*words: object) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["datalens", "bench", "utility", *map(str, words)])
        try:
            cli.main()
            code = 0
        except SystemExit as stop:
            code = int(stop.code or 0)
        return (code, *capsys.readouterr())

    return call


@pytest.mark.parametrize(
    "words, said",
    [
        (["--datasets", "nonesuch"], "nonesuch is no data set"),
        (["--datasets", ","], "at least one data set"),
        (["--methods", "magic"], "Unknown method 'magic'"),
        (["--epsilons", "0"], "--epsilons takes positive numbers, got '0'"),
        (["--epsilons", "1,-2"], "got '-2'"),
        (["--epsilons", "nan"], "got 'nan'"),
        (["--epsilons", "one"], "got 'one'"),
        (["--seeds", "0"], "--seeds must be at least 1"),
        (["--jobs", "0"], "--jobs must be at least 1"),
        (["--set", "steps"], "--set takes NAME=VALUE"),
        (["--set", "stepps=3"], "stepps is no setting"),
        (["--set", "epsilon=3"], "use --epsilons"),
        (["--set", "sums_share=2"], "sums_share is '2'"),
        (
            ["--methods", "datalens", "--set", "sigma=1"],
            "datalens on digits: epsilon 10 pays",
        ),
        (["--methods", "datalens-paper"], "The preset paper is for"),
        (["--data-dir", "nonesuch"], "is no folder"),
    ],
)
def test_bad_input(command: Any, tmp_path: Path, words: list[str], said: str) -> None:
    usual = ["--datasets", "digits", "--methods", "class-gaussian"]
    code, out, err = command(*usual, "--out", tmp_path / "out", *words)
    assert (code, out) == (2, "")
    assert said in err and err.count("\n") == 1
    assert not (tmp_path / "out").exists()


def test_as_many_jobs_as_cores_unless_teachers_fill_memory(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    heavy = cells.asked(
        datasets=["digits"],
        methods=["pategan"],
        epsilons=[3.0],
        settings={"discriminator": "reference", "n_teachers": 10},
    )
    for there, expected in ((1, 1), (2, 2), (64, running.MOST_JOBS)):
        monkeypatch.setattr(running, "cores", lambda there=there: there)
        assert running.usual_jobs(asked()) == expected
        assert running.usual_jobs([*asked(), *heavy]) == 1


def test_the_folder_must_be_one(command: Any, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    code, _, err = command("--datasets", "digits", "--out", tmp_path / "file")
    assert code == 2 and "cannot be a folder" in err


@pytest.mark.parametrize("trouble, code", [(None, 0), ("failure", 1), ("Ctrl-C", 130)])
def test_exit_codes(
    command: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, trouble: str | None, code: int
) -> None:
    work = Fake(fail=[(STEM, 1)] if trouble == "failure" else [])
    monkeypatch.setattr(running, "Processes", lambda **given: work)
    if trouble == "Ctrl-C":

        def interrupted(*arguments: Any) -> None:
            raise KeyboardInterrupt

        monkeypatch.setattr(folder.Folder, "keep", interrupted)
    usual = ("--datasets", "digits", "--methods", "class-gaussian", "--epsilons", 3)
    got, out, err = command(*usual, "--out", tmp_path, "--json")
    assert got == code
    if trouble == "Ctrl-C":
        assert out == "" and err.endswith("Stopped.\n")
        return
    told = json.loads(out)
    assert [cell["seeds"] for cell in told["cells"]] == [[0, 2] if trouble else [0, 1, 2]]
    assert len(told["failed"]) == code and told["internal"] is True
    assert ("repetition 1: the weather is bad." in err) is (trouble == "failure")
    page = (tmp_path / "README.md").read_text()
    assert "datalens bench utility --datasets digits --epsilons 3 --methods" in page
    assert str(tmp_path) not in page


def test_from_end_to_end_without_touching_the_real_budget(
    command: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, own_home: Path
) -> None:
    ClassGaussian(epsilon=1.0).fit(load("digits"), ledger="digits")
    before = ledger_path("digits").read_bytes()
    usual = ("--datasets", "digits", "--methods", "class-gaussian", "--epsilons", 3)
    usual += ("--images", 300)
    code, out, err = command(*usual, "--seeds", 2, "--jobs", 2, "--out", tmp_path / "out")
    assert code == 0, err
    assert "| class-gaussian |" in out and "2/2" in err
    assert ledger_path("digits").read_bytes() == before
    assert [path.name for path in own_home.glob("ledgers/*.sqlite")] == ["digits.sqlite"]
    kept = json.loads((tmp_path / "out" / f"{STEM}.json").read_text())
    assert kept["seeds"] == [0, 1] and kept["repetitions"][0]["synthetic_images"] == 300
    assert 2.9 < kept["epsilon"]["certified"] <= 3 and kept["releases"] == 2
    assert {each["noise"] for each in kept["repetitions"]} == {"exact"}  # and never from a seed
    assert all(each["threads"] == max(1, workers.cores() // 2) for each in kept["repetitions"])
    with Image.open(tmp_path / "out" / f"{STEM}.png") as picture:
        assert picture.size == (10 * (8 + 2) + 2, 10 * (8 + 2) + 2)


def workers_of(scratch: Path) -> list[Path]:
    """The processes that work in this folder."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            words = (process / "cmdline").read_bytes()
        except OSError:  # gone meanwhile
            continue
        if str(scratch).encode() in words and b"utility.unit" in words:
            found.append(process)
    return found


@pytest.mark.slow
@pytest.mark.parametrize("end", [signal.SIGINT, signal.SIGKILL])
def test_the_whole_command_ended_and_resumed(tmp_path: Path, end: signal.Signals) -> None:
    """Both methods with two jobs; ended after the first repetition it leaves no worker behind."""
    out, scratch = tmp_path / "out", tmp_path / "scratch"
    scratch.mkdir()
    surroundings = os.environ | {"TMPDIR": str(scratch)}
    words = [sys.executable, "-m", "datalens", "bench", "utility", "--datasets", "digits"]
    words += ["--epsilons", "3", "--seeds", "2", "--jobs", "2", "--out", str(out), "--json"]
    pipe = subprocess.PIPE
    with subprocess.Popen(words, stderr=pipe, stdout=pipe, env=surroundings) as process:
        while not list(out.glob("*.json")):
            assert process.poll() is None
            time.sleep(0.2)
        assert workers_of(scratch)
        process.send_signal(end)
        _, err = process.communicate(timeout=60)
    deadline = time.monotonic() + (2 if end == signal.SIGINT else 60)
    while workers_of(scratch) and time.monotonic() < deadline:
        time.sleep(0.2)  # one that is still loading PyTorch finds out afterwards
    assert not workers_of(scratch)
    if end == signal.SIGINT:
        assert process.returncode == 130 and err.decode().endswith("Stopped.\n")
        assert not list(scratch.iterdir())
    left = 4 - sum(len(result.seeds) for result in read_results(out).values())
    again = subprocess.run(words, capture_output=True, text=True, timeout=600, env=surroundings)
    assert again.returncode == 0, again.stderr
    told = json.loads(again.stdout)
    assert [cell["seeds"] for cell in told["cells"]] == [[0, 1], [0, 1]]
    assert f"{left}/{left}" in again.stderr


def records_in(records: Records) -> Counter[bytes]:
    return Counter(image.tobytes() for image in records.images)


def test_held_out_records_of_a_folder_are_of_all_its_classes(tmp_path: Path) -> None:
    """Which lie one behind the other."""
    for name, grey in (("dark", 40), ("light", 200)):
        (tmp_path / name).mkdir()
        for number in range(12):
            Image.new("L", (8, 8), grey + number).save(tmp_path / name / f"{number}.png")
    train, test = cells.split(tmp_path, None, held_out=True)
    assert np.bincount(train.labels).tolist() == [10, 10]
    assert np.bincount(test.labels).tolist() == [2, 2]


def test_held_out_records_of_a_mixed_data_set_are_the_last() -> None:
    whole, (train, test) = load("fashion-mini"), cells.split("fashion-mini", None, held_out=True)
    assert np.array_equal(np.concatenate([train.images, test.images]), whole.images)


def test_held_out_records_are_training_records_that_nobody_learned_from() -> None:
    (cell,) = cells.asked(
        datasets=["digits"], methods=["class-gaussian"], epsilons=[1.0], settings={}, held_out=True
    )
    whole = load("digits")
    train, test = cells.split("digits", None, held_out=True)
    assert cell.configuration["data"]["n_records"] == train.public.n_records == len(train.labels)
    assert len(train.labels) + len(test.labels) == len(whole.labels)
    assert records_in(train) + records_in(test) == records_in(whole)
    assert set(test.labels) == set(whole.labels)
    assert "held-out" in cell.stem
    (other,) = cells.asked(
        datasets=["digits"], methods=["class-gaussian"], epsilons=[1.0], settings={}
    )
    assert other.stem != cell.stem


def test_all_is_every_method(tmp_path: Path) -> None:
    found = asked(methods=["all", "datalens"], epsilons=[5.0])
    assert [cell.method for cell in found] == list(METHODS)
