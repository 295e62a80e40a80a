"""What is done with a finished run: `sample`, `export`."""

import math
from pathlib import Path
from typing import Annotated

import typer

from datalens.errors import DataLensError
from datalens.workflows.commands.options import (
    NOT_PRIVATE,
    Json,
    print_json,
)

SAID = 10**9
"""Bytes of images, beyond which their size is said before they are drawn."""


def sample(
    run: Annotated[Path, typer.Argument(help="A run folder.")],
    count: Annotated[int, typer.Option(help="How many images.")],
    out: Annotated[Path, typer.Option(help="FILE.npz, .parquet or .png, or a folder.")],
    labels: Annotated[str | None, typer.Option(help="Classes to draw: names, or 0,1,...")] = None,
    seed: Annotated[int | None, typer.Option(help="Public randomness; free.")] = None,
    grain: Annotated[
        float,
        typer.Option(
            help="Random noise painted on the images: 0 for none, up to 1 for as much as the model"
            " left unexplained (datalens and class-gaussian only)."
        ),
    ] = 0.0,
    as_json: Json = False,
) -> None:
    """Draw images from a run. Costs no privacy, however many."""
    from datalens.workflows.outputs import Samples, check_target, write_samples
    from datalens.workflows.progress import counted
    from datalens.workflows.runs import load_run
    from datalens.workflows.suggesting import command

    check_target(out, count)
    synthesizer = load_run(run)
    wanted = None if labels is None else _classes(labels, synthesizer.class_names)
    private = synthesizer.certificate["private"]
    warning = "" if private else NOT_PRIVATE[synthesizer.certificate["noise"]["kind"]]
    size = count * math.prod(synthesizer.shape)
    if size > SAID:
        typer.echo(f"{count:,} images: {size / 1e9:,.1f} GB before they are packed.", err=True)
    drawn = synthesizer.stream(count, wanted, seed=seed, grain=grain)
    try:
        with counted("images", drawn, of=count, size=lambda part: len(part.labels)) as parts:
            samples = Samples(
                parts=parts,
                count=count,
                shape=synthesizer.shape,
                class_names=synthesizer.class_names,
                grain=grain,
                warning=warning,
            )
            write_samples(out, samples)
    except KeyboardInterrupt:
        typer.echo("Stopped; nothing was written.", err=True)
        raise typer.Exit(130) from None
    result = {"out": str(out), "count": count, "grain": grain, "private": private}
    if as_json:
        print_json(result)
    else:
        if warning:
            typer.echo(warning)
        typer.echo(f"{count} images in {out}.")
        typer.echo(f"Next: {command('report', run)}")


def _classes(labels: str, names: tuple[str, ...]) -> list[int]:
    """Classes by name or by number, in the order in which they were given.

    What is both is a name. A name may have commas: as many words as make one are taken together.
    """
    numbers = {str(number): number for number in range(len(names))}
    known = numbers | {name.strip(): number for number, name in enumerate(names)}
    longest = 1 + max(name.count(",") for name in names)
    words, found = labels.split(","), []
    while words:
        for end in range(min(longest, len(words)), 0, -1):
            number = known.get(",".join(words[:end]).strip())
            if number is not None:
                break
        else:
            shown = ", ".join(f"{number} ({name})" for number, name in enumerate(names))
            raise DataLensError(
                f"--labels: there is no class {words[0].strip()!r}; there are {shown}."
            )
        found.append(number)
        words = words[end:]
    return found


def export(
    run: Annotated[Path, typer.Argument(help="A run folder.")],
    out: Annotated[Path, typer.Option(help="The folder to make.")],
    as_json: Json = False,
) -> None:
    """Copy the half of a run that may be published, and nothing else."""
    from datalens.workflows.publishing import export as copy
    from datalens.workflows.suggesting import command

    names = copy(run, out)
    if as_json:
        print_json({"out": str(out), "files": names})
    else:
        typer.echo(f"{out}: {', '.join(names)}")
        typer.echo(f"Whoever gets it can check it: {command('verify', out)}")
