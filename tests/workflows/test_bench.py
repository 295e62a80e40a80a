"""The speed benchmark counts what it should, and its baselines are the same networks."""

from pathlib import Path

import pytest
import torch

from datalens.ensemble import make_discriminator
from datalens.workflows.bench import speed
from datalens.workflows.bench.keeping import keep
from datalens.workflows.bench.plain import MODULES
from datalens.workflows.bench.tables import speed_tables


@pytest.mark.parametrize("name", MODULES)
def test_baselines_are_of_the_same_size(name: str) -> None:
    module = MODULES[name]((1, 28, 28), 10)
    ours = make_discriminator(name, (1, 28, 28), 10)
    assert sum(p.numel() for p in module.parameters()) == ours.n_parameters


def test_the_arithmetic_is_counted_by_layer() -> None:
    """Products of one image: 11 kernels at 14 x 14 places, 42 x 11 at 7 x 7, 256 of 2,068.

    Along a side, 67 of the first layer's 70 taps lie inside the image and 32 of the second's 35.
    """
    conv1, conv2, hidden = 11 * 67**2, 42 * 11 * 32**2, 256 * 2068
    work = speed.Arithmetic.of("reference")
    assert work.update == pytest.approx(2 * 30 * (2 * conv1 + 3 * conv2 + 3 * hidden))
    assert work.ballot == pytest.approx(2 * 15 * 2 * (conv1 + conv2 + hidden))
    assert work.state_bytes == 6 * 4 * 555_655


@pytest.mark.parametrize("engine", speed.ENGINES)
@pytest.mark.parametrize("name", MODULES)
def test_every_engine_learns(engine: str, name: str) -> None:
    runner, synthetic, labels = speed.make(engine, name, 2)
    parameters = {
        "loop": lambda: next(iter(runner.modules[0].parameters())),
        "loop, 1 thread": lambda: next(iter(runner.modules[0].parameters())),
        "vmap": lambda: next(iter(runner.params.values())),
        "ours": lambda: runner.teachers.adam.weights,
    }[engine]
    before = parameters().detach().clone()
    runner.train(synthetic, labels, 1)
    runner.ballots(synthetic, labels)
    assert not torch.equal(parameters(), before)


def test_a_result_is_kept_with_its_origin(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.argv", ["datalens", "bench", "speed"])
    row = {
        "teachers": 8,
        "update_ms": 2.0,
        "ballot_ms": 1.0,
        "step_ms": 5.0,
        "step_ms_range": [4.0, 6.0],
        "update_gflops": 1.0,
        "ballot_gflops": 1.0,
        "share_of_peak": 0.5,
        "limit_ms": 2.5,
        "limit_ms_pass_per_update": 4.0,
        "peak_mib_a_teacher": 6.0,
    }
    slower = row | {"step_ms": 50.0}
    rows = [
        (slower if engine != "ours" else row) | {"discriminator": name, "engine": engine}
        for name in MODULES
        for engine in speed.ENGINES
    ]
    ratios = speed.conclusions(rows)
    assert ratios["reference_times_faster_than_loop"] == 10
    assert ratios["reference_times_the_limit"] == 2
    seconds = {"teachers": 9.0, "votes": 0.5, "noise": 0.25, "student": 0.25}
    result = {
        "machine": {"torch": "2", "peak_gflops": 300.0, "bandwidth_gb_s": 20.0},
        "rows": rows,
        "conclusions": ratios,
        "rest_of_a_step": [{"shape": [1, 28, 28], "share": 0.1, "seconds": seconds}],
        "colour": [],
        "growth": [{"teachers": 500, "step_seconds": 2.0, "peak_gib": 3.0}],
    }
    keep(tmp_path / "speed", result, speed_tables(result))
    page = (tmp_path / "speed.md").read_text()
    assert "`datalens bench speed`" in page and "10.0 times" in page and "| 500 |" in page
    assert (tmp_path / "speed.json").exists()
