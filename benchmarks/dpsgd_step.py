"""What compressing gradients costs: a step of TopAgg beside one of plain DP-SGD, and Opacus's own.

    python benchmarks/dpsgd_step.py --out docs/results/dpsgd/step.json

The CNN of the Opacus example (26,010 parameters) on random images. Each method runs in a process of
its own, so that memory can be told apart; processes take turns, so that both meet the same machine.
Time is that of all cores together (`cpu`) and on the clock (`wall`): where other programs run, only
the former can be compared. OMP_NUM_THREADS says how many cores are used. Memory is how far a
process's peak rises above what it had before.
"""

import argparse
import json
import resource
import statistics
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

METHODS = ("opacus", "dpsgd", "topagg", "dimensions")
"""All stand beside the first: Opacus's own optimiser, with noise of PyTorch's generator."""


def measure(method: str, batch: int, steps: int) -> dict[str, float]:
    """One process: seconds of a step, the fastest and in the middle, and its memory in MiB."""
    import torch

    import datalens  # noqa: F401  # first, for it tells OpenMP how to wait

    optimizer, watched = build(method, batch)
    chance = torch.Generator().manual_seed(0)
    labels = torch.arange(batch) % 10
    clocks: list[tuple[float, float]] = []
    before = 0
    for step in range(steps + 2):
        images = torch.rand(batch, 1, 28, 28, generator=chance)
        if step == 0:  # what a step compiles and allocates once is no cost of later ones
            take(watched, optimizer, images[:8], labels[:8])
            before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        start = time.perf_counter(), time.process_time()
        take(watched, optimizer, images, labels)
        clocks.append((time.perf_counter() - start[0], time.process_time() - start[1]))
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    wall, cpu = zip(*clocks[2:], strict=True)
    return {
        "wall": statistics.median(wall),
        "wall_best": min(wall),
        "cpu": statistics.median(cpu),
        "cpu_best": min(cpu),
        "memory": (peak - before) / 1024,
        "threads": torch.get_num_threads(),
    }


def build(method: str, batch: int) -> tuple[Any, Any]:
    import torch
    from opacus.optimizers import DPOptimizer
    from torch import nn

    from datalens.classifiers.dpsgd import PrivateOptimizer, with_example_gradients
    from datalens.classifiers.topagg import TopAggOptimizer
    from datalens.mechanism.noise import FloatSecureNoise

    torch.manual_seed(0)
    model = nn.Sequential(
        *(nn.Conv2d(1, 16, 8, 2, padding=3), nn.ReLU(), nn.MaxPool2d(2, 1)),
        *(nn.Conv2d(16, 32, 4, 2), nn.ReLU(), nn.MaxPool2d(2, 1), nn.Flatten()),
        *(nn.Linear(512, 32), nn.ReLU(), nn.Linear(32, 10)),
    )
    named: dict[str, Any] = {
        "noise": FloatSecureNoise(),
        "noise_multiplier": 1.0,
        "max_grad_norm": 1.0,
        "expected_batch_size": batch,
    }
    inner = torch.optim.SGD(model.parameters(), lr=0.05)
    if method == "opacus":
        del named["noise"]
        return DPOptimizer(inner, **named), with_example_gradients(model)
    if method == "dpsgd":
        return PrivateOptimizer(inner, **named), with_example_gradients(model)
    compressed = TopAggOptimizer(inner, keep=0.8, variant=method, **named)  # type: ignore[arg-type]
    return compressed, with_example_gradients(model)


def take(watched: Any, optimizer: Any, images: Any, labels: Any) -> None:
    from torch.nn.functional import cross_entropy

    cross_entropy(watched(images), labels, reduction="sum").backward()
    optimizer.step()
    optimizer.zero_grad(set_to_none=True)


def run(arguments: argparse.Namespace) -> dict[str, Any]:
    found: dict[str, list[dict[str, float]]] = {method: [] for method in METHODS}
    begin = time.time()
    for turn in range(arguments.turns):
        for method in METHODS if turn % 2 else METHODS[::-1]:
            command = [sys.executable, __file__, "--only", method]
            command += ["--batch", str(arguments.batch), "--steps", str(arguments.steps)]
            made = subprocess.run(command, capture_output=True, text=True, check=True)
            found[method].append(json.loads(made.stdout))
    plain = found[METHODS[0]]
    ratios = {
        method: {
            name: [ours[name] / theirs[name] for ours, theirs in zip(rows, plain, strict=True)]
            for name in ("cpu", "cpu_best", "wall", "wall_best", "memory")
        }
        for method, rows in found.items()
    }
    return {
        "batch": arguments.batch,
        "steps": arguments.steps,
        "seconds": time.time() - begin,
        "measured": found,
        "ratios": ratios,
    }


def table(result: dict[str, Any]) -> str:
    """Medians over turns, and how far turns lie apart."""
    lines = ["| method | cpu s | wall s | memory MiB | cpu ratio | wall ratio | memory ratio |"]
    lines.append("|---" * 7 + "|")
    for method, rows in result["measured"].items():
        middle = [statistics.median(row[name] for row in rows) for name in ("cpu", "wall")]
        memory = statistics.median(row["memory"] for row in rows)
        cells = [f"{middle[0]:.3f}", f"{middle[1]:.3f}", f"{memory:.0f}"]
        for name in ("cpu", "wall", "memory"):
            of = result["ratios"][method][name]
            cells.append(f"{statistics.median(of):.2f} ({min(of):.2f} to {max(of):.2f})")
        lines.append(f"| {method} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--batch", type=int, default=512)
    parser.add_argument("--steps", type=int, default=15)
    parser.add_argument("--turns", type=int, default=5)
    parser.add_argument("--only", choices=METHODS)
    parser.add_argument("--out", type=Path)
    chosen = parser.parse_args()
    if chosen.only:
        print(json.dumps(measure(chosen.only, chosen.batch, chosen.steps)))
    else:
        result = run(chosen)
        print(table(result))
        if chosen.out:
            chosen.out.parent.mkdir(parents=True, exist_ok=True)
            chosen.out.write_text(json.dumps(result, indent=1) + "\n")
