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
    out: Annotated[Path | None, typer.Option(help="FILE.html for a comparison.")] = None,
    as_json: Json = False,
) -> None:
    """Write a report as one HTML file that loads nothing: RUN/report.html may be published.

    With --internal it is RUN/internal/report.html, and may not. Several runs are compared in --out.
    """
    from datalens.privacy.verify import verify
    from datalens.workflows.report.compare import write_comparison
    from datalens.workflows.report.internal import write_internal
    from datalens.workflows.report.public import write_report
    from datalens.workflows.runs import load_any

    if (out is None) is (len(runs) > 1):
        raise DataLensError(
            "--out names the page that compares several runs; give both or neither."
        )
    for run in runs:
        load_any(run)  # what is no finished run is said to be none
        if wrong := verify(run):
            raise DataLensError(
                f"The certificate of {run} does not hold, so there is nothing to report:"
                f" {wrong[0]} See datalens verify {run}."
            )
    if out is not None:
        page = write_comparison(runs, out, internal=internal)
    else:
        page = write_internal(runs[0]) if internal else write_report(runs[0])
    if as_json:
        print_json({"report": str(page), "internal": internal, "runs": [str(run) for run in runs]})
        return
    typer.echo(f"Report: {page}")
    if internal:
        typer.echo("INTERNAL: its figures come from real data. Do not publish it.")
    elif out is None and (runs[0] / "internal").is_dir():
        typer.echo(f"Next: datalens export {runs[0]} --out public   (what may be published)")


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
