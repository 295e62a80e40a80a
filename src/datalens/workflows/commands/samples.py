"""What is done with a finished run: `sample`, `export`."""

from pathlib import Path
from typing import Annotated

import typer

from datalens.errors import DataLensError
from datalens.workflows.commands.options import (
    NOT_PRIVATE,
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
        typer.echo(f"Next: datalens report {run}")


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
        typer.echo(f"Whoever gets it can check it: datalens verify {out}")
