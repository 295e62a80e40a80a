"""The command line. `--json` prints one object and no more."""

import sys
from typing import Annotated

import typer

from datalens import __version__
from datalens.errors import DataLensError, refused, sentence
from datalens.workflows.commands import (
    classify,
    evaluate,
    fit,
    machine,
    plan,
    privacy,
    report,
    samples,
)

app = typer.Typer(
    add_completion=False,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
)


def _version(asked: bool) -> None:
    if asked:
        typer.echo(f"datalens {__version__}")
        raise typer.Exit


@app.callback()
def _datalens(
    version: Annotated[
        bool,
        typer.Option(
            "--version", callback=_version, is_eager=True, help="Print the version and exit."
        ),
    ] = False,
) -> None:
    """Synthetic images that may be published: private by proof, with a certificate."""


app.command()(plan.plan)
app.command()(fit.fit)
app.command()(samples.sample)
app.command()(evaluate.evaluate)
app.command()(report.report)
app.command()(report.watch)
app.command()(classify.classify)
app.command()(classify.predict)
app.command()(privacy.verify)
app.command(name="ledger")(privacy.show_ledger)
app.command()(privacy.audit)
app.command()(samples.export)
app.command()(machine.methods)
app.command()(machine.data)
app.command()(machine.demo)
app.add_typer(machine.bench, name="bench")


def main() -> None:
    """Run a command; what a user can put right comes as one sentence and exit code 2."""
    try:
        app()
    except Exception as error:
        if not isinstance(error, DataLensError) and not refused(error):
            raise
        sys.stderr.write(f"datalens: {sentence(error)}\n")
        sys.exit(2)
