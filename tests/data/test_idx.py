"""IDX files are read whole or refused in one sentence."""

import gzip
import struct
from pathlib import Path

import numpy as np
import pytest

from datalens.data.idx import read_idx_images, read_idx_labels
from datalens.errors import DataLensError

IMAGES = np.arange(3 * 8 * 9, dtype=np.uint8).reshape(3, 8, 9)
HEADER = b"\0\0\x08\x03" + struct.pack(">3I", 3, 8, 9)
WHOLE = HEADER + IMAGES.tobytes()


def written(folder: Path, content: bytes) -> Path:
    path = folder / "images"
    path.write_bytes(content)
    return path


@pytest.mark.parametrize("pack", [bytes, gzip.compress])
def test_images_are_read_plain_or_gzipped(tmp_path: Path, pack: type) -> None:
    assert np.array_equal(read_idx_images(written(tmp_path, pack(WHOLE))), IMAGES)


def test_labels_are_read(tmp_path: Path) -> None:
    path = written(tmp_path, b"\0\0\x08\x01" + struct.pack(">I", 3) + b"\x05\x00\x09")
    assert read_idx_labels(path).tolist() == [5, 0, 9]


@pytest.mark.parametrize("pack", [bytes, gzip.compress])
def test_a_file_cut_anywhere_is_refused(tmp_path: Path, pack: type) -> None:
    whole = pack(WHOLE)
    for length in range(len(whole)):
        path = written(tmp_path, whole[:length])
        with pytest.raises(DataLensError, match=str(path)):
            read_idx_images(path)


@pytest.mark.parametrize("pack", [bytes, gzip.compress])
@pytest.mark.parametrize(
    "content, says",
    [
        (WHOLE[:-1], "truncated"),
        (HEADER[:9], "truncated within its header"),
        (WHOLE + b"x", "goes on after"),
        (b"\0\0\x08\x01" + WHOLE[4:], "instead of 00000803"),
        (b"", "starts with nothing"),
        (b"\0\0\x08\x03" + b"\xff" * 12, "truncated"),  # claims 2**96 bytes
        (b"\0\0\x08\x03" + struct.pack(">3I", 2**20, 64, 32), "truncated"),  # claims 2 GiB
    ],
)
def test_bad_content_is_named(tmp_path: Path, content: bytes, says: str, pack: type) -> None:
    with pytest.raises(DataLensError, match=says):
        read_idx_images(written(tmp_path, pack(content)))


@pytest.mark.parametrize("position", [12, 40, -6])
def test_damaged_gzip_is_refused(tmp_path: Path, position: int) -> None:
    packed = bytearray(gzip.compress(WHOLE))
    packed[position] ^= 0xFF
    with pytest.raises(DataLensError):
        read_idx_images(written(tmp_path, bytes(packed)))


def test_garbage_after_gzip_is_refused(tmp_path: Path) -> None:
    with pytest.raises(DataLensError):
        read_idx_images(written(tmp_path, gzip.compress(WHOLE) + b"garbage"))


def test_a_missing_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(DataLensError, match="cannot be read"):
        read_idx_images(tmp_path / "none")
