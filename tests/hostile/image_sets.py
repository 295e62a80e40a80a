"""Published sets of colour images, and tables of images, in small: whole files to break."""

import io
import tarfile
import zipfile
from collections.abc import Callable
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from datalens.data import load

from .containers import of_packed
from .mutations import of_bytes, of_head

PIXELS = np.random.default_rng(1).integers(0, 256, (10, 3, 32, 32), dtype=np.uint8)


def picture(number: int, kind: str) -> bytes:
    content = io.BytesIO()
    Image.fromarray(PIXELS[number].transpose(1, 2, 0)).save(content, format=kind)
    return content.getvalue()


def _cifar10(packed: bool, folder: Path) -> None:
    names = [*(f"data_batch_{number}.bin" for number in range(1, 6)), "test_batch.bin"]
    (folder / "cifar-10-batches-bin").mkdir()
    for number, name in enumerate(names):
        content = bytes([number]) + PIXELS[number].tobytes()
        (folder / "cifar-10-batches-bin" / name).write_bytes(content)
    if packed:
        with tarfile.open(folder / "cifar-10-binary.tar.gz", "w:gz") as archive:
            archive.add(folder / "cifar-10-batches-bin", "cifar-10-batches-bin")
        for name in names:
            (folder / "cifar-10-batches-bin" / name).unlink()


def _celeba(packed: bool, folder: Path) -> None:
    base = folder / "celeba"
    (base / "img_align_celeba").mkdir(parents=True)
    files = [f"{number:06d}.jpg" for number in range(8)]
    lines = [f"{file} {' 1' if i % 2 else '-1'} -1" for i, file in enumerate(files)]
    (base / "list_attr_celeba.txt").write_text("\n".join(["8", "Male Young ", *lines]) + "\n")
    (base / "list_eval_partition.txt").write_text("".join(f"{file} 0\n" for file in files))
    for number, file in enumerate(files):
        (base / "img_align_celeba" / file).write_bytes(picture(number, "JPEG"))
    if packed:
        with zipfile.ZipFile(base / "img_align_celeba.zip", "w", zipfile.ZIP_DEFLATED) as archive:
            for file in files:
                archive.write(base / "img_align_celeba" / file, f"img_align_celeba/{file}")
                (base / "img_align_celeba" / file).unlink()
        (base / "img_align_celeba").rmdir()


def _table(folder: Path) -> Any:
    import pyarrow as pa

    rows = [{"bytes": picture(number, "PNG"), "path": f"{number}.png"} for number in range(10)]
    note = {"huggingface": '{"info": {"features": {"label": {"names": ["ant", "bee"]}}}}'}
    columns = {"image": rows, "label": np.arange(10) % 2}
    return pa.table(columns).replace_schema_metadata(note)


def _parquet(folder: Path) -> None:
    from pyarrow import parquet

    parquet.write_table(_table(folder), folder / "own.parquet", row_group_size=4)


def _saved(folder: Path) -> None:
    import pyarrow as pa

    (folder / "pets").mkdir()
    table = _table(folder)
    with (
        pa.OSFile(str(folder / "pets" / "data.arrow"), "wb") as sink,
        pa.ipc.new_stream(sink, table.schema) as writer,
    ):
        writer.write_table(table, max_chunksize=4)
    (folder / "pets" / "state.json").write_text('{"_data_files": [{"filename": "data.arrow"}]}')


def _load(name: str, folder: Path) -> object:
    return load(name, data_dir=folder, image_size=9)


def _load_path(name: str, folder: Path) -> object:
    return load(str(folder / name), image_size=9)


def _reader(
    make: Callable[[Path], None],
    file: str,
    mutate: Callable[[bytes, int], bytes],
    read: Callable[[Path], object],
    also: tuple[str, ...] = (),
) -> dict[str, Any]:
    return {"make": make, "file": file, "mutate": mutate, "read": read, "also": also}


_ARCHIVE = "cifar-10-binary.tar.gz"
_FACES = partial(_load, "celeba-gender")
_LISTS = ("list_attr_celeba.txt", "list_eval_partition.txt", "img_align_celeba", "celeba-gender")

IMAGE_SETS = {
    "cifar10": _reader(
        partial(_cifar10, False),
        "cifar-10-batches-bin/data_batch_2.bin",
        of_head,
        partial(_load, "cifar10"),
        ("cifar-10-batches-bin",),
    ),
    "cifar10 gzip": _reader(partial(_cifar10, True), _ARCHIVE, of_bytes, partial(_load, "cifar10")),
    "cifar10 tar": _reader(
        partial(_cifar10, True),
        _ARCHIVE,
        partial(of_packed, length=2048),
        partial(_load, "cifar10"),
    ),
    "celeba zip": _reader(
        partial(_celeba, True), "celeba/img_align_celeba.zip", of_bytes, _FACES, _LISTS
    ),
    **{
        f"celeba {file}": _reader(
            partial(_celeba, False), f"celeba/{file}", of_bytes, _FACES, _LISTS
        )
        for file in ("list_attr_celeba.txt", "list_eval_partition.txt")
    },
}
"""By name, what `Reader` takes."""

if find_spec("pyarrow"):  # the optional part
    IMAGE_SETS |= {
        "parquet": _reader(_parquet, "own.parquet", of_bytes, partial(_load_path, "own.parquet")),
        "arrow": _reader(
            _saved, "pets/data.arrow", of_bytes, partial(_load_path, "pets"), ("pets",)
        ),
    }
