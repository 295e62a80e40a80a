"""What synthetic images, or a private classifier, are worth: `evaluate`."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console

from datalens.errors import DataLensError
from datalens.workflows.commands.options import (
    Classes,
    Colour,
    DataDir,
    ImageSize,
    Json,
    print_json,
)

if TYPE_CHECKING:
    from datalens.workflows.source import Source

MORE = (
    "--all adds a random forest and a residual network, all on real data too; --seeds 3 a spread."
)
LEAVE_OUT = "leave out --seeds, --quick, --all and --features"


def evaluate(
    synthetic: Annotated[
        Path, typer.Argument(help="A run, FILE.npz, FILE.parquet, or a folder of classes.")
    ],
    on: Annotated[str, typer.Option(help="The real data set whose test split judges.")],
    seeds: Annotated[int, typer.Option(help="How often to train each classifier.")] = 1,
    quick: Annotated[
        bool, typer.Option("--quick", help="Fewer images: rougher figures, sooner.")
    ] = False,
    everything: Annotated[
        bool, typer.Option("--all", help="More classifiers, and all of them on real data too.")
    ] = False,
    features: Annotated[
        Path | None, typer.Option(help="Weights of Inception-v3: FILE.safetensors.")
    ] = None,
    private_validation: Annotated[
        float | None,
        typer.Option(
            help="Spend this epsilon on one noisy accuracy, which may be published; no more."
        ),
    ] = None,
    ledger: Annotated[
        str | None,
        typer.Option(
            help="Ledger to charge with --private-validation. Default: the one named after the"
            " held-out records."
        ),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(help="Folder for that accuracy and its certificate. Default: RUN/validation."),
    ] = None,
    data_dir: DataDir = None,
    classes: Classes = None,
    image_size: ImageSize = None,
    colour: Colour = None,
    as_json: Json = False,
) -> None:
    """Classifiers learn from synthetic images and are tested on real ones; and how images look.

    The figures are internal, but for the one of --private-validation. Of a run of datalens
    classify, the classifier itself is tested.
    """
    from datalens.workflows.evaluation import (
        EVERYTHING,
        QUICK,
        USUAL,
        evaluate_classifier,
        evaluate_synthetic,
    )
    from datalens.workflows.judged import sized_as
    from datalens.workflows.runs import holds_classifier
    from datalens.workflows.source import Source

    source = sized_as(
        synthetic,
        Source(name=on, data_dir=data_dir, image_size=image_size, colour=colour, n_classes=classes),
    )
    special = seeds != 1 or quick or everything or features is not None
    if quick and everything:
        raise DataLensError("--quick and --all exclude each other; leave out one.")
    if private_validation is not None:
        if special:
            raise DataLensError(f"--private-validation computes one figure; {LEAVE_OUT}.")
        _buy(synthetic, source, private_validation, ledger, out, as_json=as_json)
        return
    if ledger is not None or out is not None:
        raise DataLensError("--ledger and --out are for --private-validation alone.")
    if holds_classifier(synthetic):
        if special:
            raise DataLensError(f"A classifier is tested as it is; {LEAVE_OUT}.")
        result = evaluate_classifier(synthetic, source)
    else:
        effort = QUICK if quick else EVERYTHING if everything else USUAL
        result = evaluate_synthetic(
            synthetic, source, seeds=seeds, effort=effort, features=features
        )
    if as_json:
        print_json(result)
    else:
        _show(result, more="classifiers" in result and not special)


def _buy(
    synthetic: Path,
    source: "Source",
    epsilon: float,
    ledger: str | None,
    out: Path | None,
    *,
    as_json: bool,
) -> None:
    from datalens.privacy.rounding import rounded_up
    from datalens.workflows.suggesting import command
    from datalens.workflows.validating import validate

    try:
        result = validate(synthetic, source, epsilon=epsilon, ledger=ledger, out=out)
    except KeyboardInterrupt:
        typer.echo("Stopped.", err=True)
        raise typer.Exit(130) from None
    if as_json:
        print_json(result)
        return
    low, high = result["accuracy_interval"]
    typer.echo(
        f"accuracy {result['accuracy']:.4f} on {result['test_images']} held-out records;"
        f" epsilon {rounded_up(result['epsilon']['certified'])} spent, charged to the ledger"
        f" {result['ledger']}."
    )
    typer.echo(f"Without the noise it lies between {low:.4f} and {high:.4f}, with 95 %.")
    check = command("verify", result["out"])
    typer.echo(f"It may be published with {result['out']}: {check}")


def _show(result: dict[str, Any], *, more: bool) -> None:
    from datalens.workflows.bench.tables import for_terminal
    from datalens.workflows.evaluation_tables import INTERNAL, LEGEND, evaluation_tables, share

    spread, judged = result.get("accuracy_spread"), f"{result['test_images']} test images"
    if "seeds" in result:
        judged = f"last epoch, {len(result['seeds'])} seed(s), {result['synthetic_images']} images"
    typer.echo(
        f"accuracy {result['accuracy']:.4f}"
        + (f" +- {spread:.4f}" if spread is not None else "")
        + f" ({judged})"
    )
    if "classifiers" in result:
        for title, rows in evaluation_tables(result).items():
            Console().print(for_terminal(title, rows))
        typer.echo(LEGEND)
    else:
        shares = [[name, share(value)] for name, value in result["per_class"].items()]
        Console().print(for_terminal("Accuracy by class", (["class", "accuracy"], shares)))
    for note in result["notes"]:
        typer.echo(note)
    if more:
        typer.echo(MORE)
    typer.echo(INTERNAL)
