"""Where samples go: an NPZ, a contact sheet, or a folder of class folders."""

import csv
import re
from pathlib import Path

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


def write_samples(out: Path, samples: Synthetic, class_names: tuple[str, ...]) -> None:
    """Write the samples in the form that the target's name asks for."""
    check_target(out)
    try:
        out.parent.mkdir(parents=True, exist_ok=True)
        if out.suffix.lower() == ".npz":
            _write_npz(out, samples, class_names)
        elif out.suffix.lower() == ".png":
            columns = max(1, min(20, round(len(samples.labels) ** 0.5)))
            save_sheet(contact_sheet(samples.images, columns), out)
        else:
            _write_folder(out, samples, class_names)
    except OSError as error:
        raise DataLensError(f"{out} cannot be written ({error.strerror}).") from None


def _write_npz(out: Path, samples: Synthetic, class_names: tuple[str, ...]) -> None:
    part = out.with_name(out.name + ".part")
    with part.open("wb") as file:
        np.savez_compressed(
            file, images=samples.images, labels=samples.labels, class_names=np.array(class_names)
        )
    part.replace(out)


def _write_folder(out: Path, samples: Synthetic, class_names: tuple[str, ...]) -> None:
    """One folder per class, numbered as the labels are, and labels.csv over all."""
    folders = [f"{i:03d}-{re.sub(r'[^A-Za-z0-9]+', '-', n)}" for i, n in enumerate(class_names)]
    part = out.with_name(out.name + ".part")
    for name in folders:
        (part / name).mkdir(parents=True)
    with (part / "labels.csv").open("w", newline="") as file:
        rows = csv.writer(file)
        rows.writerow(["file", "label", "class"])
        for index, (image, label) in enumerate(zip(samples.images, samples.labels, strict=True)):
            name = f"{folders[label]}/{index:06d}.png"
            pixels = image[0] if len(image) == 1 else image.transpose(1, 2, 0)
            Image.fromarray(pixels).save(part / name)
            rows.writerow([name, int(label), class_names[label]])
    part.rename(out)
