"""CIFAR-10 as its publisher's binary batches, in a folder or in the archive they come in.

The publisher's Python version is pickled, and reading a pickle can run code: it is not read.
"""

import gzip
import tarfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, NamedTuple, cast

import numpy as np
import numpy.typing as npt

from datalens.data.documents import reading
from datalens.data.limits import MAX_BYTES
from datalens.data.records import (
    DECLARED,
    PUBLISHED,
    Keep,
    Positions,
    PublicFacts,
    Records,
    Split,
)
from datalens.data.resizing import resize
from datalens.data.rows import WrongSize, read_rows
from datalens.data.whereabouts import data_folders, first_file
from datalens.errors import DataLensError

CLASS_NAMES = (
    "airplane",
    "automobile",
    "bird",
    "cat",
    "deer",
    "dog",
    "frog",
    "horse",
    "ship",
    "truck",
)
SHAPE = (3, 32, 32)
N_RECORDS: dict[Split, int | None] = {"train": 50_000, "test": 10_000}

_FOLDER, _ARCHIVE = "cifar-10-batches-bin", "cifar-10-binary.tar.gz"
_BATCHES: dict[Split, tuple[str, ...]] = {
    "train": tuple(f"data_batch_{number}.bin" for number in range(1, 6)),
    "test": ("test_batch.bin",),
}
_ROW = 1 + 3 * 32 * 32
"""Bytes of a record: its label, then its pixels as they lie in an image (3, 32, 32)."""

HOW_TO_GET = f"put {_ARCHIVE}, or {_FOLDER}/, into a folder that --data-dir names"

_MOST_MEMBERS, _LARGEST_MEMBER, _LARGEST_SIP = 32, 64 * 2**20, 2**20
"""The archive holds nine files of at most 31 MB. A small archive could claim to hold anything,
and have it unpacked at once."""


def find(data_dir: Path | None) -> str | None:
    """Where it lies."""
    found = _found("train", data_dir)
    return str(_lies_at(found)) if found else None


def files(split: Split, data_dir: Path | None) -> list[Path]:
    """The batches of a split, or the archive."""
    found = _found(split, data_dir)
    if not found:
        raise DataLensError(f"cifar10 is not on this machine: {HOW_TO_GET}.")
    return found


def load(split: Split, data_dir: Path | None, image_size: int | None, keep: Keep | None) -> Records:
    """All records of a split, or those that `keep` names."""
    found = files(split, data_dir)
    with _opened(found) as stored:
        counts = [_count(_named(name, stored)) for name in _BATCHES[split]]
    ahead = PublicFacts.of_array(
        (sum(counts), *SHAPE),
        class_names=CLASS_NAMES,
        name="cifar10",
        image_size=image_size,
        why=PUBLISHED if sum(counts) == N_RECORDS[split] else DECLARED,
    )
    positions = keep(ahead) if keep else None
    rows, start = [], 0
    with _opened(found) as stored:
        for name, count in zip(_BATCHES[split], counts, strict=True):
            wanted = _within(positions, start, start + count)
            rows.append(_rows(_named(name, stored), count, wanted))
            start += count
        labelled = np.concatenate(rows)
        images = np.ascontiguousarray(labelled[:, 1:]).reshape(-1, *SHAPE)
        return Records(
            images=images if image_size is None else resize(images, image_size),
            labels=labelled[:, 0].astype(np.int64),
            public=ahead,
            positions=positions,
        )


class _Batch(NamedTuple):
    name: str
    size: int
    open: Callable[[], IO[bytes]]


def _found(split: Split, data_dir: Path | None) -> list[Path]:
    for root in data_folders(data_dir):
        for folder in (root / _FOLDER, root / "cifar10" / _FOLDER, root / "cifar10"):
            batches = [first_file(folder / name) for name in _BATCHES[split]]
            if all(batches):
                return [batch for batch in batches if batch]
        if archive := first_file(root / _ARCHIVE, root / "cifar10" / _ARCHIVE):
            return [archive]
    return []


def _lies_at(found: list[Path]) -> Path:
    """The folder of batches, or the archive."""
    return found[0].parent if found[0].suffix == ".bin" else found[0]


@contextmanager
def _opened(found: list[Path]) -> Iterator[dict[str, _Batch]]:
    """Batches by name; what goes wrong meanwhile is said of where they lie."""
    with reading(_lies_at(found)), _batches(found) as batches:
        yield batches


@contextmanager
def _batches(found: list[Path]) -> Iterator[dict[str, _Batch]]:
    if found[0].suffix == ".bin":
        yield {
            file.name: _Batch(str(file), file.stat().st_size, lambda file=file: file.open("rb"))  # type: ignore[misc]
            for file in found
        }
        return
    with (
        gzip.open(found[0]) as unpacked,
        tarfile.open(fileobj=_Sips(cast(IO[bytes], unpacked)), mode="r:") as archive,  # type: ignore[call-overload]
    ):
        yield {batch.name: batch for batch in _members(archive)}


def _members(archive: tarfile.TarFile) -> Iterator[_Batch]:
    for _ in range(_MOST_MEMBERS):
        member = archive.next()
        if member is None:
            return
        if member.size > _LARGEST_MEMBER:
            break
        if member.isreg():
            yield _Batch(
                Path(member.name).name,
                member.size,
                lambda member=member: cast(IO[bytes], archive.extractfile(member)),  # type: ignore[misc]
            )
    raise DataLensError("it holds more than CIFAR-10: fetch the file again.")


class _Sips:
    """A stream that is never asked for much at once, whatever an archive's headers say."""

    def __init__(self, stream: IO[bytes]) -> None:
        self._stream = stream
        self.seek, self.tell = stream.seek, stream.tell

    def read(self, size: int) -> bytes:
        if not 0 <= size <= _LARGEST_SIP:
            raise DataLensError("its headers are too long: fetch the file again.")
        return self._stream.read(size)


def _named(name: str, batches: dict[str, _Batch]) -> _Batch:
    if name not in batches:
        raise DataLensError(f"{name} is missing: fetch the archive again.")
    return batches[name]


def _count(batch: _Batch) -> int:
    count, rest = divmod(batch.size, _ROW)
    if rest or not count or batch.size > MAX_BYTES:
        raise DataLensError(
            f"{batch.name} has {batch.size:,} bytes, which is no number of CIFAR-10 records of "
            f"{_ROW:,} bytes: fetch it again."
        )
    return count


def _rows(batch: _Batch, count: int, positions: Positions | None) -> npt.NDArray[np.uint8]:
    try:
        with batch.open() as stream:
            return read_rows(stream, (count, _ROW), np.dtype(np.uint8), positions)
    except WrongSize:
        raise DataLensError(
            f"{batch.name} does not hold the {batch.size:,} bytes that it should: fetch it again."
        ) from None


def _within(positions: Positions | None, start: int, stop: int) -> Positions | None:
    """Which rows of a batch that starts and stops there are wanted."""
    if positions is None:
        return None
    return positions[np.searchsorted(positions, start) : np.searchsorted(positions, stop)] - start
