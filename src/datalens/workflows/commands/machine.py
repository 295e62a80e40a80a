"""What is here: `data`, `demo`, `bench`."""

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from datalens.errors import DataLensError
from datalens.workflows.commands.options import (
    DataDir,
    Json,
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
    table = Table("name", "records", "test", "shape", "classes", "found at", "public")
    for entry in found:
        table.add_row(
            entry.name,
            str(entry.n_records),
            str(entry.n_test_records),
            "x".join(map(str, entry.shape)),
            str(len(entry.class_names)),
            entry.found or "not here (downloaded when used)",
            entry.public,
        )
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
