"""Where samples go: an NPZ, a contact sheet, or a folder of class folders."""

import csv
import re
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
from PIL import Image

from datalens.errors import DataLensError
from datalens.synthesizers.protocol import Synthetic
from datalens.workflows.pictures import contact_sheet, save_sheet


def check_target(out: Path) -> None:
    """Refuse a target that exists or that we do not know how to write, before any work."""
    if out.suffix.lower() not in (".npz", ".png", ""):
        raise DataLensError(f"{out} is neither FILE.npz, FILE.png nor a folder.")
    if out.exists():
        raise DataLensError(f"{out} exists already; name another place.")


def write_samples(
    out: Path, samples: Synthetic, class_names: tuple[str, ...], *, warning: str = ""
) -> None:
    """Write the samples in the form that the target's name asks for.

    A warning, where the run was not private, goes into all of them.
    """
    check_target(out)
    try:
        out.parent.mkdir(parents=True, exist_ok=True)
        with TemporaryDirectory(dir=out.parent, prefix=".datalens-") as folder:
            part = Path(folder) / out.name
            if out.suffix.lower() == ".npz":
                _write_npz(part, samples, class_names, warning)
            elif out.suffix.lower() == ".png":
                columns = max(1, min(20, round(len(samples.labels) ** 0.5)))
                save_sheet(contact_sheet(samples.images, columns, caption=warning), part)
            else:
                _write_folder(part, samples, class_names)
                if warning:
                    (part / "NOT-PRIVATE.txt").write_text(warning + "\n")
            part.rename(out)  # whole or not at all
    except OSError as error:
        raise DataLensError(f"{out} cannot be written ({error.strerror}).") from None


def _write_npz(out: Path, samples: Synthetic, class_names: tuple[str, ...], warning: str) -> None:
    arrays: dict[str, Any] = {
        "images": samples.images,
        "labels": samples.labels,
        "class_names": np.array(class_names),
    }
    if warning:
        arrays["warning"] = np.array(warning)
    np.savez_compressed(out, **arrays)


def _write_folder(out: Path, samples: Synthetic, class_names: tuple[str, ...]) -> None:
    """One folder per class, numbered as the labels are, and labels.csv over all."""
    folders = [f"{i:03d}-{re.sub(r'[^A-Za-z0-9]+', '-', n)}" for i, n in enumerate(class_names)]
    for name in folders:
        (out / name).mkdir(parents=True)
    with (out / "labels.csv").open("w", newline="") as file:
        rows = csv.writer(file)
        rows.writerow(["file", "label", "class"])
        for index, (image, label) in enumerate(zip(samples.images, samples.labels, strict=True)):
            name = f"{folders[label]}/{index:06d}.png"
            pixels = image[0] if len(image) == 1 else image.transpose(1, 2, 0)
            Image.fromarray(pixels).save(out / name)
            rows.writerow([name, int(label), class_names[label]])
