"""What is done with a finished run: `sample`, `evaluate`, `export`."""

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from datalens.errors import DataLensError
from datalens.workflows.commands.options import (
    NOT_PRIVATE,
    Classes,
    DataDir,
    ImageSize,
    Json,
    print_json,
)


def sample(
    run: Annotated[Path, typer.Argument(help="A run folder.")],
    count: Annotated[int, typer.Option(help="How many images.")],
    out: Annotated[Path, typer.Option(help="FILE.npz, .parquet or .png, or a folder.")],
    labels: Annotated[str | None, typer.Option(help="Classes to draw, as 0,1,...")] = None,
    seed: Annotated[int | None, typer.Option(help="Public randomness; free.")] = None,
    as_json: Json = False,
) -> None:
    """Draw images from a run. Costs no privacy, however many."""
    from datalens.workflows.outputs import Samples, check_target, write_samples
    from datalens.workflows.progress import counted
    from datalens.workflows.runs import load_run

    check_target(out, count)
    wanted = None
    if labels is not None:
        try:
            wanted = [int(part) for part in labels.split(",")]
        except ValueError:
            raise DataLensError(f"--labels takes class numbers as 0,1,2, got {labels!r}.") from None
    synthesizer = load_run(run)
    private = synthesizer.certificate["private"]
    warning = "" if private else NOT_PRIVATE[synthesizer.certificate["noise"]["kind"]]
    drawn = synthesizer.stream(count, wanted, seed=seed)
    try:
        with counted("images", drawn, of=count, size=lambda part: len(part.labels)) as parts:
            samples = Samples(
                parts=parts,
                count=count,
                shape=synthesizer.shape,
                class_names=synthesizer.class_names,
                warning=warning,
            )
            write_samples(out, samples)
    except KeyboardInterrupt:
        typer.echo("Stopped; nothing was written.", err=True)
        raise typer.Exit(130) from None
    result = {"out": str(out), "count": count, "private": private}
    if as_json:
        print_json(result)
    else:
        if warning:
            typer.echo(warning)
        typer.echo(f"{count} images in {out}.")


def evaluate(
    synthetic: Annotated[Path, typer.Argument(help="A run, FILE.npz, or a folder of classes.")],
    on: Annotated[str, typer.Option(help="The data set whose test split judges.")],
    seeds: Annotated[int, typer.Option(help="How often to train the judge.")] = 1,
    data_dir: DataDir = None,
    classes: Classes = None,
    image_size: ImageSize = None,
    as_json: Json = False,
) -> None:
    """Train the judge on synthetic images, test it on real ones. The figures are internal.

    Of a run of datalens classify, the classifier itself is tested.
    """
    from datalens.workflows.evaluation import evaluate_classifier, evaluate_synthetic
    from datalens.workflows.fitting import Source
    from datalens.workflows.runs import holds_classifier

    source = Source(name=on, data_dir=data_dir, image_size=image_size, n_classes=classes)
    if holds_classifier(synthetic):
        if seeds != 1:
            raise DataLensError("A classifier is tested as it is, so leave out --seeds.")
        result = evaluate_classifier(synthetic, source)
    else:
        result = evaluate_synthetic(synthetic, source, seeds=seeds)
    if as_json:
        print_json(result)
        return
    spread, judged = result.get("accuracy_spread"), f"{result['test_images']} test images"
    if "seeds" in result:
        judged = f"last epoch, {len(result['seeds'])} seed(s), {result['synthetic_images']} images"
    typer.echo(
        f"accuracy {result['accuracy']:.4f}"
        + (f" +- {spread:.4f}" if spread is not None else "")
        + f" ({judged})"
    )
    table = Table("class", "accuracy")
    for name, share in result["per_class"].items():
        table.add_row(name, "none" if share is None else f"{share:.3f}")
    Console().print(table)
    typer.echo("Internal: these figures come from real data that nobody has paid for.")


def export(
    run: Annotated[Path, typer.Argument(help="A run folder.")],
    out: Annotated[Path, typer.Option(help="The folder to make.")],
    as_json: Json = False,
) -> None:
    """Copy the half of a run that may be published, and nothing else."""
    from datalens.workflows.publishing import export as copy

    names = copy(run, out)
    if as_json:
        print_json({"out": str(out), "files": names})
    else:
        typer.echo(f"{out}: {', '.join(names)}")
