"""NPZ archives: round trips, and everything that can be wrong with one."""

import contextlib
import io
import time
import zipfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from datalens.data import load
from datalens.errors import DataLensError

IMAGES = np.arange(4 * 64, dtype=np.uint8).reshape(4, 8, 8)
LABELS = np.array([0, 1, 1, 0])


def saved(folder: Path, **arrays: object) -> str:
    path = folder / "own.npz"
    np.savez_compressed(path, **arrays)  # type: ignore[arg-type]
    return str(path)


def npy(header: str, content: bytes = b"") -> bytes:
    """An array file by hand, so that its header can lie."""
    return b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header.encode() + content


def zipped(folder: Path, **members: bytes) -> str:
    path = folder / "own.npz"
    with zipfile.ZipFile(path, "w") as archive:
        for name, content in members.items():
            archive.writestr(f"{name}.npy", content)
    return str(path)


def test_round_trip(tmp_path: Path) -> None:
    records = load(saved(tmp_path, images=IMAGES, labels=LABELS), n_classes=2)
    assert np.array_equal(records.images[:, 0], IMAGES)
    assert np.array_equal(records.labels, LABELS)
    assert records.public.name == "own"


def test_threads_read_headers_one_at_a_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Python 3.11.7 told one in some thousands of them that a sound archive was none."""
    path, within, most = saved(tmp_path, images=IMAGES, labels=LABELS), 0, 0
    parse = np.lib.format.read_array_header_1_0

    def counted(stream: Any) -> Any:
        nonlocal within, most
        within += 1
        most = max(most, within)
        time.sleep(0.01)
        found = parse(stream)
        within -= 1
        return found

    monkeypatch.setattr(np.lib.format, "read_array_header_1_0", counted)
    with ThreadPoolExecutor(4) as pool:
        read = list(pool.map(lambda _: load(path, n_classes=2), range(4)))
    assert most == 1 and all(np.array_equal(each.labels, LABELS) for each in read)


def test_column_order_is_kept(tmp_path: Path) -> None:
    path = saved(tmp_path, images=np.asfortranarray(IMAGES), labels=LABELS)
    assert np.array_equal(load(path, n_classes=2).images[:, 0], IMAGES)


def test_class_names_declare_classes(tmp_path: Path) -> None:
    path = saved(tmp_path, images=IMAGES, labels=LABELS, class_names=["cat", "dog"])
    assert load(path).public.class_names == ("cat", "dog")
    with pytest.raises(DataLensError, match="agree"):
        load(path, n_classes=3)


def test_classes_are_never_counted(tmp_path: Path) -> None:
    with pytest.raises(DataLensError, match="--classes"):
        load(saved(tmp_path, images=IMAGES, labels=LABELS))


def test_images_are_resized_before_their_size_is_judged(tmp_path: Path) -> None:
    path = saved(tmp_path, images=np.zeros((4, 100, 80, 3), dtype=np.uint8), labels=LABELS)
    assert load(path, n_classes=2, image_size=32).public.shape == (3, 32, 32)
    with pytest.raises(DataLensError, match="--image-size"):
        load(path, n_classes=2)


def test_test_split(tmp_path: Path) -> None:
    arrays = {"images": IMAGES, "labels": LABELS, "class_names": ["a", "b"]}
    with pytest.raises(DataLensError, match="separate file"):
        load(saved(tmp_path, **arrays), split="test")
    path = saved(tmp_path, **arrays, test_images=IMAGES[:1], test_labels=LABELS[:1])
    assert len(load(path, split="test")) == 1


@pytest.mark.parametrize("missing", ["images", "labels"])
def test_missing_arrays_are_named(tmp_path: Path, missing: str) -> None:
    arrays = {"images": IMAGES, "labels": LABELS}
    del arrays[missing]
    with pytest.raises(DataLensError, match=f"no array {missing}"):
        load(saved(tmp_path, **arrays), n_classes=2)


@pytest.mark.parametrize("names", [[1, 2], [["a", "b"]], "ab", [b"a", b"b"]])
def test_class_names_must_be_strings(tmp_path: Path, names: object) -> None:
    with pytest.raises(DataLensError, match="array of strings"):
        load(saved(tmp_path, images=IMAGES, labels=LABELS, class_names=names))


def test_pickles_are_never_opened(tmp_path: Path) -> None:
    path = saved(tmp_path, images=np.array([print, {}], dtype=object), labels=LABELS)
    with pytest.raises(DataLensError, match="run code"):
        load(path, n_classes=2)


@pytest.mark.parametrize(
    "images, says",
    [
        (npy("{'descr': '|u1', 'fortran_order': False, 'shape': (1000000000000, 8, 8)}"), "most"),
        (npy("{'descr': '|u1', 'fortran_order': False, 'shape': (-1, 8, 8)}"), "most"),
        (npy("{'descr': '|u1', 'fortran_order': False, 'shape': (4, 8, 8)}", b"x"), "announces"),
        (npy("{'descr': '|u1', 'fortran_order': False, 'shape': (0, 8, 8)}", b"x"), "no records"),
        (npy("{'descr': '|u1', 'fortran_order': False, 'shape': ()}", b"x"), "shape"),
        (npy("{'descr': '|V0', 'fortran_order': False, 'shape': (4,)}"), "shape"),
        (npy("{'descr': 'nonsense', 'fortran_order': False, 'shape': (4,)}"), "NPZ"),
        (npy("(" * 5000), "NPZ"),
        (b"\x93NUMPY\x02\x00\xff\xff\xff\xff", "plain array"),
        (b"", "NPZ"),
    ],
)
def test_headers_that_lie_are_refused(tmp_path: Path, images: bytes, says: str) -> None:
    labels = io.BytesIO()
    np.save(labels, LABELS)
    with pytest.raises(DataLensError, match=says):
        load(zipped(tmp_path, images=images, labels=labels.getvalue()), n_classes=2)


def test_a_file_cut_or_damaged_anywhere_is_refused(tmp_path: Path) -> None:
    path = Path(saved(tmp_path, images=IMAGES, labels=LABELS))
    whole = path.read_bytes()
    for position in range(0, len(whole), 7):
        path.write_bytes(whole[:position])
        with pytest.raises(DataLensError):
            load(str(path), n_classes=2)
        damaged = bytearray(whole)
        damaged[position] ^= 0x55
        path.write_bytes(damaged)
        # Bytes that mean nothing may change; anything else is refused, and never by a traceback.
        with contextlib.suppress(DataLensError):
            assert np.array_equal(load(str(path), n_classes=2).images[:, 0], IMAGES)
