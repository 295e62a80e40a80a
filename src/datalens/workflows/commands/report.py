"""What people read: `report`, and `watch` while a run trains."""

from contextlib import suppress
from pathlib import Path
from typing import Annotated

import typer

from datalens.errors import DataLensError
from datalens.workflows.commands.options import Json, print_json


def report(
    runs: Annotated[list[Path], typer.Argument(help="A run folder; several are compared.")],
    internal: Annotated[
        bool, typer.Option("--internal", help="Figures of real data too; not to be published.")
    ] = False,
    out: Annotated[
        Path | None, typer.Option(help="FILE.html; else in the run, or comparison.html here.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Write a report as one HTML file that loads nothing: RUN/report.html may be published.

    With --internal it is RUN/internal/report.html, and may not. Several runs are compared in
    comparison.html in this folder, numbered if there is one already.
    """
    from datalens.workflows.report.compare import free_place, write_comparison
    from datalens.workflows.report.internal import write_internal
    from datalens.workflows.report.page import check_target
    from datalens.workflows.report.public import write_report
    from datalens.workflows.runs import load_any
    from datalens.workflows.suggesting import command

    if out is not None:
        check_target(out)
    private = True
    for run in runs:
        private &= load_any(run).certificate["private"]  # or refuse a run
    if len(runs) > 1:
        page = write_comparison(runs, out or free_place(internal=internal), internal=internal)
    else:
        page = (write_internal if internal else write_report)(runs[0], out=out)
    if as_json:
        print_json({"report": str(page), "internal": internal, "runs": [str(run) for run in runs]})
        return
    typer.echo(f"Report: {page}")
    if internal:
        _after_internal(runs)
    elif len(runs) > 1:
        may = "it may be published" if private else "NOT PRIVATE, so do not publish it"
        typer.echo(f"Next: open it in a browser; {may}.")
    elif (runs[0] / "internal").is_dir():
        typer.echo(
            f"Next: {command('export', runs[0], '--out', 'public')}   (what may be published)"
        )


def _after_internal(runs: list[Path]) -> None:
    from datalens.workflows.report.internal import measured
    from datalens.workflows.suggesting import command

    if len(runs) > 1 or measured(runs[0]):
        typer.echo("INTERNAL: its figures come from real data. Do not publish it.")
        typer.echo("Next: open it in a browser, where the records are.")
    else:
        typer.echo("INTERNAL: nothing has been measured on real data yet. Do not publish it.")
        typer.echo(f"Next: {command('evaluate', runs[0], '--on', 'DATA')}   (then this again)")


def watch(
    run: Annotated[Path, typer.Argument(help="A run folder, under way or finished.")],
    port: Annotated[int, typer.Option(help="On 127.0.0.1; a free one by default.")] = 0,
) -> None:
    """Follow a run on a local, read-only page: epsilon, steps, time left, samples."""
    import threading

    from datalens.workflows.watch.server import serving

    if not run.is_dir():
        raise DataLensError(f"{run} is no run folder; name the --out of datalens fit.")
    with serving(run, port=port) as url:
        typer.echo(f"Watching {run} on {url}   (Ctrl-C ends it)")
        with suppress(KeyboardInterrupt):
            threading.Event().wait()
