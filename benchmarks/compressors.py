"""The paper's Tables 5 and 6 with our implementation: what other compressors are worth and cost.

    python benchmarks/compressors.py time
    python benchmarks/compressors.py accuracy --datasets mnist --epsilons 10
    python benchmarks/compressors.py accuracy --datasets celeba-gender celeba-hair --epsilons 1

Everything goes to docs/results/compressors: times to time.json and time.md, accuracies to
accuracy.md, over all cells that are there, and one JSON a cell in accuracy/, as those of `datalens
bench utility`. Cells that are there already are not repeated.

Time: one step of 4,000 teachers, measured with a few of them on one thread, in seconds of the
processor's time, so that other work beside disturbs little. Repeats of the compressors are
interleaved, and what is said are ratios to TopAgg in the same repeat.

Accuracy: the preset `paper` with compact teachers. All compressors get as many steps and the same
epsilon, so the noise of each follows from its own sensitivity; the quorum is as many deviations of
the noise on a decoded entry as it is in the preset. Where there are fewer records than the paper
had, there are as many teachers as have shards of the paper's size.
"""

import argparse
import json
from collections.abc import Callable
from pathlib import Path
from statistics import median
from time import process_time
from typing import Any

import torch
from sweeps import METHOD, command, shown

from datalens.mechanism.noise import ExactNoise
from datalens.mechanism.topagg import TopAgg
from datalens.synthesizers.compressing import completed, compressor_of, price
from datalens.synthesizers.settings import VoteSettings
from datalens.synthesizers.voting import count_votes
from datalens.workflows.bench.machine import description
from datalens.workflows.bench.speed import (
    CLASSES,
    COLOUR,
    FACES,
    SHAPE,
    SIGMA,
    UPDATES,
    Ours,
    data,
)
from datalens.workflows.bench.tables import for_markdown
from datalens.workflows.bench.utility.cells import Cell, asked
from datalens.workflows.bench.utility.results import Result
from datalens.workflows.bench.utility.running import run_bench

NAMES = ("topagg", "d2pfed", "fetchsgd")
ALL = 4000
"""Teachers of a step."""
FEW = {"compact": 32, "reference": 8}
"""Of which so many are measured."""
TABLE_5 = {
    "mnist": (71.23, 14.24, 69.35),
    "fashion-mnist": (64.78, 16.67, 63.87),
    "celeba-gender": (70.58, 44.45, 65.52),
    "celeba-hair": (60.61, 28.93, 49.26),
}
"""Accuracy in per cent at epsilon 1, best on test."""
TABLE_6 = {"1 x 28 x 28": (338.34, 492.43, 785.34), "3 x 64 x 64": (1120.59, 8092.50, 2620.63)}
"""Seconds an epoch on a Tesla T4: MNIST, and CelebA-Hair."""


def mechanism(name: str, shape: tuple[int, int, int]) -> TopAgg:
    values = shape[0] * shape[1] * shape[2]
    top_k = 200 if shape == SHAPE else 700
    chosen = VoteSettings(epsilon=1, compressor=name, top_k=top_k, clip=1e-5, clip_mode="raw")  # type: ignore[arg-type]
    chosen = chosen.model_copy(update=completed(chosen, values))
    made = compressor_of(chosen, values)
    # Noise of the same price for all.
    sigma = SIGMA * (price(made) / (4 * top_k)) ** 0.5
    return TopAgg(ballot=made, n_teachers=ALL, sigma=sigma, quorum=0.7)


def timed(work: Callable[..., Any], *given: Any, **named: Any) -> tuple[float, Any]:
    """Seconds of the processor's time that it takes, and what comes of it."""
    started = process_time()
    result = work(*given, **named)
    return process_time() - started, result


def step_of(
    ours: Ours, topagg: TopAgg, shown: torch.Tensor, labels: torch.Tensor, step: int
) -> dict[str, float]:
    """Seconds of what follows training in a step of all teachers."""
    few = len(ours.teachers.labels)
    votes, tally = timed(
        count_votes,
        ours.teachers,
        shown,
        labels,
        topagg=topagg,
        weigh_room=False,
        secret=b"bench",
        step=step,
    )
    noise, drawn = timed(topagg.draw, tally.shape, noise=ExactNoise(), key="bench")
    decode, _ = timed(topagg.direction, tally + drawn)
    return {"votes": votes / few * ALL, "noise": noise, "decode": decode}


def times(discriminator: str, shape: tuple[int, int, int], repeats: int) -> dict[str, Any]:
    classes = CLASSES if shape == SHAPE else FACES
    few = FEW[discriminator]
    images, labels, synthetic, shown = data(few, shape, classes)
    ours = Ours(discriminator, images, labels, classes, discriminator == "compact", torch.bfloat16)
    topaggs = {name: mechanism(name, shape) for name in NAMES}
    found: list[dict[str, dict[str, float]]] = []
    for repeat in range(repeats + 1):  # the first is to warm up
        training, _ = timed(ours.train, synthetic, shown, UPDATES)
        found.append({})
        for name, topagg in topaggs.items():
            parts = step_of(ours, topagg, synthetic, shown, repeat)
            found[-1][name] = {"training": training / few * ALL, **parts}
    kept = found[1:]
    whole = [{name: sum(parts.values()) for name, parts in each.items()} for each in kept]
    ratios = {name: sorted(each[name] / each["topagg"] for each in whole) for name in NAMES}
    return {
        "discriminator": discriminator,
        "shape": list(shape),
        "teachers_measured": few,
        "seconds": {
            name: {part: median(each[name][part] for each in kept) for part in kept[0][name]}
            for name in NAMES
        },
        "step_ratio": {
            name: {"median": median(all_), "least": all_[0], "most": all_[-1]}
            for name, all_ in ratios.items()
        },
        "integers_a_ballot": {
            name: topagg.ballot.width(shape[0] * shape[1] * shape[2])
            for name, topagg in topaggs.items()
        },
    }


def time(out: Path, repeats: int) -> None:
    shapes = (SHAPE, COLOUR)
    torch.set_num_threads(1)
    rows = []
    for shape in shapes:
        for name in ("compact", "reference"):
            rows.append(times(name, shape, repeats))
            print(name, shape, rows[-1]["step_ratio"], flush=True)
    result = {
        "command": f"python benchmarks/compressors.py time --repeats {repeats}",
        "teachers": ALL,
        "repeats": repeats,
        "machine": description(),
        "rows": rows,
    }
    out.mkdir(parents=True, exist_ok=True)
    (out / "time.json").write_text(json.dumps(result, indent=1) + "\n")
    (out / "time.md").write_text(time_tables(result))


def time_tables(result: dict[str, Any]) -> str:
    rows, parts = [], []
    for row in result["rows"]:
        size = " x ".join(map(str, row["shape"]))
        printed = TABLE_6[size]
        for name, paper in zip(NAMES, printed, strict=True):
            ratio, seconds = row["step_ratio"][name], row["seconds"][name]
            rows.append(
                [
                    size,
                    row["discriminator"],
                    name,
                    f"{ratio['median']:.2f} ({ratio['least']:.2f} to {ratio['most']:.2f})",
                    f"{paper / printed[0]:.2f}",
                ]
            )
            shares = [f"{100 * seconds[part] / sum(seconds.values()):.1f}" for part in seconds]
            parts.append([size, row["discriminator"], name, *shares])
    machine = result["machine"]
    about = (
        f"{result['repeats']} interleaved repeats on one thread of a machine with"
        f" {machine['cores']} cores ({machine['processor']}), in processor time, other work"
        f" running beside. Made by `{result['command']}`.\n\n"
    )
    heads = ["image", "teachers", "compressor", "a step, times TopAgg's", "Table 6, times TopAgg's"]
    shared = [
        "image",
        "teachers",
        "compressor",
        "training",
        "gradients and votes",
        "noise",
        "decode",
    ]
    return (
        about
        + for_markdown("A step of 4,000 teachers", (heads, rows))
        + "\n"
        + for_markdown("Where the time of a step goes, per cent", (shared, parts))
    )


def cells(datasets: list[str], epsilons: list[float]) -> dict[tuple[str, float, str], Cell]:
    found = {}
    for dataset in datasets:
        for epsilon in epsilons:
            (plain,) = asked(datasets=[dataset], methods=[METHOD], epsilons=[epsilon], settings={})
            for name in NAMES:
                settings = settings_of(name, plain)
                (cell,) = asked(
                    datasets=[dataset], methods=[METHOD], epsilons=[epsilon], settings=settings
                )
                found[dataset, epsilon, name] = cell
    return found


def settings_of(name: str, plain: Cell) -> dict[str, Any]:
    """What goes over the preset: as many steps as it has, and the noise that they then need."""
    if name == "topagg":
        return {"compressor": name}
    printed = plain.configuration["settings"]
    channels, height, width = plain.configuration["data"]["shape"]
    values = channels * height * width
    chosen = VoteSettings(epsilon=1, compressor=name, top_k=printed["top_k"])  # type: ignore[arg-type]
    made = compressor_of(chosen.model_copy(update=completed(chosen, values)), values)
    louder = made.spread * (price(made) / (4 * printed["top_k"])) ** 0.5
    quorum = round(printed["quorum"] * louder, 4)
    return {"compressor": name, "steps": printed["steps"], "sigma": None, "quorum": quorum}


def accuracy(out: Path, given: argparse.Namespace) -> None:
    wanted = cells(given.datasets, given.epsilons)
    bench = run_bench(
        list(wanted.values()),
        seeds=given.seeds,
        jobs=given.jobs,
        out=out / "accuracy",
        command=command("compressors.py accuracy", given),
        images=given.images,
        seeded=given.seeded,
        most_minutes=given.most_minutes,
    )
    if bench.results:
        (out / "accuracy.md").write_text(accuracy_table(bench.results))


def accuracy_table(results: list[Result]) -> str:
    """Of every cell that is there."""
    found = {(r.dataset, r.epsilon_asked or 0.0, r.overrides["compressor"]): r for r in results}
    datasets = sorted({where[0] for where in found}, key=list(TABLE_5).index)
    rows = []
    for dataset in datasets:
        for epsilon in sorted({where[1] for where in found if where[0] == dataset}):
            each = [shown(found.get((dataset, epsilon, name))) for name in NAMES]
            rows.append([dataset, f"ours, epsilon {epsilon:g}", *each])
    for dataset in datasets:
        printed = [f"({figure:.1f})" for figure in TABLE_5[dataset]]
        rows.append([dataset, "Table 5, epsilon 1", *printed])
    title = "Accuracy in per cent: last epoch (best on test)"
    return about(results) + for_markdown(title, (["data", "", *NAMES], rows))


def about(results: list[Result]) -> str:
    all_ = [each for cell in results for each in cell.repetitions]
    minutes = sorted(each.seconds.all / 60 for each in all_)
    images = " or ".join(f"{n:,}" for n in sorted({each.synthetic_images for each in all_}))
    processors = " and ".join(sorted({each.machine["processor"] for each in all_}))
    return (
        f"{len(all_)} repetitions of {len(results)} cells, with a judge that learns from {images}"
        f" images, {minutes[0]:.0f} to {minutes[-1]:.0f} minutes each on one core ({processors})."
        " Made by `python benchmarks/compressors.py accuracy`; every figure is in"
        " [accuracy/](accuracy/README.md).\n\n"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("what", choices=["time", "accuracy"])
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument(
        "--datasets", nargs="+", choices=list(TABLE_5), default=["mnist", "fashion-mnist"]
    )
    parser.add_argument("--epsilons", nargs="+", type=float, default=[1.0, 10.0])
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--images", type=int, default=10_000)
    parser.add_argument("--seeded", action="store_true", help="noise from seeds; NOT PRIVATE")
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--most-minutes", type=float)
    parser.add_argument("--out", type=Path, default=Path("docs/results/compressors"))
    given = parser.parse_args()
    if given.what == "time":
        time(given.out, given.repeats)
    else:
        accuracy(given.out, given)


if __name__ == "__main__":
    main()
