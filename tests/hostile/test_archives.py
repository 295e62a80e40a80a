"""Small archives and tables that unpack to what no memory holds.

What is bounded, and by what. A picture in an archive or a table is at most 64 MiB as it is stored
(`data.limits.MAX_PACKED`), and a table is read 16 rows at a time. CIFAR-10's archive holds at most
32 files of at most 64 MiB, whose headers are read in sips of at most 1 MiB. Lists have at most
32 MiB.
"""

import gzip
import tarfile
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest
from pyarrow import parquet

from datalens.data import load

from .image_sets import IMAGE_SETS, picture
from .judging import confined

MEBIBYTE = bytes(2**20)
BATCH = "cifar-10-batches-bin/data_batch_1.bin"


def header(size: int, kind: bytes = tarfile.REGTYPE, name: str = BATCH) -> bytes:
    member = tarfile.TarInfo(name)
    member.size, member.type = size, kind
    return member.tobuf(tarfile.GNU_FORMAT)


def mebibytes(head: bytes, count: int) -> Iterator[bytes]:
    yield head
    for _ in range(count):
        yield MEBIBYTE


TARS = {
    "vast member": lambda: [header(2**40)],
    "large member": lambda: mebibytes(header(2**27), 128),
    "long names": lambda: mebibytes(header(2**27, tarfile.GNUTYPE_LONGNAME), 128),
    "long header": lambda: mebibytes(header(2**27, tarfile.XHDTYPE), 128),
    "holes": lambda: [header(2**40, tarfile.GNUTYPE_SPARSE)],
    "many members": lambda: (header(0, name=f"{number}.bin") for number in range(2_000)),
    "zeros": lambda: mebibytes(b"", 128),
    "a member too long": lambda: mebibytes(header(3073 * 10_000), 29),
}


@pytest.mark.parametrize("case", TARS)
def test_cifar10(case: str, tmp_path: Path) -> None:
    file = tmp_path / "cifar-10-binary.tar.gz"
    with gzip.open(file, "wb") as archive:
        for content in TARS[case]():  # type: ignore[no-untyped-call]
            archive.write(content)
    read = lambda: load("cifar10", data_dir=tmp_path)
    assert not confined(read, names=(file.name,), mebibytes=64)


@pytest.mark.parametrize("method", [zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA])
def test_faces_that_unpack_to_more_than_a_picture(method: int, tmp_path: Path) -> None:
    IMAGE_SETS["celeba zip"]["make"](tmp_path)
    file = tmp_path / "celeba" / "img_align_celeba.zip"
    with zipfile.ZipFile(file, "w", method) as archive:
        for number in range(8):
            with archive.open(f"img_align_celeba/{number:06d}.jpg", "w") as face:
                for _ in range(0 if number else 96):
                    face.write(MEBIBYTE)
    read = lambda: load("celeba-gender", data_dir=tmp_path)
    assert not confined(read, names=(file.name,), mebibytes=2 * 64 + 16)


@pytest.mark.parametrize("name", ["list_attr_celeba.txt", "list_eval_partition.txt"])
@pytest.mark.parametrize("content", [b"\n", b"x 0\n", b"\0"])
def test_lists_without_end(name: str, content: bytes, tmp_path: Path) -> None:
    IMAGE_SETS["celeba zip"]["make"](tmp_path)
    file = tmp_path / "celeba" / name
    file.write_bytes(content * (2 * 2**20 // len(content)))
    read = lambda: load("celeba-gender", data_dir=tmp_path)
    assert not confined(read, names=(name,), mebibytes=64)
    with file.open("wb") as hole:
        hole.truncate(2**40)
    assert not confined(read, names=(name,), mebibytes=64)


@pytest.mark.parametrize("rows, bounded", [(16, True), (160, False)])
def test_a_table_that_repeats_a_large_picture(
    rows: int, bounded: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The second is the control. Arrow's own count of its memory: it does not like to be forked."""
    packed = picture(0, "PNG") + MEBIBYTE  # after a picture's end nobody looks
    table = pa.table({"image": [packed] * 160, "label": [0, 1] * 80})
    parquet.write_table(table, tmp_path / "own.parquet", use_dictionary=True)
    assert (tmp_path / "own.parquet").stat().st_size < 2**20
    monkeypatch.setattr("datalens.data.tables._ROWS", rows)
    before = pa.default_memory_pool()
    counted = pa.proxy_memory_pool(before)
    pa.set_memory_pool(counted)
    try:
        load(str(tmp_path / "own.parquet"), n_classes=2, image_size=8)
    finally:
        pa.set_memory_pool(before)
    assert (counted.max_memory() < 80 * 2**20) is bounded
