"""What dividing one run over ranks saves and costs, one table.

    python benchmarks/scaling.py --teachers 256 --ranks 1 2 4 --repeats 3 --out scaling.json

Every figure comes from real `datalens fit` processes on this machine, started as torchrun would.
Repeats are interleaved: each goes once through all cells. Given are medians and, in brackets, the
smallest and largest value.

- memory: the largest rank's peak (ru_maxrss), less the peak of a run with one teacher a rank,
  which has the interpreter, the libraries and the same records.
- updates and ballots a second: of all teachers, between the first and the last release.
- bytes a step: all that ranks send each other, and what of it are tallies and releases.
"""

import argparse
import hashlib
import json
import os
import platform
import socket
import subprocess
import sys
import tempfile
from dataclasses import asdict, dataclass
from importlib.metadata import version
from pathlib import Path
from statistics import median
from typing import Any

BATCH, REAL_BATCH, UPDATES = 15, 15, 2
FIXED = ["--epsilon", "10", "--seed", "0", "--not-private", "--no-warm-start"]
FIXED += ["--discriminator", "reference", "--batch-size", str(BATCH)]
FIXED += ["--set", f"real_batch={REAL_BATCH}", "--set", f"teacher_updates={UPDATES}"]
FIXED += ["--set", "teacher_warm_up=0"]


@dataclass(frozen=True)
class Cell:
    """A way of running: how many ranks, with how many threads each."""

    ranks: int
    threads: int


@dataclass(frozen=True)
class Run:
    peaks: list[int]
    """Bytes, rank by rank."""
    seconds_a_step: float
    bytes_a_step: float
    bytes_of_votes: float
    generator: str


def fit(cell: Cell, data: str, teachers: int, block: int, steps: int) -> Run:
    """One run, in processes of its own, that leaves nothing behind."""
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "run"
        sizes = ["--teachers", str(teachers), "--set", f"block_size={block}", "--steps", str(steps)]
        words = ["fit", data, *FIXED, *sizes, "--out", str(out), "--json"]
        common = {
            **os.environ,
            "DATALENS_HOME": folder,
            "OMP_NUM_THREADS": str(cell.threads),
            "WORLD_SIZE": str(cell.ranks),
            "LOCAL_WORLD_SIZE": str(cell.ranks),
            "MASTER_ADDR": "127.0.0.1",
            "MASTER_PORT": str(free_port()),
        }
        processes = [
            subprocess.Popen(
                [sys.executable, "-m", "datalens", *words],
                env={**common, "RANK": str(rank)},
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL if rank else None,
            )
            for rank in range(cell.ranks)
        ]
        peaks = [peak(process) for process in processes]
        if any(process.returncode for process in processes):
            raise SystemExit(f"{cell} has failed; its own words are above.")
        stored = [out / "internal" / "releases" / f"votes-{step}.npy" for step in range(steps)]
        times = [path.stat().st_mtime for path in stored]
        traffic = json.loads((out / "internal" / "timings.json").read_text())["bytes"]
        return Run(
            peaks=peaks,
            seconds_a_step=(times[-1] - times[0]) / (steps - 1),
            bytes_a_step=sum(traffic.values()) / steps,
            bytes_of_votes=traffic.get("votes", 0) / steps,
            generator=hashlib.sha256((out / "generator.safetensors").read_bytes()).hexdigest(),
        )


def peak(process: subprocess.Popen[bytes]) -> int:
    """The most memory that a process has had, once it has ended."""
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    return usage.ru_maxrss * (1 if sys.platform == "darwin" else 1024)


def free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])


def figures(cell: Cell, runs: list[Run], bases: list[Run], teachers: int) -> dict[str, Any]:
    """All values, and for each figure its median, smallest and largest."""
    base = median(max(run.peaks) for run in bases)
    named = {
        "memory": [max(run.peaks) - base for run in runs],
        "peak": [max(run.peaks) for run in runs],
        "seconds_a_step": [run.seconds_a_step for run in runs],
        "per_second": [teachers * (UPDATES + 1) / run.seconds_a_step for run in runs],
        "bytes_a_step": [run.bytes_a_step for run in runs],
        "bytes_of_votes": [run.bytes_of_votes for run in runs],
    }
    summary = {n: {"median": median(v), "low": min(v), "high": max(v)} for n, v in named.items()}
    raw = {"runs": [asdict(run) for run in runs], "bases": [asdict(run) for run in bases]}
    return {**asdict(cell), "base": base, **summary, **raw}


def table(cells: list[dict[str, Any]]) -> str:
    lines = [
        "| ranks | threads each | memory a rank, MiB | of it teachers, MiB | seconds a step |"
        " updates and ballots a second | KiB a step, of it votes |",
        "|---|---|---|---|---|---|---|",
    ]
    for c in cells:
        lines.append(
            f"| {c['ranks']} | {c['threads']} | {shown(c['peak'], 2**20)} |"
            f" {shown(c['memory'], 2**20)} | {shown(c['seconds_a_step'], 1, 3)} |"
            f" {shown(c['per_second'], 1, 1)} | {c['bytes_a_step']['median'] / 1024:.1f},"
            f" {c['bytes_of_votes']['median'] / 1024:.1f} |"
        )
    return "\n".join(lines)


def shown(figure: dict[str, float], unit: float, digits: int = 0) -> str:
    low, mid, high = (f"{figure[k] / unit:.{digits}f}" for k in ("low", "median", "high"))
    return f"{mid} ({low} to {high})"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", default="fashion-mini")
    parser.add_argument("--teachers", type=int, default=256)
    parser.add_argument("--block-size", type=int, default=8)
    parser.add_argument("--ranks", nargs="+", type=int, default=[1, 2, 4])
    parser.add_argument("--steps", type=int, default=4)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--out", type=Path, default=Path("docs/results/scaling.json"))
    asked = parser.parse_args()
    if asked.steps < 2:
        parser.error("--steps must be 2 at least: time is taken between releases.")
    cells = [Cell(ranks, 1) for ranks in asked.ranks]
    cells.insert(1, Cell(1, 2))  # beside two ranks with one thread each
    runs: dict[Cell, list[Run]] = {cell: [] for cell in cells}
    bases: dict[Cell, list[Run]] = {cell: [] for cell in cells}
    for repeat in range(asked.repeats):
        for cell in cells:
            bases[cell].append(fit(cell, asked.data, cell.ranks, 1, 2))
            runs[cell].append(fit(cell, asked.data, asked.teachers, asked.block_size, asked.steps))
            done = runs[cell][-1]
            print(f"#{repeat} {cell}: {done.seconds_a_step:.3f} s a step", file=sys.stderr)
    found = [figures(cell, runs[cell], bases[cell], asked.teachers) for cell in cells]
    alike = {run.generator for cell in cells if cell.threads == 1 for run in runs[cell]}
    report = {
        "command": "python " + " ".join(sys.argv),
        "versions": {name: version(name) for name in ("datalens", "torch", "numpy")},
        "machine": f"{os.cpu_count()} cores, {platform.machine()}, {platform.system()}",
        "teachers": asked.teachers,
        "same_generator": len(alike) == 1,
        "cells": found,
    }
    asked.out.parent.mkdir(parents=True, exist_ok=True)
    asked.out.write_text(json.dumps(report, indent=1) + "\n")
    print(table(found))
    same = "the same, bit for bit" if len(alike) == 1 else "NOT the same"
    print(f"The generators of all runs with one thread are {same}.")


if __name__ == "__main__":
    main()
