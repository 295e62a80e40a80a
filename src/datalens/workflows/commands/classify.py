"""`datalens classify` and `predict`: one private model, and its use."""

from pathlib import Path
from typing import Annotated

import typer

from datalens.errors import DataLensError
from datalens.workflows.commands.fit import check_protection, free_name, print_cost, stopped
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


def classify(
    dataset: Annotated[str, typer.Argument(help="A data set by name, an NPZ, or a folder.")],
    epsilon: Epsilon = None,
    delta: Delta = None,
    method: Annotated[str, typer.Option(help="topagg, dpsgd or scatter.")] = "topagg",
    keep: Annotated[
        float | None, typer.Option(help="Of topagg: share of a squared norm kept; else 0.8.")
    ] = None,
    steps: Annotated[int | None, typer.Option(help="Number of noisy steps.")] = None,
    epochs: Annotated[float | None, typer.Option(help="The same, in passes.")] = None,
    batch: Annotated[int | None, typer.Option(help="Records in a step, on average.")] = None,
    clip: Annotated[float | None, typer.Option(help="Largest norm of a gradient.")] = None,
    learning_rate: Annotated[float | None, typer.Option(help="At the first step.")] = None,
    out: Annotated[Path | None, typer.Option(help="The run folder to make; else in runs/.")] = None,
    accountant: Annotated[
        str | None,
        typer.Option(
            help="Accountant that sizes the run: pld, certified or paper. Default: by method."
        ),
    ] = None,
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
    as_json: Json = False,
) -> None:
    """Spend a privacy budget on one classifier of private images; get it and a certificate."""
    from datalens.synthesizers.private_classifier import CLASSIFIERS
    from datalens.synthesizers.session import Stopped
    from datalens.workflows.fitting import fit_run, make_classifier, resume_run
    from datalens.workflows.source import Source
    from datalens.workflows.suggesting import command

    source = Source(
        name=dataset, data_dir=data_dir, image_size=image_size, colour=colour, n_classes=classes
    )
    check_protection(method, seed=seed, not_private=not_private, resumed=resume)
    given = {
        "epsilon": epsilon,
        "delta": delta,
        "accountant": accountant,
        "keep": keep,
        "steps": steps,
        "epochs": epochs,
        "batch_size": batch,
        "max_grad_norm": clip,
        "learning_rate": learning_rate,
    }
    overrides = chosen(given, set_ or [])
    try:
        if resume:
            if out is None:
                raise DataLensError("--resume needs --out, the run to go on with.")
            result = resume_run(
                source, out, given=overrides, ledger=ledger, seed=seed, kinds=CLASSIFIERS
            )
        else:
            if epsilon is None:
                raise DataLensError("--epsilon must be given: how much privacy may be spent.")
            classifier = make_classifier(method, overrides)
            out = out or free_name(dataset, method, epsilon, private=not not_private)
            result = fit_run(
                classifier,
                source,
                out,
                ledger=ledger,
                seed=seed,
                allow_large_delta=allow_large_delta,
            )
    except (Stopped, KeyboardInterrupt):
        typer.echo(stopped("classify", source, out), err=True)
        raise typer.Exit(130) from None
    if as_json:
        print_json(result)
        return
    print_cost(result)
    words = command("predict", result["run"], "FOLDER", "--out", "predictions.csv")
    typer.echo(f"Next: {words}")


def predict(
    run: Annotated[Path, typer.Argument(help="A run of datalens classify.")],
    images: Annotated[str, typer.Argument(help="A folder of images, an NPZ, or a data set.")],
    out: Annotated[Path, typer.Option(help="FILE.csv.")],
    data_dir: DataDir = None,
    as_json: Json = False,
) -> None:
    """Say what images show. Costs no privacy, however many; of a data set, its test images."""
    from datalens.workflows.predicting import predict_images

    result = predict_images(run, images, out, data_dir=data_dir)
    if as_json:
        print_json(result)
        return
    if not result["private"]:
        typer.echo(NOT_PRIVATE["seeded"])
    typer.echo(f"{result['count']} predictions in {out}.")
