"""`datalens fit`: the one command that spends."""

from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from datalens.errors import DataLensError
from datalens.workflows.commands.options import (
    NOT_PRIVATE,
    Classes,
    Colour,
    DataDir,
    Delta,
    Epsilon,
    ImageSize,
    Json,
    LargeDelta,
    LedgerName,
    NotPrivate,
    Others,
    Resume,
    Seed,
    chosen,
    print_json,
)

if TYPE_CHECKING:
    from datalens.workflows.source import Source


def fit(
    dataset: Annotated[str, typer.Argument(help="A data set by name, an NPZ, or a folder.")],
    epsilon: Epsilon = None,
    delta: Delta = None,
    method: Annotated[str, typer.Option(help="See datalens methods.")] = "datalens",
    preset: Annotated[str, typer.Option(help="auto, paper, or FILE.toml.")] = "auto",
    out: Annotated[Path | None, typer.Option(help="The run folder to make; else in runs/.")] = None,
    accountant: Annotated[
        str | None,
        typer.Option(help="Accountant that sizes the run: certified (default) or paper."),
    ] = None,
    discriminator: Annotated[str | None, typer.Option(help="compact or reference.")] = None,
    teachers: Annotated[int | None, typer.Option(help="Number of teachers.")] = None,
    precision: Annotated[
        str | None, typer.Option(help="Of teachers' products: float32 or bfloat16.")
    ] = None,
    top_k: Annotated[int | None, typer.Option(help="Entries a ballot may name.")] = None,
    compressor: Annotated[
        str | None, typer.Option(help="Gradients to votes: topagg, d2pfed or fetchsgd.")
    ] = None,
    sigma: Annotated[
        float | None,
        typer.Option(
            help="Standard deviation of the noise on votes; the budget then sets the steps."
        ),
    ] = None,
    quorum: Annotated[float | None, typer.Option(help="Share of teachers that must agree.")] = None,
    clip: Annotated[float | None, typer.Option(help="Where gradients are cut.")] = None,
    clip_mode: Annotated[str | None, typer.Option(help="raw, or relative to the largest.")] = None,
    step_size: Annotated[float | None, typer.Option(help="How far the student follows.")] = None,
    batch_size: Annotated[int | None, typer.Option(help="Images in a step.")] = None,
    steps: Annotated[int | None, typer.Option(help="Number of steps; noise follows.")] = None,
    warm_start: Annotated[
        bool | None,
        typer.Option(
            "--warm-start/--no-warm-start",
            help="Fit a mixture and a labeller before any vote (default), or vote only.",
        ),
    ] = None,
    vote_share: Annotated[
        float | None, typer.Option(help="Share of the budget for votes, 0 to 1. Default: 0.")
    ] = None,
    no_top_k: Annotated[bool, typer.Option("--no-top-k", help="Every entry votes.")] = False,
    no_quantisation: Annotated[
        bool, typer.Option("--no-quantisation", help="Votes on an integer grid, not signs.")
    ] = False,
    no_threshold: Annotated[
        bool, typer.Option("--no-threshold", help="Follow the noisy mean itself.")
    ] = False,
    label_prior: Annotated[str | None, typer.Option(help="uniform or bought.")] = None,
    classes: Classes = None,
    image_size: ImageSize = None,
    colour: Colour = None,
    allow_large_delta: LargeDelta = False,
    ledger: LedgerName = None,
    data_dir: DataDir = None,
    seed: Seed = None,
    not_private: NotPrivate = False,
    set_: Others = None,
    resume: Resume = False,
    device: Annotated[str, typer.Option(help="Where teachers are: cpu or cuda.")] = "cpu",
    rank_timeout: Annotated[
        float, typer.Option(help="Under torchrun: seconds to wait for another rank.")
    ] = 600.0,
    dashboard: Annotated[
        bool, typer.Option("--dashboard", help="Follow the run on a local page.")
    ] = False,
    tensorboard: Annotated[
        Path | None, typer.Option(help="Also write the public log for TensorBoard to this folder.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Spend a privacy budget on private images; get a generator and a certificate."""
    from datalens.synthesizers.session import Stopped
    from datalens.workflows.fitting import fit_run, make_synthesizer, resume_run
    from datalens.workflows.joining import joined
    from datalens.workflows.progress import Listener
    from datalens.workflows.runs import is_private
    from datalens.workflows.source import Source
    from datalens.workflows.tensorboard import Board
    from datalens.workflows.watch.server import serving

    source = Source(
        name=dataset, data_dir=data_dir, image_size=image_size, colour=colour, n_classes=classes
    )
    check_protection(method, seed=seed, not_private=not_private, resumed=resume)
    given = {
        "epsilon": epsilon,
        "delta": delta,
        "accountant": accountant,
        "discriminator": discriminator,
        "n_teachers": teachers,
        "precision": precision,
        "top_k": top_k,
        "compressor": compressor,
        "sigma": sigma,
        "quorum": quorum,
        "clip": clip,
        "clip_mode": clip_mode,
        "step_size": step_size,
        "batch_size": batch_size,
        "steps": steps,
        "warm_start": warm_start,
        "vote_share": vote_share,
        "label_prior": label_prior,
    }
    # Names of switches are free for --set where they are off: gpate has a threshold that is none.
    given |= {"keep_all": True} if no_top_k else {}
    given |= {"quantise": False} if no_quantisation else {}
    given |= {"threshold": False} if no_threshold else {}
    overrides = chosen(given, set_ or [])
    first = True
    try:
        with joined(timeout=rank_timeout, device=device) as ranks, ExitStack() as stack:
            first = ranks.rank == 0
            listeners: list[Listener] = []
            if tensorboard is not None and first:
                listeners.append(stack.enter_context(Board(tensorboard)))
            if resume:
                if out is None:
                    raise DataLensError("--resume needs --out, the run to go on with.")
                if dashboard and first:
                    _show(stack.enter_context(serving(out, to_the_end=True)))
                result = resume_run(
                    source,
                    out,
                    given=overrides,
                    ledger=ledger,
                    seed=seed,
                    ranks=ranks,
                    listeners=listeners,
                )
            else:
                if epsilon is None and is_private(method):
                    raise DataLensError("--epsilon must be given: how much privacy may be spent.")
                synthesizer = make_synthesizer(
                    method, preset=preset, data_name=dataset, overrides=overrides
                )
                out = out or free_name(dataset, method, epsilon, private=not not_private)
                out = Path(ranks.tell("out", bytes(out)).decode())
                if dashboard and first:
                    _show(stack.enter_context(serving(out, to_the_end=True)))
                result = fit_run(
                    synthesizer,
                    source,
                    out,
                    ledger=ledger,
                    seed=seed,
                    allow_large_delta=allow_large_delta,
                    ranks=ranks,
                    listeners=listeners,
                )
    except (Stopped, KeyboardInterrupt):
        if not first:
            raise typer.Exit(130) from None
        typer.echo(stopped("fit", source, out), err=True)
        raise typer.Exit(130) from None
    if not first:
        return
    if as_json:
        print_json(result)
    else:
        _print_fit(result)


def _show(url: str) -> None:
    typer.echo(f"Dashboard: {url}", err=True)


def check_protection(method: str, *, seed: int | None, not_private: bool, resumed: bool) -> None:
    """Nobody gets a run that protects nobody without saying so."""
    from datalens.workflows.runs import is_private

    if resumed or is_private(method):
        if (seed is not None) is not not_private:
            raise DataLensError(
                "A seed makes a run NOT PRIVATE: give --seed and --not-private together, or"
                " neither."
            )
    elif not not_private:
        raise DataLensError(
            f"The method {method} is NOT PRIVATE and protects nobody: give --not-private if that is"
            " what you want."
        )


def free_name(dataset: str, method: str, epsilon: float | None, *, private: bool) -> Path:
    """runs/DATASET-METHOD-epsilon-E, numbered if there is one already."""
    from datalens.data import name_of

    budget = "" if epsilon is None else f"-epsilon-{epsilon:g}"
    stem = f"{name_of(Path(dataset))}-{method}{budget}" + ("" if private else "-NOT-PRIVATE")
    for number in range(1, 10_000):
        path = Path("runs") / (stem if number == 1 else f"{stem}-{number}")
        if not path.exists():
            return path
    raise DataLensError("The folder runs/ is full of runs of this name; give --out.")


def stopped(verb: str, source: "Source", out: Path | None) -> str:
    """What to do now; before its configuration is there, a run has touched no budget."""
    from datalens.workflows.suggesting import command

    if out is not None and (out / "config.toml").exists():
        words = command(verb, source.name, *source.options, "--out", out, "--resume")
        return f"Stopped. Go on with: {words}"
    left = f" {out} can be deleted." if out is not None and (out / "internal").is_dir() else ""
    return f"Stopped before it began, and nothing was spent: start it again.{left}"


def print_cost(result: dict[str, Any]) -> None:
    """What a run has spent: one epsilon, and a table of what else is said of the same charges."""
    from rich.console import Console

    from datalens.privacy.rounding import rounded_up
    from datalens.workflows.terms import ACCOUNTANTS, REPLACED, other_terms

    if not result["private"]:
        typer.echo(NOT_PRIVATE[result["noise"]])
    found = dict(result["epsilon"])
    if found:
        spent, delta = found.pop(result["accountant"]), rounded_up(result["delta"], 6)
        typer.echo(f"epsilon {rounded_up(spent)} spent, at delta {delta}.")
        terms = {REPLACED: result["epsilon_replace"]}
        terms |= {ACCOUNTANTS[name]: epsilon for name, epsilon in found.items()}
        Console().print(other_terms(terms))
    typer.echo(f"{result['releases']} releases in {result['seconds']:.0f} s.")


def _print_fit(result: dict[str, Any]) -> None:
    from datalens.workflows.suggesting import command

    print_cost(result)
    if result["left_over"]:
        typer.echo(f"{result['left_over']} left-over records reached no teacher.")
    run = result["run"]
    typer.echo(f"Picture: {run}/samples.png   Report: {run}/report.html")
    words = command("sample", run, "--count", 5000, "--out", "synthetic")
    typer.echo(f"Next: {words}")
