"""`datalens evaluate`: judge a run, or a file or folder of synthetic images."""

import json
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.progress import Progress

from datalens.data import load
from datalens.errors import DataLensError
from datalens.utility.accuracy import JUDGED_IMAGES, judged_accuracy
from datalens.workflows.fitting import Source
from datalens.workflows.runs import load_classifier, load_run


def evaluate_classifier(run: Path, source: Source) -> dict[str, Any]:
    """How often a private classifier is right. Kept under RUN/internal, never published."""
    classifier, test = load_classifier(run), source.test_records()
    if test.public.n_classes != len(classifier.class_names):
        raise DataLensError(
            f"The classifier knows {len(classifier.class_names)} classes and {source.name} has"
            f" {test.public.n_classes}."
        )
    right = classifier.predict(test.images).labels == test.labels
    names = enumerate(classifier.class_names)
    per_class = {name: right[test.labels == label] for label, name in names}
    result = {
        "run": str(run),
        "on": source.name,
        "accuracy": float(right.mean()),
        "per_class": {n: float(r.mean()) if len(r) else None for n, r in per_class.items()},
        "test_images": len(right),
    }
    _keep(run, result)
    return result


def _keep(run: Path, result: dict[str, Any]) -> None:
    """Inside, where the run's private half is here."""
    if (run / "internal").is_dir():
        path = run / "internal" / "evaluation.json"
        path.write_text(json.dumps(result, indent=1) + "\n")


def evaluate_synthetic(synthetic: Path, source: Source, *, seeds: int = 1) -> dict[str, Any]:
    """The judge's figures. For a run they are also kept under RUN/internal, never published."""
    if seeds < 1:
        raise DataLensError(f"--seeds must be at least 1, got {seeds}.")
    test = source.test_records()
    is_run = (synthetic / "config.toml").is_file()
    if is_run:
        images, labels = load_run(synthetic).sample(JUDGED_IMAGES, seed=0)
    else:
        found = load(str(synthetic), n_classes=test.public.n_classes)
        images, labels = found.images, found.labels
    with Progress(console=Console(stderr=True)) as bars:
        task = bars.add_task("judge")
        accuracy = judged_accuracy(
            images,
            labels,
            test,
            seeds=range(seeds),
            progress=lambda done, total: bars.update(task, completed=done, total=total),
        )
    result = {"synthetic": str(synthetic), "on": source.name, **accuracy.to_json()}
    if is_run:
        _keep(synthetic, result)
    return result
