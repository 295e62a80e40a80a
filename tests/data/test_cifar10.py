"""CIFAR-10's binary batches, in a folder and in the archive they are published in."""

import io
import tarfile
from pathlib import Path

import numpy as np
import pytest

from datalens.data import describe, fingerprint, load
from datalens.errors import DataLensError

pytestmark = pytest.mark.usefixtures("empty_machine")

FILES = [*(f"data_batch_{number}.bin" for number in range(1, 6)), "test_batch.bin"]
CHANCE = np.random.default_rng(0)
ROWS = {
    name: CHANCE.integers(0, 256, (4 + number, 3073), dtype=np.uint8)
    for number, name in enumerate(FILES)
}
for rows in ROWS.values():
    rows[:, 0] %= 10
TRAIN = np.concatenate([ROWS[name] for name in FILES[:5]])


def lay_out(root: Path, folder: str = "cifar-10-batches-bin") -> Path:
    (root / folder).mkdir(parents=True)
    for name, rows in ROWS.items():
        (root / folder / name).write_bytes(rows.tobytes())
    return root


def pack(root: Path, contents: dict[str, bytes] | None = None) -> Path:
    """As published: all in one folder of the archive, in no order of ours."""
    contents = contents or {name: rows.tobytes() for name, rows in ROWS.items()}
    root.mkdir(parents=True, exist_ok=True)
    with tarfile.open(root / "cifar-10-binary.tar.gz", "w:gz") as archive:
        for name in ("batches.meta.txt", *reversed(contents)):
            content = contents.get(name, b"airplane\n")
            member = tarfile.TarInfo(f"cifar-10-batches-bin/{name}")
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))
    return root


@pytest.mark.parametrize("how", ["cifar-10-batches-bin", "cifar10", "archive"])
def test_records_are_read_as_published(tmp_path: Path, how: str) -> None:
    root = tmp_path / "data"
    root = pack(root) if how == "archive" else lay_out(root, how)
    records = load("cifar10", data_dir=root)
    assert records.labels.tolist() == TRAIN[:, 0].tolist()
    # Row 7, blue, line 3, column 5: after the label, two planes and three lines.
    assert records.images[7, 2, 3, 5] == TRAIN[7, 1 + 2 * 1024 + 3 * 32 + 5]
    assert (records.images.reshape(-1, 3072) == TRAIN[:, 1:]).all()
    assert records.public.class_names[6] == "frog"
    assert "declared" in records.public.why  # 30 records are not what was published
    test = load("cifar10", split="test", data_dir=root)
    assert test.labels.tolist() == ROWS["test_batch.bin"][:, 0].tolist()
    assert load("cifar10", data_dir=root, image_size=16).public.shape == (3, 16, 16)


@pytest.mark.parametrize("packed", [False, True])
def test_only_the_wanted_records_are_held(tmp_path: Path, packed: bool) -> None:
    root = pack(tmp_path / "data") if packed else lay_out(tmp_path / "data")
    wanted = np.array([0, 3, 4, 8, 9, 29])  # at the edges of batches, and none of one
    part = load("cifar10", data_dir=root, keep=lambda public: wanted)
    assert (part.images.reshape(-1, 3072) == TRAIN[wanted, 1:]).all()
    assert part.labels.tolist() == TRAIN[wanted, 0].tolist()
    assert part.public.n_records == 30


def test_it_says_where_it_was_found(tmp_path: Path) -> None:
    assert describe("cifar10").found is None
    with pytest.raises(DataLensError, match=r"put cifar-10-binary\.tar\.gz"):
        load("cifar10")
    root = pack(tmp_path / "data")
    assert describe("cifar10", root).found == str(root / "cifar-10-binary.tar.gz")
    lay_out(root)
    assert describe("cifar10", root).found == str(root / "cifar-10-batches-bin")


def test_a_fingerprint_sees_every_byte(tmp_path: Path) -> None:
    root = lay_out(tmp_path / "data")
    before = fingerprint("cifar10", data_dir=root)
    file = root / "cifar-10-batches-bin" / FILES[4]
    file.write_bytes(file.read_bytes()[:-1] + b"\0")
    assert fingerprint("cifar10", data_dir=root) != before
    assert fingerprint("cifar10", split="test", data_dir=root) != before


@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize(
    "content, sentence",
    [
        (b"", "data_batch_2.bin has 0 bytes"),
        (bytes(3072), "data_batch_2.bin has 3,072 bytes"),
        (b"\x0b" + bytes(3072), "the label at position 4 is 11"),
    ],
)
def test_damaged_batches_are_named(
    tmp_path: Path, packed: bool, content: bytes, sentence: str
) -> None:
    contents = {name: rows.tobytes() for name, rows in ROWS.items()} | {FILES[1]: content}
    if packed:
        root = pack(tmp_path / "data", contents)
    else:
        root = lay_out(tmp_path / "data")
        (root / "cifar-10-batches-bin" / FILES[1]).write_bytes(content)
    with pytest.raises(DataLensError, match=sentence) as error:
        load("cifar10", data_dir=root)
    assert "cifar-10-b" in str(error.value)


def test_other_archives_are_refused(tmp_path: Path) -> None:
    contents = {name: rows.tobytes() for name, rows in ROWS.items()}
    root = pack(tmp_path / "data", {n: c for n, c in contents.items() if n != FILES[2]})
    with pytest.raises(DataLensError, match=r"data_batch_3\.bin is missing"):
        load("cifar10", data_dir=root)
    pack(root, contents | {f"extra-{number}": b"x" for number in range(32)})
    with pytest.raises(DataLensError, match="more than CIFAR-10"):
        load("cifar10", data_dir=root)
    (root / "cifar-10-binary.tar.gz").write_bytes(b"<html>")
    with pytest.raises(DataLensError, match=r"cifar-10-binary\.tar\.gz cannot be read"):
        load("cifar10", data_dir=root)
