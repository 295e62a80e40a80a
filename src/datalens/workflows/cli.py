"""The command line. Each command is a typed function; `--json` prints one object and no more."""

import json
import sys
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

from datalens.errors import DataLensError, printable, sentence

app = typer.Typer(
    add_completion=False,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    help="Synthetic images that may be published: private by proof, with a certificate.",
)

SEEDED = "NOT PRIVATE: the noise came from a seed."

Json = Annotated[bool, typer.Option("--json", help="Print one JSON object and nothing else.")]
DataDir = Annotated[Path | None, typer.Option(help="Where data sets lie (else DATALENS_DATA).")]
ImageSize = Annotated[int | None, typer.Option(help="Resize images to this many pixels square.")]
Classes = Annotated[int | None, typer.Option(help="Number of classes; public by your word.")]


@app.command()
def fit(
    dataset: Annotated[str, typer.Argument(help="A data set by name, an NPZ, or a folder.")],
    epsilon: Annotated[float | None, typer.Option(help="The budget.")] = None,
    delta: Annotated[float | None, typer.Option(help="1e-5 by default.")] = None,
    method: Annotated[str, typer.Option(help="datalens or class-gaussian.")] = "datalens",
    preset: Annotated[str, typer.Option(help="auto, paper, or FILE.toml.")] = "auto",
    out: Annotated[Path | None, typer.Option(help="The run folder to make.")] = None,
    accountant: Annotated[str | None, typer.Option(help="Sizes the run: certified, paper.")] = None,
    discriminator: Annotated[str | None, typer.Option(help="compact or reference.")] = None,
    teachers: Annotated[int | None, typer.Option(help="Number of teachers.")] = None,
    precision: Annotated[
        str | None, typer.Option(help="Of teachers' products: float32 or bfloat16.")
    ] = None,
    top_k: Annotated[int | None, typer.Option(help="Entries a ballot may name.")] = None,
    sigma: Annotated[float | None, typer.Option(help="Noise in ballots; fixes the steps.")] = None,
    quorum: Annotated[float | None, typer.Option(help="Share of teachers that must agree.")] = None,
    clip: Annotated[float | None, typer.Option(help="Where gradient entries are cut.")] = None,
    clip_mode: Annotated[str | None, typer.Option(help="raw, or relative to the largest.")] = None,
    step_size: Annotated[float | None, typer.Option(help="How far the student follows.")] = None,
    batch_size: Annotated[int | None, typer.Option(help="Images voted on in a step.")] = None,
    steps: Annotated[int | None, typer.Option(help="Number of steps; fixes sigma.")] = None,
    warm_start: Annotated[
        bool | None, typer.Option("--warm-start/--no-warm-start", help="Start at class-gaussian.")
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
    ledger: Annotated[str | None, typer.Option(help="The data's ledger; its name if left.")] = None,
    data_dir: DataDir = None,
    seed: Annotated[int | None, typer.Option(help="Reproducible; needs --not-private.")] = None,
    not_private: Annotated[
        bool, typer.Option("--not-private", help="You know a seeded run protects nobody.")
    ] = False,
    set_: Annotated[
        list[str] | None, typer.Option("--set", help="Any other setting: NAME=VALUE.")
    ] = None,
    resume: Annotated[bool, typer.Option("--resume", help="Go on with the run in --out.")] = False,
    device: Annotated[str, typer.Option(help="Where teachers are: cpu or cuda.")] = "cpu",
    rank_timeout: Annotated[
        float, typer.Option(help="Under torchrun: seconds to wait for another rank.")
    ] = 600.0,
    as_json: Json = False,
) -> None:
    """Spend a privacy budget on private images; get a generator and a certificate."""
    from datalens.synthesizers.session import Stopped
    from datalens.workflows.fitting import Source, fit_run, make_synthesizer, resume_run
    from datalens.workflows.joining import joined

    source = Source(name=dataset, data_dir=data_dir, image_size=image_size, n_classes=classes)
    if (seed is not None) is not not_private:
        raise DataLensError(
            "A seed makes a run NOT PRIVATE: give --seed and --not-private together, or neither."
        )
    given = {
        "epsilon": epsilon,
        "delta": delta,
        "accountant": accountant,
        "discriminator": discriminator,
        "n_teachers": teachers,
        "precision": precision,
        "top_k": top_k,
        "sigma": sigma,
        "quorum": quorum,
        "clip": clip,
        "clip_mode": clip_mode,
        "step_size": step_size,
        "batch_size": batch_size,
        "steps": steps,
        "warm_start": warm_start,
        "keep_all": True if no_top_k else None,
        "quantise": False if no_quantisation else None,
        "threshold": False if no_threshold else None,
        "label_prior": label_prior,
    }
    others = _pairs(set_ or [])
    if doubled := set(others) & set(given):
        raise DataLensError(f"{', '.join(sorted(doubled))}: use its own option, not --set.")
    overrides = {name: value for name, value in given.items() if value is not None} | others
    first = True
    try:
        with joined(timeout=rank_timeout, device=device) as ranks:
            first = ranks.rank == 0
            if resume:
                if out is None:
                    raise DataLensError("--resume needs --out, the run to go on with.")
                if set(overrides) - {"epsilon"} or ledger or seed is not None:
                    raise DataLensError(
                        "A resumed run keeps its settings; give none with --resume."
                    )
                result = resume_run(source, out, epsilon=epsilon, ranks=ranks)
            else:
                if epsilon is None:
                    raise DataLensError("--epsilon must be given: how much privacy may be spent.")
                synthesizer = make_synthesizer(
                    method, preset=preset, data_name=dataset, overrides=overrides
                )
                out = out or _free_name(dataset, method, epsilon, private=seed is None)
                out = Path(ranks.tell("out", bytes(out)).decode())
                result = fit_run(synthesizer, source, out, ledger=ledger, seed=seed, ranks=ranks)
    except (Stopped, KeyboardInterrupt):
        if not first:
            raise typer.Exit(130) from None
        where = {"--data-dir": data_dir, "--image-size": image_size, "--classes": classes}
        words = "".join(f" {name} {value}" for name, value in where.items() if value is not None)
        typer.echo(
            f"Stopped. Go on with: datalens fit {dataset}{words} --out {out} --resume", err=True
        )
        raise typer.Exit(130) from None
    if not first:
        return
    if as_json:
        _print_json(result)
    else:
        _print_fit(result)


@app.command()
def sample(
    run: Annotated[Path, typer.Argument(help="A run folder.")],
    count: Annotated[int, typer.Option(help="How many images.")],
    out: Annotated[Path, typer.Option(help="FILE.npz, FILE.png, or a folder.")],
    labels: Annotated[str | None, typer.Option(help="Classes to draw, as 0,1,...")] = None,
    seed: Annotated[int | None, typer.Option(help="Public randomness; free.")] = None,
    as_json: Json = False,
) -> None:
    """Draw images from a run. Costs no privacy, however many."""
    from datalens.workflows.outputs import check_target, write_samples
    from datalens.workflows.runs import load_run

    check_target(out)
    wanted = None
    if labels is not None:
        try:
            wanted = [int(part) for part in labels.split(",")]
        except ValueError:
            raise DataLensError(f"--labels takes class numbers as 0,1,2, got {labels!r}.") from None
    synthesizer = load_run(run)
    drawn = synthesizer.sample(count, wanted, seed=seed)
    private = synthesizer.certificate["private"]
    warning = "" if private else SEEDED
    write_samples(out, drawn, synthesizer.class_names, warning=warning)
    result = {"out": str(out), "count": count, "private": private}
    if as_json:
        _print_json(result)
    else:
        if warning:
            typer.echo(warning)
        typer.echo(f"{count} images in {out}.")


@app.command()
def evaluate(
    synthetic: Annotated[Path, typer.Argument(help="A run, FILE.npz, or a folder of classes.")],
    on: Annotated[str, typer.Option(help="The data set whose test split judges.")],
    seeds: Annotated[int, typer.Option(help="How often to train the judge.")] = 1,
    data_dir: DataDir = None,
    classes: Classes = None,
    image_size: ImageSize = None,
    as_json: Json = False,
) -> None:
    """Train the judge on synthetic images, test it on real ones. The figures are internal."""
    from datalens.workflows.evaluation import evaluate_synthetic
    from datalens.workflows.fitting import Source

    source = Source(name=on, data_dir=data_dir, image_size=image_size, n_classes=classes)
    result = evaluate_synthetic(synthetic, source, seeds=seeds)
    if as_json:
        _print_json(result)
        return
    spread = result["accuracy_spread"]
    typer.echo(
        f"accuracy {result['accuracy']:.4f}"
        + (f" +- {spread:.4f}" if spread is not None else "")
        + f" (last epoch, {len(result['seeds'])} seed(s), {result['synthetic_images']} images)"
    )
    table = Table("class", "accuracy")
    for name, share in result["per_class"].items():
        table.add_row(name, f"{share:.3f}")
    Console().print(table)
    typer.echo("Internal: these figures come from real data that nobody has paid for.")


@app.command()
def verify(
    run: Annotated[Path, typer.Argument(help="A run folder or certificate.json.")],
    ledger: Annotated[
        str | None, typer.Option(help="Also check the data's whole ledger: its name.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Recompute every epsilon from the ledger extract alone. Needs no data. Exit 1: it is wrong.

    Where the run's private half and its ledger are here, the whole ledger is checked too.
    """
    from datalens.privacy.verify import claims_privacy
    from datalens.privacy.verify import verify as check
    from datalens.workflows.ledgers import ledger_of_run, opened

    whole = opened(ledger).path if ledger else ledger_of_run(run)
    wrong = check(run, ledger=whole)
    private = not wrong and claims_privacy(run)
    if as_json:
        found = {"holds": not wrong, "private": private, "wrong": wrong}
        _print_json({**found, "ledger": whole and whole.stem})
    else:
        if not wrong and not private:
            typer.echo(SEEDED)
        for fault in wrong:
            typer.echo(printable(fault))  # it may repeat what is in the file
        typer.echo("The certificate does NOT hold." if wrong else "The certificate holds.")
        if whole is not None and not wrong:
            typer.echo(f"So does the whole ledger {whole.stem}.")
    if wrong:
        raise typer.Exit(1)


@app.command(name="ledger")
def show_ledger(
    name: Annotated[str | None, typer.Argument(help="A ledger; all if left out.")] = None,
    cap: Annotated[float | None, typer.Option(help="Let the total never exceed this.")] = None,
    delta: Annotated[float | None, typer.Option(help="Of the cap and the totals.")] = None,
    end: Annotated[
        str | None, typer.Option(help="End this abandoned run; what it did not use returns.")
    ] = None,
    as_json: Json = False,
) -> None:
    """What all runs on a data set have reserved and spent, and what a cap leaves."""
    from datalens.workflows import ledgers

    if name is None:
        if cap is not None or end is not None:
            raise DataLensError("Name the ledger that --cap or --end is for.")
        found = [ledgers.account(ledgers.opened(each), delta=delta) for each in ledgers.names()]
        if as_json:
            _print_json({"ledgers": [each.to_json() for each in found]})
        elif not found:
            typer.echo("There is no ledger yet; the first datalens fit makes one.")
        for each in [] if as_json else found:
            typer.echo(f"{each.name}: {len(each.runs)} runs, {ledgers.total_sentence(each)}")
        return
    ledger = ledgers.opened(name, make=cap is not None)
    if end is not None:
        ledger.settle(end)
    if cap is not None:
        ledger.set_cap(cap, delta if delta is not None else ledgers.DELTA)
    account = ledgers.account(ledger, delta=delta)
    if as_json:
        _print_json(account.to_json())
        return
    Console().print(ledgers.table(account))
    typer.echo(ledgers.total_sentence(account))
    typer.echo(ledgers.cap_sentence(account))


@app.command()
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
    out: Annotated[Path | None, typer.Option(help="Also write the figures to FILE.json.")] = None,
    as_json: Json = False,
) -> None:
    """Attack our own mechanism: a lower bound on epsilon. Exit 1: it exceeds the claim."""
    from datalens.workflows.audit.running import run_audit
    from datalens.workflows.audit.tables import LEGEND, audit_tables
    from datalens.workflows.bench.tables import for_terminal
    from datalens.workflows.fitting import Source

    if (run is None) is not (on is None):
        raise DataLensError("--run and --on go together: a run, and the data it was trained on.")
    target = None
    if run is not None and on is not None:
        source = Source(name=on, data_dir=data_dir, image_size=image_size, n_classes=classes)
        target = (run, source)
    try:
        result = run_audit(trials=trials, runs=runs, samples_of=target, out=out)
    except KeyboardInterrupt:
        typer.echo("Stopped.", err=True)
        raise typer.Exit(130) from None
    if as_json:
        _print_json(result)
    else:
        for title, rows in audit_tables(result).items():
            Console().print(for_terminal(title, rows))
        typer.echo(LEGEND.format(confidence=result["confidence"]))
        typer.echo("All claims hold." if result["holds"] else "A claim does NOT hold.")
    if not result["holds"]:
        raise typer.Exit(1)


@app.command()
def export(
    run: Annotated[Path, typer.Argument(help="A run folder.")],
    out: Annotated[Path, typer.Option(help="The folder to make.")],
    as_json: Json = False,
) -> None:
    """Copy the half of a run that may be published, and nothing else."""
    from datalens.workflows.publishing import export as copy

    names = copy(run, out)
    if as_json:
        _print_json({"out": str(out), "files": names})
    else:
        typer.echo(f"{out}: {', '.join(names)}")


@app.command()
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
        _print_json({"datasets": [asdict(entry) for entry in found]})
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


@app.command()
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
app.add_typer(bench, name="bench")


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
        _print_json(result)
        return
    for title, rows in tables.items():
        Console().print(for_terminal(title, rows))


def main() -> None:
    """Run a command; what a user can put right comes as one sentence and exit code 2."""
    try:
        app()
    except (DataLensError, OSError, MemoryError) as error:
        sys.stderr.write(f"datalens: {sentence(error)}\n")
        sys.exit(2)


def _pairs(texts: list[str]) -> dict[str, str]:
    found = {}
    for text in texts:
        name, equals, value = text.partition("=")
        if not equals or not name:
            raise DataLensError(f"--set takes NAME=VALUE, got {text!r}.")
        found[name] = value
    return found


def _free_name(dataset: str, method: str, epsilon: float, *, private: bool) -> Path:
    """runs/DATASET-METHOD-epsilon-E, numbered if there is one already."""
    stem = f"{Path(dataset).stem}-{method}-epsilon-{epsilon:g}" + (
        "" if private else "-NOT-PRIVATE"
    )
    for number in range(1, 10_000):
        path = Path("runs") / (stem if number == 1 else f"{stem}-{number}")
        if not path.exists():
            return path
    raise DataLensError("The folder runs/ is full of runs of this name; give --out.")


def _print_json(result: dict[str, Any]) -> None:
    sys.stdout.write(json.dumps(result) + "\n")


def _print_fit(result: dict[str, Any]) -> None:
    if not result["private"]:
        typer.echo(SEEDED)
    epsilon = result["epsilon"]
    typer.echo(
        f"epsilon {epsilon['certified']:.4f} certified, {epsilon['paper']:.4f} by the paper,"
        f" {epsilon['gaussian']:.4f} Gaussian (no bound); delta {result['delta']:g};"
        f" {result['epsilon_replace']:.4f} if a record is replaced."
    )
    typer.echo(f"{result['releases']} releases in {result['seconds']:.0f} s.")
    if result["left_over"]:
        typer.echo(f"{result['left_over']} left-over records reached no teacher.")
    run = result["run"]
    typer.echo(f"Picture: {run}/samples.png   Report: {run}/report.html")
    typer.echo(f"Next: datalens sample {run} --count 5000 --out synthetic.npz")
