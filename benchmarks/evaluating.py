"""Where the seconds of `datalens evaluate` go, stage by stage, with its default effort.

    python benchmarks/evaluating.py RUN --on celeba-gender --image-size 64 --name now

One thread, and a cache that is empty. Processor seconds are counted beside seconds, because other
work on the machine disturbs them little. An evaluation that takes more of them than --stop-after is
stopped, and its last stage is marked. Each measurement is one JSON in docs/results/evaluate, and
README.md there sets all of them side by side. What is measured is the `datalens` that Python finds:
for older code, set PYTHONPATH to its sources.
"""

import argparse
import json
import os
import signal
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import wraps
from pathlib import Path
from types import FrameType
from typing import Any

import torch

from datalens.workflows import evaluation
from datalens.workflows.bench.machine import description
from datalens.workflows.bench.tables import for_markdown
from datalens.workflows.cache import Cache
from datalens.workflows.source import Source

FOLDER = Path(__file__).parents[1] / "docs" / "results" / "evaluate"
STAGES = {
    "reading real records": [(Source, "records")],
    "synthetic images": [(evaluation, "samples_of")],
    "domain classifier": [(Cache, "domain")],
    "{classifier}": [(evaluation, "judged_accuracy")],
    "measures": [(evaluation, "measured")],
    "nearest records": [(evaluation, "nearest")],
    "membership attacks": [(evaluation, "attacked")],
}
"""What is called for each stage; the name may hold an argument of the call."""
REST = "all else"
INTRODUCTION = """# Where `datalens evaluate` takes its time

For those who want to know what takes the minutes, and what the default leaves out so that it takes
no more. Measured by `benchmarks/evaluating.py` on a run of `datalens fit celeba-gender --image-size
64 --epsilon 8` (8,500 faces to learn from, 1,500 to test on), once each, on one thread of an AMD
EPYC. Much other work ran on its two cores: compare processor seconds, not seconds.

`before` is the code at commit fb4cdd3, where a network learns from as many pixels as MNIST has:
11,484 images of 64x64. `after` counts places that the judge looks at, with which its time grows:
8,632 images. Earlier the default had no limit, as `--all` has none: then the judge learns from
50,000 images and the domain classifier from all real ones. At what an image took in `before`, that
is 860 processor seconds for the judge, and 340 more where there are 20,000 real images.
"""


class StoppedError(Exception):
    """The evaluation has taken longer than it was given."""


class Profile:
    """Seconds of each stage, and processor seconds."""

    def __init__(self) -> None:
        self.stages: dict[str, list[float]] = {}
        self.stopped_in: str | None = None

    def timed(self, stage: str, work: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(work)
        def measured(*given: Any, **named: Any) -> Any:
            with self.measuring(stage.format(**named)):
                return work(*given, **named)

        return measured

    @contextmanager
    def measuring(self, stage: str) -> Iterator[None]:
        began = time.perf_counter(), time.process_time()
        try:
            yield
        except StoppedError:
            self.stopped_in = self.stopped_in or stage
            raise
        finally:
            spent = self.stages.setdefault(stage, [0.0, 0.0])
            spent[0] += time.perf_counter() - began[0]
            spent[1] += time.process_time() - began[1]


def measure(run: Path, source: Source, *, stop_after: float) -> dict[str, Any]:
    """One evaluation with default effort, and the figures that it found."""
    profile = Profile()
    for stage, places in STAGES.items():
        for holder, name in places:
            setattr(holder, name, profile.timed(stage, getattr(holder, name)))

    def stop(number: int, frame: FrameType | None) -> None:
        raise StoppedError

    signal.signal(signal.SIGPROF, stop)
    signal.setitimer(signal.ITIMER_PROF, stop_after)
    found: dict[str, Any] = {}
    try:
        with profile.measuring(REST):
            found = evaluation.evaluate_synthetic(run, source)
    except StoppedError:
        pass
    signal.setitimer(signal.ITIMER_PROF, 0)
    total = profile.stages[REST]
    inside = [spent for stage, spent in profile.stages.items() if stage != REST]
    rest = [total[i] - sum(spent[i] for spent in inside) for i in (0, 1)]
    return {
        "run": run.name,
        "on": source.name,
        "machine": description(),
        "stages": {**profile.stages, REST: rest},
        "total": total,
        "stopped_in": profile.stopped_in,
        "figures": figures_of(found) if found else {},
    }


def figures_of(found: dict[str, Any]) -> dict[str, str]:
    """What the evaluation says, for a comparison of what it says with less work."""
    said = {}
    for name, by in found["classifiers"].items():
        for kind, figure in by.items():
            if figure:
                images = figure["training_images"]
                said[f"{name} on {kind} images"] = f"{figure['accuracy']:.3f} ({images:,} images)"
    said["FID"] = f"{found['fid']:.2f}"
    said |= {name: f"{figure:.3f}" for name, figure in found["prdc"].items()}
    for attack in found["membership"]:
        said[f"membership, {attack['attack']}: area"] = f"{attack['auc']:.3f}"
    return said


def page(results: dict[str, dict[str, Any]]) -> str:
    """Two tables, the slowest first: what each stage takes, and what is found."""
    names = sorted(results, key=lambda name: -results[name]["total"][1])
    each = [results[name] for name in names]
    stages = dict.fromkeys(stage for one in each for stage in one["stages"])
    rows = [[stage, *(_spent(one, stage) for one in each)] for stage in stages]
    rows.append(["all", *(_seconds(one["total"], one["stopped_in"] is not None) for one in each)])
    kinds = dict.fromkeys(kind for one in each for kind in one["figures"])
    found = [[kind, *(one["figures"].get(kind, "") for one in each)] for kind in kinds]
    times = for_markdown("Processor seconds (seconds)", (["stage", *names], rows))
    figures = for_markdown("What was found", (["figure", *names], found))
    return "\n".join([INTRODUCTION, times, figures])


def _spent(result: dict[str, Any], stage: str) -> str:
    spent = result["stages"].get(stage)
    return "" if spent is None else _seconds(spent, result["stopped_in"] == stage)


def _seconds(spent: list[float], stopped: bool) -> str:
    return f"{'over ' if stopped else ''}{spent[1]:.0f} ({spent[0]:.0f})"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("run", type=Path)
    parser.add_argument("--on", required=True)
    parser.add_argument("--data-dir", type=Path)
    parser.add_argument("--image-size", type=int)
    parser.add_argument("--name", required=True, help="The column of the table.")
    parser.add_argument("--stop-after", type=float, default=900.0, help="Processor seconds.")
    given = parser.parse_args()
    torch.set_num_threads(1)
    source = Source(name=given.on, data_dir=given.data_dir, image_size=given.image_size)
    with tempfile.TemporaryDirectory() as home:
        os.environ["DATALENS_HOME"] = home
        result = measure(given.run, source, stop_after=given.stop_after)
    FOLDER.mkdir(parents=True, exist_ok=True)
    (FOLDER / f"{given.name}.json").write_text(json.dumps(result, indent=1) + "\n")
    kept = {file.stem: json.loads(file.read_text()) for file in sorted(FOLDER.glob("*.json"))}
    (FOLDER / "README.md").write_text(page(kept))


if __name__ == "__main__":
    main()
