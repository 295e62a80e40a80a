"""`datalens predict`: what images show, as a private classifier sees it."""

import csv
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from datalens.data import load_unlabelled
from datalens.errors import DataLensError
from datalens.synthesizers.private_classifier import Predictions
from datalens.workflows.runs import load_classifier


def predict_images(
    run: Path, images: str, out: Path, *, data_dir: Path | None = None
) -> dict[str, Any]:
    """Write a line for each image: its file or row, the likeliest class, and how likely it is."""
    if out.suffix.lower() != ".csv":
        raise DataLensError(f"{out} must be named FILE.csv.")
    if out.exists():
        raise DataLensError(f"{out} exists already; name another place.")
    classifier = load_classifier(run)
    files, pixels = load_unlabelled(images, classifier.shape, data_dir=data_dir)
    _write(out, files, classifier.predict(pixels), classifier.class_names)
    return {"out": str(out), "count": len(pixels), "private": classifier.certificate["private"]}


def _write(
    out: Path, files: list[str] | None, found: Predictions, class_names: tuple[str, ...]
) -> None:
    likeliest = found.probabilities.max(axis=1)
    names = [str(row) for row in range(len(likeliest))] if files is None else files
    try:
        out.parent.mkdir(parents=True, exist_ok=True)
        with TemporaryDirectory(dir=out.parent, prefix=".datalens-") as folder:
            part = Path(folder) / out.name
            # A file's name may be of any bytes, and is written as it is.
            with part.open("w", newline="", encoding="utf-8", errors="surrogateescape") as file:
                rows = csv.writer(file)
                rows.writerow(["row" if files is None else "file", "class", "probability"])
                for name, label, share in zip(names, found.labels, likeliest, strict=True):
                    rows.writerow([name, class_names[label], f"{share:.4f}"])
            part.rename(out)  # whole or not at all
    except OSError as error:
        raise DataLensError(f"{out} cannot be written ({error.strerror}).") from None
