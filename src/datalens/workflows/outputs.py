"""Where samples go: an NPZ, a Parquet table, a contact sheet, or a folder of class folders.

Images are written as they are drawn, so that a million of them need the memory of a thousand; and
under another name until all are there, so that nothing half-written bears the name asked for.
"""

import csv
import io
import json
import re
import zipfile
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from unicodedata import category, normalize

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from datalens.data.tables import arrow
from datalens.errors import DataLensError, brief
from datalens.synthesizers.protocol import Synthetic
from datalens.workflows.pictures import contact_sheet, save_sheet

MOST = 1_000_000_000
"""Samples at once: labels alone are 8 GB, and are held."""
MOST_ON_A_SHEET = 2_000
"""Images on one picture, which is held whole."""
LONGEST_NAME = 60
"""Characters of a class name in a folder's: file systems end at 255 bytes, four to a character."""


@dataclass(frozen=True, kw_only=True)
class Samples:
    """Images that are drawn while they are written."""

    parts: Iterable[Synthetic]
    count: int
    """How many there are in all parts."""
    shape: tuple[int, int, int]
    class_names: tuple[str, ...]
    grain: float = 0.0
    """Share of the model's noise that is painted on them; archives and tables name it."""
    warning: str = ""
    """Where the run was not private; it goes into every form."""


def check_target(out: Path, count: int) -> None:
    """Refuse a target that exists or that we do not know how to write, before any work."""
    kind = out.suffix.lower()
    if kind not in _WRITERS:
        raise DataLensError(
            f"{out} is neither FILE.npz, FILE.parquet, FILE.png nor a folder (whose name must have"
            " no dot)."
        )
    if kind == ".png" and count > MOST_ON_A_SHEET:
        raise DataLensError(
            f"{out} would be a sheet of {count:,} images: name FILE.npz, FILE.parquet or a folder "
            f"for more than {MOST_ON_A_SHEET:,}."
        )
    if count > MOST:
        raise DataLensError(f"--count is at most {MOST:,}, got {count:,}.")
    if kind == ".parquet":
        arrow("pyarrow.parquet")
    if out.exists():
        raise DataLensError(f"{out} exists already; name another place.")


def write_samples(out: Path, samples: Samples) -> None:
    """Write the samples in the form that the target's name asks for, whole or not at all."""
    check_target(out, samples.count)
    try:
        out.parent.mkdir(parents=True, exist_ok=True)
        with TemporaryDirectory(dir=out.parent, prefix=".datalens-") as folder:
            part = Path(folder) / out.name
            _WRITERS[out.suffix.lower()](part, samples)
            part.rename(out)
    except OSError as error:
        raise DataLensError(
            f"{out} cannot be written ({error.strerror or brief(error)})."
        ) from None


def _write_npz(out: Path, samples: Samples) -> None:
    """What `np.savez_compressed` would write, to the byte."""
    labels: list[NDArray[np.int64]] = []
    header = {"descr": "|u1", "fortran_order": False, "shape": (samples.count, *samples.shape)}
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
        with archive.open("images.npy", "w", force_zip64=True) as file:
            np.lib.format.write_array_header_1_0(file, header)
            for part in samples.parts:
                file.write(part.images.tobytes())
                labels.append(part.labels)
        others: dict[str, NDArray[Any]] = {
            "labels": np.concatenate(labels),
            "class_names": np.array(samples.class_names),
            "grain": np.array(samples.grain),
        }
        if samples.warning:
            others["warning"] = np.array(samples.warning)
        for name, array in others.items():
            with archive.open(f"{name}.npy", "w", force_zip64=True) as file:
                np.lib.format.write_array(file, array, allow_pickle=False)


def _write_parquet(out: Path, samples: Samples) -> None:
    """A table as Hugging Face stores images, which says what its columns are."""
    pyarrow, parquet = arrow(), arrow("pyarrow.parquet")
    classes = {"names": list(samples.class_names), "_type": "ClassLabel"}
    features = {"image": {"_type": "Image"}, "label": classes}
    notes = {"huggingface": json.dumps({"info": {"features": features}})}
    notes["grain"] = str(samples.grain)
    notes |= {"warning": samples.warning} if samples.warning else {}
    image = pyarrow.struct([("bytes", pyarrow.binary()), ("path", pyarrow.string())])
    schema = pyarrow.schema([("image", image), ("label", pyarrow.int64())], metadata=notes)
    done = 0
    with parquet.ParquetWriter(out, schema) as writer:
        for part in samples.parts:
            rows = [
                {"bytes": _png(pixels), "path": f"{done + row:06d}.png"}
                for row, pixels in enumerate(part.images)
            ]
            columns = {"image": rows, "label": part.labels}
            writer.write_table(pyarrow.table(columns, schema=schema))
            done += len(rows)


def _write_sheet(out: Path, samples: Samples) -> None:
    columns = max(1, min(20, round(samples.count**0.5)))
    images = np.concatenate([part.images for part in samples.parts])
    save_sheet(contact_sheet(images, columns, caption=samples.warning), out)


def _write_folder(out: Path, samples: Samples) -> None:
    """One folder per class, numbered as the labels are, and labels.csv over all."""
    names = samples.class_names
    folders = class_folders(names)
    for folder in folders:
        (out / folder).mkdir(parents=True)
    index = 0
    with (out / "labels.csv").open("w", newline="", encoding="utf-8") as file:
        rows = csv.writer(file)
        rows.writerow(["file", "label", "class"])
        for part in samples.parts:
            for pixels, label in zip(part.images, part.labels, strict=True):
                name = f"{folders[label]}/{index:06d}.png"
                (out / name).write_bytes(_png(pixels))
                rows.writerow([name, int(label), names[label]])
                index += 1
    if samples.warning:
        (out / "NOT-PRIVATE.txt").write_text(samples.warning + "\n")


def class_folders(names: Sequence[str]) -> list[str]:
    """A folder for each class, in the order of the labels, that bears its name.

    Letters, their marks and digits of any script stay; whatever else there is becomes a hyphen, so
    that no name leads to another place or is refused by a system. Names that become alike are told
    apart by their numbers.
    """
    wide = max(3, len(str(len(names) - 1)))
    return [f"{number:0{wide}d}-{_plain(name)}".rstrip("-") for number, name in enumerate(names)]


def _plain(name: str) -> str:
    kept = [c if category(c)[0] in "LMN" else "-" for c in normalize("NFC", name)]
    return re.sub("-+", "-", "".join(kept))[:LONGEST_NAME].strip("-")


def _png(image: NDArray[np.uint8]) -> bytes:
    """An image (channels, height, width) as a file."""
    content = io.BytesIO()
    pixels = image[0] if len(image) == 1 else image.transpose(1, 2, 0)
    Image.fromarray(pixels).save(content, format="PNG")
    return content.getvalue()


_WRITERS: dict[str, Callable[[Path, Samples], None]] = {
    ".npz": _write_npz,
    ".parquet": _write_parquet,
    ".png": _write_sheet,
    "": _write_folder,
}
