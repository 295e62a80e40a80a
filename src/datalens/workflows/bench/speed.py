"""How fast teachers train and vote: ours, a plain loop and vmap, against what the machine can do.

Everything is measured side by side in one run: repeats are interleaved, and figures are medians.
"""

import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from math import prod
from statistics import median
from typing import Any

import torch
from torch import Tensor

from datalens.ensemble import Teachers, make_discriminator, stream
from datalens.ensemble.stacked import KERNEL, inside
from datalens.errors import DataLensError
from datalens.mechanism.ballots import BallotRule
from datalens.mechanism.noise import ExactNoise
from datalens.mechanism.topagg import TopAgg
from datalens.student import Generator, Student
from datalens.synthesizers.voting import count_votes
from datalens.workflows.bench.machine import Machine, description, peak_mib, timed
from datalens.workflows.bench.plain import Loop, LoopOnOneThread, Vmapped

SHAPE, CLASSES, SHARD, BATCH, UPDATES = (1, 28, 28), 10, 15, 15, 2
COLOUR, FACES = (3, 64, 64), 3
ENGINES = ("loop", "loop, 1 thread", "vmap", "ours")
SIGMA = 5000.0
MANY = 100_000


class Ours:
    """The ensemble of this package, with the baselines' interface."""

    def __init__(
        self,
        name: str,
        images: Tensor,
        labels: Tensor,
        n_classes: int,
        mismatch: bool,
        moments: torch.dtype = torch.float32,
    ) -> None:
        shape = (images.shape[2], images.shape[3], images.shape[4])
        self.teachers = Teachers(
            discriminator=make_discriminator(name, shape, n_classes),
            images=images,
            labels=labels,
            secret=b"bench",
            mismatch=mismatch,
            moments=moments,
        )
        self.steps = 0

    def train(self, synthetic: Tensor, labels: Tensor, updates: int) -> None:
        self.steps += 1
        self.teachers.train(synthetic, labels, step=self.steps, updates=updates)

    def ballots(self, synthetic: Tensor, labels: Tensor) -> None:
        self.teachers.ask(synthetic, labels, _nothing)


def _nothing(asked: Iterator[tuple[range, Tensor]]) -> None:
    for _ in asked:
        pass


@dataclass(frozen=True)
class Arithmetic:
    """Floating-point operations of one teacher that folding leaves, and bytes it has to move."""

    update: float
    ballot: float
    state_bytes: float
    """Weights and both moments, read once and written once."""

    @classmethod
    def of(cls, name: str) -> "Arithmetic":
        shapes = make_discriminator(name, SHAPE, CLASSES).parameter_shapes()
        size = sum(torch.Size(s).numel() for s in shapes.values())
        # Of a kernel's taps, those count that lie inside the image and not in its padding.
        first, second = (inside(size).sum().item() / KERNEL for size in (SHAPE[1], SHAPE[1] // 2))
        positions = {"conv1.weight": first**2, "conv2.weight": second**2, "hidden.weight": 1.0}
        layers = [
            2.0 * torch.Size(shapes[layer]).numel() * count
            for layer, count in positions.items()
            if layer in shapes
        ]
        forward = sum(layers)
        # Training needs every layer's product with its weights, and all but the first one's with
        # its input; a ballot needs them with the input, the first one's too.
        update = (SHARD + BATCH) * (3 * forward - layers[0])
        return cls(update=update, ballot=BATCH * 2 * forward, state_bytes=6.0 * 4 * size)


def data(n_teachers: int, shape: tuple[int, int, int], classes: int) -> tuple[Tensor, ...]:
    g = stream(b"bench", "data")
    images = torch.randint(0, 256, (n_teachers, SHARD, *shape), generator=g, dtype=torch.uint8)
    labels = torch.randint(0, classes, (n_teachers, SHARD), generator=g)
    return images, labels, torch.rand(BATCH, *shape, generator=g), labels[0]


def make(engine: str, name: str, n_teachers: int) -> tuple[Any, Tensor, Tensor]:
    images, labels, synthetic, shown = data(n_teachers, SHAPE, CLASSES)
    kinds = {"loop": Loop, "loop, 1 thread": LoopOnOneThread, "vmap": Vmapped, "ours": Ours}
    kind = kinds[engine]
    mismatch = name == "compact"  # as it trains unless told
    return kind(name, images, labels, CLASSES, mismatch), synthetic, shown


def compare(
    n_teachers: int, repeats: int, say: Callable[[str], None]
) -> tuple[list[dict[str, Any]], dict[str, Any]]:
    """A row for each discriminator and engine, and the machine's own figures."""
    machine, engines = Machine(), {}
    for name in ("reference", "compact"):
        for engine in ENGINES:
            count = n_teachers if engine == "ours" else max(8, n_teachers // 8)
            if name == "compact":
                count *= 4
            runner, synthetic, labels = make(engine, name, count)
            runner.train(synthetic, labels, 1)  # once unmeasured: libraries warm up
            runner.ballots(synthetic, labels)
            engines[name, engine] = runner, count, synthetic, labels
    times: dict[tuple[str, str], list[tuple[float, float]]] = {key: [] for key in engines}
    peaks, bandwidths = [], []
    for repeat in range(repeats):
        say(f"repeat {repeat + 1} of {repeats}")
        peaks.append(machine.gflops())
        bandwidths.append(machine.gigabytes())
        for key, (runner, count, synthetic, labels) in engines.items():
            update, _ = timed(runner.train, synthetic, labels, UPDATES)
            ballot, _ = timed(runner.ballots, synthetic, labels)
            times[key].append((update / UPDATES / count, ballot / count))
    peak, bandwidth = median(peaks), median(bandwidths)
    rows = []
    for (name, engine), found in times.items():
        work = Arithmetic.of(name)
        update, ballot = (median(x) for x in zip(*found, strict=True))
        whole = [UPDATES * u + b for u, b in found]
        flops = UPDATES * work.update + work.ballot
        products = flops / (peak * 1e9)
        one_pass = work.state_bytes / (bandwidth * 1e9)
        rows.append(
            {
                "discriminator": name,
                "engine": engine,
                "teachers": engines[name, engine][1],
                "update_ms": update * 1e3,
                "ballot_ms": ballot * 1e3,
                "step_ms": median(whole) * 1e3,
                "step_ms_range": [min(whole) * 1e3, max(whole) * 1e3],
                "update_gflops": work.update / update / 1e9,
                "ballot_gflops": work.ballot / ballot / 1e9,
                "share_of_peak": flops / median(whole) / 1e9 / peak,
                "limit_ms": (products + one_pass) * 1e3,
                "limit_ms_pass_per_update": (products + UPDATES * one_pass) * 1e3,
                "peak_mib_a_teacher": memory_of(engine, name, engines[name, engine][1]),
            }
        )
    machine_figures = {"peak_gflops": peak, "bandwidth_gb_s": bandwidth}
    return rows, machine_figures


def conclusions(rows: list[dict[str, Any]]) -> dict[str, float]:
    """The ratios that the targets are about; the loop is the faster one of the two."""
    by = {(row["discriminator"], row["engine"]): row for row in rows}
    ours, compact = by["reference", "ours"], by["compact", "ours"]
    loop = min(by["reference", engine]["step_ms"] for engine in ENGINES if "loop" in engine)
    return {
        "reference_times_faster_than_loop": loop / ours["step_ms"],
        "reference_times_faster_than_vmap": by["reference", "vmap"]["step_ms"] / ours["step_ms"],
        "reference_times_the_limit": ours["step_ms"] / ours["limit_ms"],
        "reference_times_the_limit_with_a_pass_per_update": ours["step_ms"]
        / ours["limit_ms_pass_per_update"],
        "compact_times_faster_than_reference": ours["step_ms"] / compact["step_ms"],
    }


def rest_of_a_step(shape: tuple[int, int, int], classes: int, repeats: int) -> dict[str, Any]:
    """Of a step with 4,000 reference teachers, what is not training or gradients.

    What each teacher costs is measured with a few of them, what each step costs once.
    """
    few, all_ = (64, 4000) if shape == SHAPE else (24, 4000)
    images, labels, _, shown = data(few, shape, classes)
    ours = Ours("reference", images, labels, classes, False)
    student = Student(Generator(shape, classes, 50, stream=stream(b"bench", "g")), secret=b"bench")
    top_k = 200 if shape == SHAPE else 700
    ballot = BallotRule(top_k=top_k, clip=1e-5, clip_mode="raw")
    topagg = TopAgg(ballot=ballot, n_teachers=all_, sigma=SIGMA, quorum=0.7)
    found = []
    for repeat in range(repeats + 1):
        propose, proposed = timed(student.propose, shown, step=repeat)
        synthetic = proposed.images
        train, _ = timed(ours.train, synthetic, shown, UPDATES)
        gradients, _ = timed(ours.ballots, synthetic, shown)
        asked, tally = timed(
            count_votes,
            ours.teachers,
            synthetic,
            shown,
            topagg=topagg,
            weigh_room=False,
            secret=b"bench",
            step=repeat,
        )
        voting = max(0.0, asked - gradients)
        noise, drawn = timed(ExactNoise().draw, tally.shape, sigma=SIGMA, key="bench")
        direction = torch.from_numpy(topagg.direction(tally + drawn)).view_as(synthetic)
        follow, _ = timed(student.follow, direction, step_size=0.1, updates=5)
        teachers = (train + gradients) / few * all_
        rest = voting / few * all_ + noise + propose + follow
        found.append(
            (rest / (rest + teachers), voting / few * all_, noise, propose + follow, teachers)
        )
    share, votes, noise, follow, teachers = (median(x) for x in zip(*found[1:], strict=True))
    return {
        "shape": list(shape),
        "share": share,
        "seconds": {"teachers": teachers, "votes": votes, "noise": noise, "student": follow},
    }


def colour(name: str, repeats: int) -> dict[str, Any]:
    """What a teacher costs on 64x64 colour images, and what 100,000 of them would need."""
    count = 24 if name == "reference" else 200
    images, labels, synthetic, shown = data(count, COLOUR, FACES)
    ours = Ours(name, images, labels, FACES, name == "compact", torch.bfloat16)
    steps = []
    for _ in range(repeats + 1):
        train, _ = timed(ours.train, synthetic, shown, UPDATES)
        ballot, _ = timed(ours.ballots, synthetic, shown)
        steps.append((train + ballot) / count)
    step = median(steps[1:])
    numbers = ours.teachers.layout.size
    held = numbers * (4 + 2 + 2) + SHARD * prod(COLOUR)
    return {
        "discriminator": name,
        "parameters": ours.teachers.discriminator.n_parameters,
        "step_ms": step * 1e3,
        "bytes_a_teacher": held,
        "many": MANY,
        "core_hours_a_step": step * torch.get_num_threads() * MANY / 3600,
        "terabytes": held * MANY / 1e12,
        "megabytes_sent_by_a_rank": BATCH * prod(COLOUR) * 8 / 1e6,
    }


def memory_of(engine: str, name: str, n_teachers: int) -> float:
    """MiB of memory a teacher takes at its peak: the difference of two processes of their own."""
    most = _in_own_process("peak", engine, name, str(n_teachers))["peak_mib"]
    least = _in_own_process("peak", engine, name, "4")["peak_mib"]
    return float(most - least) / (n_teachers - 4)


def growth(counts: list[int]) -> Iterator[dict[str, Any]]:
    """A step of more and more reference teachers, moments in bfloat16, each in its own process."""
    for count in counts:
        yield {"teachers": count, **_in_own_process("grow", str(count))}


def _in_own_process(*arguments: str) -> dict[str, Any]:
    command = [sys.executable, "-m", "datalens.workflows.bench.speed", *arguments]
    done = subprocess.run(command, check=False, capture_output=True, text=True)
    if done.returncode:
        last = (done.stderr.strip().splitlines() or [f"it ended with {done.returncode}"])[-1]
        raise DataLensError(f"measuring {' '.join(arguments)} failed ({last}); use fewer teachers.")
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def _peak(engine: str, name: str, n_teachers: int) -> dict[str, Any]:
    runner, synthetic, labels = make(engine, name, n_teachers)
    for _ in range(2):
        runner.train(synthetic, labels, 1)
        runner.ballots(synthetic, labels)
    return {"peak_mib": peak_mib()}


def _grow(n_teachers: int) -> dict[str, Any]:
    images, labels, synthetic, shown = data(n_teachers, SHAPE, CLASSES)
    teachers = Teachers(
        discriminator=make_discriminator("reference", SHAPE, CLASSES),
        images=images,
        labels=labels,
        secret=b"bench",
        moments=torch.bfloat16,
    )
    steps = []
    for step in range(3):
        train, _ = timed(teachers.train, synthetic, shown, step=step, updates=UPDATES)
        ballot, _ = timed(teachers.ask, synthetic, shown, _nothing)
        steps.append(train + ballot)
    return {"step_seconds": median(steps), "peak_gib": peak_mib() / 2**10}


def run(
    *, teachers: int, repeats: int, grow: list[int], say: Callable[[str], None]
) -> dict[str, Any]:
    """All of it, as a result file holds it."""
    rows, figures = compare(teachers, repeats, say)
    say("the rest of a step")
    rest = [rest_of_a_step(SHAPE, CLASSES, repeats), rest_of_a_step(COLOUR, FACES, repeats)]
    say("64x64 colour images")
    coloured = [colour(name, repeats) for name in ("reference", "compact")]
    grown = []
    try:
        for row in growth(grow):
            say(f"{row['teachers']} teachers: {row['step_seconds']:.1f} s a step")
            grown.append(row)
    except DataLensError as error:  # too many for this machine: what is known is kept
        say(str(error))
    return {
        "setting": {"shard": SHARD, "batch": BATCH, "updates": UPDATES, "repeats": repeats},
        "machine": description() | figures,
        "rows": rows,
        "conclusions": conclusions(rows),
        "rest_of_a_step": rest,
        "colour": coloured,
        "growth": grown,
    }


if __name__ == "__main__":
    kind, *rest_ = sys.argv[1:]
    answer = _grow(int(rest_[0])) if kind == "grow" else _peak(rest_[0], rest_[1], int(rest_[2]))
    sys.stdout.write(json.dumps(answer))
