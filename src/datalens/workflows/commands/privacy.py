"""What is checked: `verify`, `ledger`, `audit`."""

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from datalens.errors import DataLensError, printable
from datalens.workflows.commands.options import (
    NOT_PRIVATE,
    Classes,
    Colour,
    DataDir,
    ImageSize,
    Json,
    print_json,
)

CHECKED = (
    "Checked: bounds, noise and counts follow from config.toml, every epsilon follows from the"
    " charges, and certificate, charges and published files fit one chain of hashes."
)
"""What a certificate that holds has passed."""


def verify(
    run: Annotated[Path, typer.Argument(help="A run folder or certificate.json.")],
    ledger: Annotated[
        str | None, typer.Option(help="Name of the data's ledger: check all its rows too.")
    ] = None,
    key: Annotated[
        str | None,
        typer.Option(
            help="Owner's public key, as datalens ledger prints it: check the signature too."
        ),
    ] = None,
    as_json: Json = False,
) -> None:
    """Recompute every epsilon from the published files, without the data. Exit 1: it is wrong.

    Where the run's private half and its ledger are here, the whole ledger is checked too.
    """
    from datalens.privacy.ledger import ledger_path
    from datalens.privacy.verify import claims_privacy, noise_of, said_by, unchecked
    from datalens.privacy.verify import verify as check
    from datalens.synthesizers.session import ledger_of_run
    from datalens.workflows.ledgers import refuse_unknown

    if ledger is not None:
        refuse_unknown(ledger)
    whole = ledger_path(ledger) if ledger else ledger_of_run(run)
    wrong = check(run, ledger=whole, key=key)
    private = not wrong and claims_privacy(run)
    not_checked = unchecked(run, ledger=whole, key=key)
    if as_json:
        found = {"holds": not wrong, "private": private, "wrong": wrong}
        found |= {"not_checked": not_checked}
        print_json({**found, "ledger": whole and whole.stem})
    else:
        if not wrong and not private:
            typer.echo(NOT_PRIVATE[noise_of(run)])
        for fault in wrong:
            typer.echo(fault)
        typer.echo("The certificate does NOT hold." if wrong else "The certificate holds.")
        if not wrong:
            typer.echo(printable(f"It says: {said_by(run)}"))
            typer.echo(CHECKED)
        if whole is not None and not wrong:
            typer.echo(f"The whole ledger {whole.stem} holds too, and has these rows.")
        if key is not None and not wrong:
            typer.echo("It was signed by the owner of this public key.")
        for words in not_checked:
            typer.echo(f"Not checked: {words}.")
    if wrong:
        raise typer.Exit(1)


def show_ledger(
    name: Annotated[str | None, typer.Argument(help="Name of a ledger. Default: list all.")] = None,
    cap: Annotated[
        float | None,
        typer.Option(help="Largest epsilon that all runs on this ledger may spend together."),
    ] = None,
    delta: Annotated[
        float | None,
        typer.Option(
            help="delta of the cap and of the epsilons shown. Default: the cap's, else 1e-5."
        ),
    ] = None,
    end: Annotated[
        str | None,
        typer.Option(
            help="Abandoned run to end: what it has reserved and not spent is free again."
        ),
    ] = None,
    as_json: Json = False,
) -> None:
    """What all runs on a data set have reserved and spent, and what a cap leaves."""
    from datalens.workflows import ledgers
    from datalens.workflows.progress import careful
    from datalens.workflows.terms import other_terms

    if name is None:
        if cap is not None or end is not None:
            raise DataLensError("Name the ledger that --cap or --end is for.")
        found, refused = ledgers.accounts(delta=delta)
        if as_json:
            listed = [each.to_json() for each in found]
            print_json({"ledgers": listed, "refused": refused, "public_key": ledgers.own_key()})
        else:
            if not found and not refused:
                typer.echo("There is no ledger yet; the first datalens fit makes one.")
            for each in found:
                most = f" Cap: {each.cap['epsilon']:g}." if each.cap else ""
                spent = ledgers.total_sentence(each)
                typer.echo(f"{each.name}: {len(each.runs)} runs, {spent}{most}")
            for sentence in refused:
                typer.echo(printable(sentence), err=True)
            if found:
                typer.echo(ledgers.key_sentence())
        if refused and not found:
            raise typer.Exit(2)
        return
    new = cap is not None and name not in ledgers.names()
    with careful(lambda words: typer.echo(words, err=True)):
        ledger = ledgers.opened(name) if cap is None else ledgers.capped(name, cap, delta)
    if end is not None:
        ledger.settle(end, {})
    account = ledgers.account(ledger, delta=delta)
    if as_json:
        print_json(account.to_json() | {"public_key": ledgers.own_key()})
        return
    Console().print(ledgers.table(account))
    typer.echo(ledgers.total_sentence(account))
    Console().print(other_terms(ledgers.other_terms(account)))
    typer.echo(ledgers.cap_sentence(account))
    typer.echo(ledgers.key_sentence())
    if new:
        typer.echo(
            f"This ledger is new. It is charged by runs on data named {name}, and by others with"
            f" --ledger {name}."
        )


def audit(
    trials: Annotated[
        int | None, typer.Option(help="Attacks on the release path in each world; else 20,000.")
    ] = None,
    runs: Annotated[
        int | None, typer.Option(help="Attacks on each method in each world; else 2,000.")
    ] = None,
    run: Annotated[Path | None, typer.Option(help="Also attack the samples of this run.")] = None,
    on: Annotated[str | None, typer.Option(help="The data set that --run was trained on.")] = None,
    data_dir: DataDir = None,
    classes: Classes = None,
    image_size: ImageSize = None,
    colour: Colour = None,
    out: Annotated[Path | None, typer.Option(help="Also write the figures to FILE.json.")] = None,
    as_json: Json = False,
) -> None:
    """Attack our own mechanism: a lower bound on epsilon. Exit 1: it exceeds the claim."""
    from datalens.workflows.audit.running import run_audit
    from datalens.workflows.audit.tables import LEGEND, audit_tables
    from datalens.workflows.bench.tables import for_terminal
    from datalens.workflows.judged import sized_as
    from datalens.workflows.source import Source

    if (run is None) is not (on is None):
        raise DataLensError("--run and --on go together: a run, and the data it was trained on.")
    target = None
    if run is not None and on is not None:
        source = Source(
            name=on, data_dir=data_dir, image_size=image_size, colour=colour, n_classes=classes
        )
        target = (run, sized_as(run, source))
    try:
        result = run_audit(trials=trials, runs=runs, samples_of=target, out=out)
    except KeyboardInterrupt:
        typer.echo("Stopped.", err=True)
        raise typer.Exit(130) from None
    if as_json:
        print_json(result)
    else:
        for title, rows in audit_tables(result).items():
            Console().print(for_terminal(title, rows))
        typer.echo(LEGEND.format(confidence=result["confidence"]))
        typer.echo("All claims hold." if result["holds"] else "A claim does NOT hold.")
    if not result["holds"]:
        raise typer.Exit(1)
