"""`datalens plan`: what a budget would give, before it is spent."""

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from datalens.errors import DataLensError
from datalens.workflows.commands.options import Colour, ImageSize, Json, print_json


def plan(
    epsilon: Annotated[
        float, typer.Option(help="Privacy budget: epsilon in (epsilon, delta)-privacy.")
    ],
    dataset: Annotated[
        str | None,
        typer.Argument(help="A data set by name, an NPZ, or a folder, whose files are counted."),
    ] = None,
    delta: Annotated[float, typer.Option(help="delta in (epsilon, delta)-privacy.")] = 1e-5,
    records: Annotated[int | None, typer.Option(help="How many there are, or are used.")] = None,
    shape: Annotated[str | None, typer.Option(help="Of an image: 1x28x28.")] = None,
    classes: Annotated[int | None, typer.Option(help="Number of classes.")] = None,
    image_size: ImageSize = None,
    colour: Colour = None,
    calibrate: Annotated[
        bool, typer.Option("--calibrate/--no-calibrate", help="Measure this machine for times.")
    ] = True,
    plot: Annotated[
        Path | None, typer.Option(help="Write FILE.svg: accuracy over k, epsilon over steps.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Settings, ranked by what they should give: from public facts alone, spending nothing."""
    from datalens.planning.machine import calibrate as measure
    from datalens.planning.planner import option, outlook
    from datalens.workflows import forecast
    from datalens.workflows.bench.tables import for_terminal
    from datalens.workflows.source import Source

    source = None
    if dataset is None:
        if colour is not None:
            raise DataLensError("--shape has the channels: leave out --grey and --colour.")
        public = forecast.declared(
            records=records, shape=shape, classes=classes, image_size=image_size
        )
    else:
        source = Source(name=dataset, image_size=image_size, colour=colour, n_classes=classes)
        public = forecast.facts_of(source, records=records, shape=shape)
    # What is wrong with the budget is said before ten seconds pass.
    option("datalens", {}, public, {"epsilon": epsilon, "delta": delta})
    rates = None
    if calibrate:
        with Console(stderr=True).status("Measuring this machine"):
            rates = measure(public)
    found = outlook(public, epsilon=epsilon, delta=delta, rates=rates)
    if plot is not None:
        forecast.plot(found, plot)
    if as_json:
        print_json(found.to_json())
        return
    for title, rows in forecast.tables(found).items():
        Console().print(for_terminal(title, rows))
    for sentence in forecast.warnings(found):
        typer.echo(sentence)
    for sentence in found.refused:
        typer.echo(f"Left out: {sentence}")
    if source is not None and source.assumed:
        typer.echo(source.assumed)
    typer.echo(forecast.verdict(found, source))
