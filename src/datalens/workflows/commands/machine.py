"""What is here: `methods`, `data`, `demo`, `bench`."""

import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Column, Table

from datalens.errors import DataLensError
from datalens.workflows.commands.options import (
    DataDir,
    Json,
    pairs,
    positive_number,
    print_json,
)


def data(
    name: Annotated[str | None, typer.Argument(help="One data set; all if left out.")] = None,
    data_dir: DataDir = None,
    as_json: Json = False,
) -> None:
    """List the data sets, where they were found, and what is public about them."""
    from dataclasses import asdict

    from datalens.data import catalogue, describe

    found = [describe(name, data_dir)] if name else list(catalogue(data_dir))
    if as_json:
        print_json({"datasets": [asdict(entry) for entry in found]})
        return
    table = Table(Column("name", no_wrap=True), "records", "test", "shape", "classes")
    table.add_column("found at", overflow="fold")
    public: dict[str, list[str]] = {}
    for entry in found:
        public.setdefault(entry.public, []).append(entry.name)
        counts = (entry.n_records, entry.n_test_records)
        table.add_row(
            entry.name,
            *("-" if n is None else f"{n:,}" for n in counts),
            "x".join(map(str, entry.shape)),
            str(len(entry.class_names)),
            entry.found or "not here",
        )
    Console().print(table)
    if any(entry.n_records is None for entry in found):
        typer.echo("-: only its files tell.")
    for entry in found:
        if not entry.found:
            typer.echo(f"{entry.name}: {entry.how_to_get}.")
    for what, names in public.items():
        typer.echo(f"Public of {', '.join(names)}: {what}.")


def methods(as_json: Json = False) -> None:
    """List the methods: what each does, how it is accounted for, the paper it comes from."""
    from datalens.synthesizers import METHODS
    from datalens.synthesizers.learner import AnyLearner
    from datalens.synthesizers.private_classifier import CLASSIFIERS

    kinds: dict[str, Mapping[str, type[AnyLearner]]]
    kinds = {"methods": METHODS, "classifiers": CLASSIFIERS}
    found = {
        kind: [
            {
                "name": name,
                "about": method.about,
                "private": method.private,
                "needs_labels": method.needs_labels,
                "accounting": method.accounting,
                "source": method.source,
            }
            for name, method in these.items()
        ]
        for kind, these in kinds.items()
    }
    if as_json:
        print_json(found)
        return
    titles = {"methods": "datalens fit: images", "classifiers": "datalens classify: one model"}
    for kind, title in titles.items():
        table = Table(Column(no_wrap=True, style="bold"), Column(), title=title)
        table.title_justify, table.show_header, table.show_lines = "left", False, True
        for entry in found[kind]:
            private = "private" if entry["private"] else "NOT PRIVATE"
            labels = "needed" if entry["needs_labels"] else "not needed"
            lines = (
                entry["about"],
                f"{private}: {entry['accounting']}; labels {labels}",
                entry["source"],
            )
            table.add_row(str(entry["name"]), "\n".join(map(str, lines)))
        Console().print(table)


def demo(
    out: Annotated[Path, typer.Option(help="Where the demo's run goes.")] = Path("runs/demo"),
) -> None:
    """The whole way on bundled images: certificate, picture, report, in a few minutes."""
    from datalens.synthesizers.session import Stopped
    from datalens.workflows.demo import run_demo

    try:
        run_demo(out)
    except (Stopped, KeyboardInterrupt):
        typer.echo("Stopped.", err=True)
        raise typer.Exit(130) from None


bench = typer.Typer(no_args_is_help=True, help="Measure this machine.")


@bench.callback()
def _bench() -> None:
    """Measure this machine."""


@bench.command()
def speed(
    teachers: Annotated[int, typer.Option(help="Reference teachers to measure with.")] = 128,
    repeats: Annotated[int, typer.Option(help="Interleaved repeats.")] = 5,
    grow: Annotated[str, typer.Option(help="Also a step of so many teachers: 500,1000.")] = "",
    out: Annotated[Path | None, typer.Option(help="Write OUT.json and OUT.md.")] = None,
    as_json: Json = False,
) -> None:
    """How fast teachers train and vote, side by side with a plain loop, vmap and the limit."""
    from datalens.workflows.bench.keeping import keep
    from datalens.workflows.bench.speed import run
    from datalens.workflows.bench.tables import for_terminal, speed_tables

    if teachers < 16 or repeats < 1:
        raise DataLensError("bench speed needs at least 16 teachers and 1 repeat.")
    try:
        counts = [int(part) for part in grow.split(",") if part]
    except ValueError:
        raise DataLensError(
            f"--grow takes numbers of teachers as 500,1000, got {grow!r}."
        ) from None
    console = Console(stderr=True)
    result = run(teachers=teachers, repeats=repeats, grow=counts, say=console.print)
    tables = speed_tables(result)
    if out is not None:
        keep(out, result, tables)
    if as_json:
        print_json(result)
        return
    for title, rows in tables.items():
        Console().print(for_terminal(title, rows))


@bench.command()
def utility(
    datasets: Annotated[
        str, typer.Option(help="Names, or folders of class folders: mnist,my/pets.")
    ] = ("fashion-mini"),
    epsilons: Annotated[str, typer.Option(help="Budgets: 0.2,1,10.")] = "10",
    methods: Annotated[
        str, typer.Option(help="By name: class-gaussian, datalens, datalens-paper, ...; or all.")
    ] = "class-gaussian,datalens",
    seeds: Annotated[int, typer.Option(help="Repetitions of each, with fresh noise.")] = 3,
    jobs: Annotated[
        int | None, typer.Option(help="Repetitions at a time, sharing the cores; usually 2 to 4.")
    ] = None,
    out: Annotated[Path, typer.Option(help="Where results are, and go.")] = Path(
        "docs/results/utility"
    ),
    set_: Annotated[
        list[str] | None, typer.Option("--set", help="A setting of all methods: NAME=VALUE.")
    ] = None,
    held_out: Annotated[
        bool, typer.Option("--held-out", help="Test on a sixth of the training records.")
    ] = False,
    images: Annotated[
        int | None,
        typer.Option(
            help="Synthetic images for the judge; usually one for a record, at most 50,000."
        ),
    ] = None,
    seeded: Annotated[
        bool,
        typer.Option("--seeded", help="Noise from seeds: repeatable, quicker, and NOT PRIVATE."),
    ] = False,
    most_minutes: Annotated[
        float | None, typer.Option(help="End what takes longer, and list it as not run.")
    ] = None,
    data_dir: DataDir = None,
    as_json: Json = False,
) -> None:
    """How well a judge learns from synthetic images: methods, data sets, budgets, repetitions.

    What is in OUT already is not repeated. No real budget is spent. Exit 1: some came to nothing.
    """
    from datalens.workflows.bench.tables import for_markdown
    from datalens.workflows.bench.utility.cells import asked
    from datalens.workflows.bench.utility.pages import not_run_tables, utility_tables
    from datalens.workflows.bench.utility.running import run_bench, usual_jobs
    from datalens.workflows.evaluation_tables import INTERNAL

    for option, count in {"--seeds": seeds, "--jobs": jobs, "--images": images}.items():
        if count is not None and count < 1:
            raise DataLensError(f"{option} must be at least 1, got {count}.")
    if most_minutes is not None:
        positive_number("--most-minutes", str(most_minutes))
    options = {"epsilons": epsilons, "methods": methods, "seeds": seeds}
    words = [f"--{name} {value}" for name, value in options.items()]
    words += [f"--jobs {jobs}"] if jobs else []
    words += [f"--set {shlex.quote(text)}" for text in set_ or []]
    words += ["--held-out"] if held_out else []
    words += [f"--images {images}"] if images else []
    words += ["--seeded"] if seeded else []
    words += [f"--most-minutes {most_minutes:g}"] if most_minutes else []
    try:
        cells = asked(
            datasets=_parts(datasets),
            methods=_parts(methods),
            epsilons=[positive_number("--epsilons", part) for part in _parts(epsilons)],
            settings=pairs(set_ or []),
            held_out=held_out,
            data_dir=data_dir,
        )
        # Where data lie and results go says something of this machine only.
        names = ",".join(dict.fromkeys(cell.dataset for cell in cells))
        result = run_bench(
            cells,
            seeds=seeds,
            jobs=jobs or usual_jobs(cells),
            out=out,
            command=" ".join([f"datalens bench utility --datasets {shlex.quote(names)}", *words]),
            images=images,
            seeded=seeded,
            data_dir=data_dir,
            most_minutes=most_minutes,
        )
    except KeyboardInterrupt:
        typer.echo("Stopped.", err=True)
        raise typer.Exit(130) from None
    if as_json:
        found = [each.to_json() for each in result.results]
        slow = [each.model_dump() for each in result.not_run]
        told = {"internal": True, "cells": found, "not_run": slow, "failed": result.failed}
        print_json(told)
    else:
        tables = utility_tables(result.results) | not_run_tables(result.not_run)
        for title, rows in tables.items():
            typer.echo(for_markdown(title, rows))
        typer.echo(INTERNAL)
    for failure in result.failed:
        typer.echo(f"Failed: {failure}", err=True)
    if result.failed:
        raise typer.Exit(1)


def _parts(text: str) -> list[str]:
    return [part.strip() for part in text.split(",") if part.strip()]
