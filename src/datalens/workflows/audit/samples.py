"""Membership inference on a finished run: figures for its owner, never for publication."""

from pathlib import Path
from typing import Any

from datalens.errors import DataLensError
from datalens.utility.membership import SYNTHETIC, attacked
from datalens.workflows.judged import was_trained_on
from datalens.workflows.runs import load_run
from datalens.workflows.source import Source
from datalens.workflows.writing import AUDIT, keep_internal


def audit_samples(run: Path, source: Source, *, seed: int = 0) -> dict[str, Any]:
    """Records the run was trained on against records of the test split, which it never saw.

    The figures are kept in RUN/internal/audit.json.
    """
    synthesizer = load_run(run)
    train, test = source.records(), source.records("test")
    if not was_trained_on(synthesizer, train.public):
        raise DataLensError(f"{run} was not trained on {source.name}: name the data it was.")
    drawn = synthesizer.sample(SYNTHETIC, seed=seed).images
    attacks = attacked(drawn, train.images, test.images, seed=seed)
    told = [attack.to_json() for attack in attacks]
    result = {"run": str(run), "on": source.name, "internal": True, "attacks": told}
    keep_internal(run, AUDIT, result)
    return result
