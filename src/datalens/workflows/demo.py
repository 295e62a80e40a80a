"""`datalens demo`: the whole way on bundled images, as a newcomer meets it."""

import shutil
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path

import torch
import typer
from rich.console import Console

from datalens.data import Records
from datalens.errors import DataLensError
from datalens.privacy.rounding import rounded_up
from datalens.synthesizers import ClassGaussian, DataLens, Synthesizer
from datalens.utility.accuracy import Accuracy, judged_accuracy
from datalens.workflows.fitting import fit_run
from datalens.workflows.runs import load_run
from datalens.workflows.source import Source
from datalens.workflows.suggesting import command
from datalens.workflows.writing import EVALUATION, keep_internal

DATA, EPSILON = "fashion-mini", 10.0
JUDGED = 20_000
"""Images that each judge learns from: fewer than usual, for those who watch."""


def run_demo(out: Path) -> None:
    """Fit, judge, compare with class-gaussian at the same epsilon, say where things are."""
    mark = out.with_name(f".{out.name}-is-a-demo")
    if out.exists():
        if not mark.exists():
            raise DataLensError(f"{out} exists and is no demo; name another --out.")
        shutil.rmtree(out)
    out.parent.mkdir(parents=True, exist_ok=True)
    mark.touch()  # before the run, so that an interrupted demo can be started again
    source = Source(name=DATA)
    typer.echo(f"DataLens on {DATA}: 20,000 images of clothes that we pretend are private.")
    result = fit_run(DataLens(epsilon=EPSILON), source, out, ledger=None, seed=None)

    alone = ClassGaussian(epsilon=EPSILON).fit(source.records())
    typer.echo(
        f"Now the judge: a small CNN learns from {JUDGED:,} of its images, is tested on real."
    )
    with Console(stderr=True).status("Two judges at work, a minute or two ..."):
        own, floor = judge_both(load_run(out), alone, source.tested().records)
    figures = {
        "internal": True,
        "datalens": own.to_json(),
        "class-gaussian": floor.to_json(),
        "accuracy": own.accuracy,
        "epsilon": result["epsilon"],
        "seconds_to_fit": result["seconds"],
    }
    keep_internal(out, EVALUATION, figures)

    typer.echo(
        f"\nepsilon    {rounded_up(result['epsilon']['certified'])} at delta {result['delta']:g}"
        f"\naccuracy   {own.accuracy:.3f} datalens   {floor.accuracy:.3f} class-gaussian"
        "\n           internal: computed on real images without noise, so do not publish them"
        f"\npicture    {out}/samples.png"
        f"\nreport     {out}/report.html"
        f"\ncertificate {out}/certificate.json (check it: {command('verify', out)})"
    )


def judge_both(first: Synthesizer, second: Synthesizer, test: Records) -> list[Accuracy]:
    """Two judges side by side, half the cores each: faster than one after the other."""
    threads = max(1, torch.get_num_threads() // 2)
    with ProcessPoolExecutor(
        2, get_context("spawn"), initializer=torch.set_num_threads, initargs=(threads,)
    ) as pool:
        samples = [made.sample(JUDGED, seed=0) for made in (first, second)]
        pending = [pool.submit(judged_accuracy, *drawn, test) for drawn in samples]
        return [judged.result() for judged in pending]
