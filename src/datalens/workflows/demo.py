"""`datalens demo`: the whole way on bundled images, as a newcomer meets it."""

import json
import shutil
from pathlib import Path

import typer

from datalens.errors import DataLensError
from datalens.synthesizers import ClassGaussian, DataLens
from datalens.utility.accuracy import JUDGED_IMAGES, judged_accuracy
from datalens.workflows.fitting import Source, fit_run
from datalens.workflows.runs import load_run

DATA, EPSILON, LEDGER = "fashion-mini", 10.0, "demo"
MARK = "internal/demo"


def run_demo(out: Path) -> None:
    """Fit, judge, compare with the warm start alone at the same epsilon, say where things are."""
    if (out / MARK).exists():
        shutil.rmtree(out)
    elif out.exists():
        raise DataLensError(f"{out} exists and is no demo; name another --out.")
    source = Source(name=DATA)
    typer.echo(f"DataLens on {DATA}: 20,000 images of clothes that we pretend are private.")
    result = fit_run(DataLens(epsilon=EPSILON), source, out, ledger=LEDGER, seed=None)
    (out / MARK).touch()

    typer.echo("Now the judge: a small CNN learns from 50,000 synthetic images, is tested on real.")
    test = source.test_records()
    voted = judged_accuracy(*load_run(out).sample(JUDGED_IMAGES, seed=0), test)
    alone = ClassGaussian(epsilon=EPSILON).fit(source.records(), ledger=LEDGER)
    started = judged_accuracy(*alone.sample(JUDGED_IMAGES, seed=0), test)
    figures = {
        "with_votes": voted.to_json(),
        "warm_start_alone": started.to_json(),
        "accuracy": voted.accuracy,
        "epsilon": result["epsilon"],
        "seconds_to_fit": result["seconds"],
    }
    (out / "internal" / "evaluation.json").write_text(json.dumps(figures, indent=1) + "\n")

    epsilon = result["epsilon"]
    typer.echo(
        f"\nepsilon    {epsilon['certified']:.3f} certified   {epsilon['paper']:.3f} paper"
        f"   {epsilon['gaussian']:.3f} Gaussian (no bound)   at delta {result['delta']:g}"
        f"\naccuracy   {voted.accuracy:.3f} with votes   {started.accuracy:.3f} warm start alone,"
        " with the whole budget"
        f"\npicture    {out}/samples.png"
        f"\nreport     {out}/report.html"
        f"\ncertificate {out}/certificate.json (check it: datalens verify {out})"
    )
