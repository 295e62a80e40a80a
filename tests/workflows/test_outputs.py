"""Samples in every form: what is written, how much is held meanwhile, and what an end leaves."""

import csv
import io
import math
import tracemalloc
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow
import pytest
from PIL import Image
from pyarrow import parquet

from datalens.data import load
from datalens.errors import DataLensError
from datalens.synthesizers.class_gaussian import ClassGaussian
from datalens.synthesizers.protocol import SAMPLE_CHUNK, Synthetic
from datalens.workflows.commands.samples import _classes
from datalens.workflows.outputs import (
    MOST_ON_A_SHEET,
    Samples,
    check_target,
    class_folders,
    write_samples,
)

NAMES = ("ant, red", "bee", "cow")
COUNT = 2 * SAMPLE_CHUNK + 100


@pytest.fixture(scope="module", params=[1, 3], ids=["grey", "colour"])
def fitted(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> ClassGaussian:
    images = np.random.default_rng(0).integers(0, 256, (60, request.param, 8, 8), dtype=np.uint8)
    with pytest.MonkeyPatch.context() as patch:  # comes before each test's own home
        patch.setenv("DATALENS_HOME", str(tmp_path_factory.mktemp("home")))
        method = ClassGaussian(epsilon=9.0, rank=4)
        return method.fit(images, np.arange(60) % 3, n_classes=3, seed=1)


def samples_of(fitted: ClassGaussian, count: int = COUNT, **more: Any) -> Samples:
    parts = fitted.stream(count, seed=5)
    return Samples(parts=parts, count=count, shape=fitted.shape, class_names=NAMES, **more)


# What is drawn


@pytest.mark.parametrize("labels", [None, [2, 0, 1, 1]])
def test_a_stream_is_the_sample_in_parts(fitted: ClassGaussian, labels: list[int] | None) -> None:
    whole = fitted.sample(COUNT, labels, seed=5)
    parts = list(fitted.stream(COUNT, labels, seed=5))
    assert [len(part.images) for part in parts] == [SAMPLE_CHUNK, SAMPLE_CHUNK, 100]
    assert (np.concatenate([part.images for part in parts]) == whole.images).all()
    assert (np.concatenate([part.labels for part in parts]) == whole.labels).all()
    other = fitted.sample(COUNT, labels, seed=6)
    assert not (other.images == whole.images).all()


def test_no_more_than_a_chunk_is_ever_drawn(
    fitted: ClassGaussian, monkeypatch: pytest.MonkeyPatch
) -> None:
    drawn: list[int] = []
    draw = ClassGaussian._draw

    def counting(self: ClassGaussian, labels: Any, *rest: Any, **more: Any) -> Any:
        drawn.append(len(labels))
        return draw(self, labels, *rest, **more)

    monkeypatch.setattr(ClassGaussian, "_draw", counting)
    parts = fitted.stream(COUNT)
    assert drawn == []  # and none before somebody asks
    next(parts)
    assert drawn == [SAMPLE_CHUNK]


def test_grain_is_painted_on_the_same_images_if_it_is_asked_for(fitted: ClassGaussian) -> None:
    clean, half, whole = (
        fitted.sample(300, seed=5, grain=grain).images.astype(float) for grain in (0, 0.5, 1)
    )
    assert (clean == fitted.sample(300, seed=5).images).all()
    inner = (clean > 64) & (clean < 192)  # where nothing is cut
    strength = [(grained - clean)[inner].std() for grained in (half, whole)]
    assert strength[1] == pytest.approx(2 * strength[0], rel=0.1)
    assert strength[1] == pytest.approx(255 * fitted._model.grain, rel=0.1)


@pytest.mark.parametrize(
    "count, labels, grain",
    [
        (0, None, 0),
        (3, [7], 0),
        (3, [0.5], 0),
        (3, None, -0.1),
        (3, None, 1.1),
        (3, None, math.nan),
    ],
)
def test_bad_requests_are_refused_at_once(
    fitted: ClassGaussian, count: int, labels: Any, grain: float
) -> None:
    with pytest.raises(DataLensError):
        fitted.stream(count, labels, grain=grain)


# What is written


@pytest.mark.parametrize("warning", ["", "NOT PRIVATE: the noise came from a seed."])
def test_npz_is_to_the_byte_what_numpy_writes(
    fitted: ClassGaussian, tmp_path: Path, warning: str
) -> None:
    write_samples(tmp_path / "own.npz", samples_of(fitted, grain=0.25, warning=warning))
    images, labels = fitted.sample(COUNT, seed=5)
    arrays: dict[str, Any] = {"images": images, "labels": labels, "class_names": np.array(NAMES)}
    arrays |= {"grain": np.array(0.25)} | ({"warning": np.array(warning)} if warning else {})
    np.savez_compressed(tmp_path / "numpy.npz", **arrays)
    own, reference = ((tmp_path / name).read_bytes() for name in ("own.npz", "numpy.npz"))
    assert own == reference


def test_a_folder_can_be_read_back(fitted: ClassGaussian, tmp_path: Path) -> None:
    write_samples(tmp_path / "own", samples_of(fitted, 1100, warning="NOT PRIVATE."))
    images, labels = fitted.sample(1100, seed=5)
    with (tmp_path / "own" / "labels.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert [int(row["label"]) for row in rows] == labels.tolist()
    assert {row["class"] for row in rows} == set(NAMES)
    for row, image in zip(rows[::50], images[::50], strict=True):
        with Image.open(tmp_path / "own" / row["file"]) as picture:
            pixels = np.asarray(picture)
        assert (pixels.reshape(8, 8, -1).transpose(2, 0, 1) == image).all()
    assert (tmp_path / "own" / "NOT-PRIVATE.txt").read_text() == "NOT PRIVATE.\n"
    found = load(str(tmp_path / "own"))
    assert (np.sort(found.labels) == np.sort(labels)).all()


def test_class_names_of_any_script_stay(fitted: ClassGaussian, tmp_path: Path) -> None:
    names = ("山", "cafe\u0301 <b>", "../हिन्दी\\..")
    parts = fitted.stream(9, [0, 1, 2], seed=5)
    samples = Samples(parts=parts, count=9, shape=fitted.shape, class_names=names)
    write_samples(tmp_path / "own", samples)
    folders = sorted(path.name for path in (tmp_path / "own").iterdir() if path.is_dir())
    assert folders == ["000-山", "001-café-b", "002-हिन्दी"]
    with (tmp_path / "own" / "labels.csv").open(newline="", encoding="utf-8") as file:
        assert {row["class"] for row in csv.DictReader(file)} == set(names)
    found = load(str(tmp_path / "own"))
    assert found.public.class_names == tuple(folders)
    assert found.labels.tolist() == [0, 0, 0, 1, 1, 1, 2, 2, 2]


def test_a_class_folder_is_one_folder_on_every_system() -> None:
    """Never a path, nor too long, nor empty, nor twice; and labels are in the order of names."""
    odd = ["", ".", "..", "a/b", "a\\b", "a b", "CON", "nul.", "x" * 300, "山" * 300, "\0", "*?:|"]
    for names in (odd, [str(n % 7) for n in range(1200)]):
        folders = class_folders(names)
        assert len({folder.casefold() for folder in folders}) == len(names)
        assert sorted(folders) == folders
        for folder in folders:
            assert len(folder.encode()) < 255 and Path(folder).name == folder
            assert not set(folder) & set('/\\:*?"<>|. \0') and folder[0].isdigit()


def test_parquet_can_be_read_back(fitted: ClassGaussian, tmp_path: Path) -> None:
    samples = samples_of(fitted, 1100, grain=0.25, warning="NOT PRIVATE.")
    write_samples(tmp_path / "own.parquet", samples)
    found = load(str(tmp_path / "own.parquet"))
    images, labels = fitted.sample(1100, seed=5)
    assert (found.images == images).all() and (found.labels == labels).all()
    assert found.public.class_names == NAMES
    table = parquet.read_table(tmp_path / "own.parquet")
    assert table.schema.metadata[b"warning"] == b"NOT PRIVATE."
    assert table.schema.metadata[b"grain"] == b"0.25"
    packed = table.column("image")[1001].as_py()  # as another reader would take it
    assert packed["path"] == "001001.png"
    with Image.open(io.BytesIO(packed["bytes"])) as picture:
        assert (np.asarray(picture).reshape(8, 8, -1).transpose(2, 0, 1) == images[1001]).all()


def test_a_contact_sheet(fitted: ClassGaussian, tmp_path: Path) -> None:
    write_samples(tmp_path / "own.png", samples_of(fitted, 9))
    images = fitted.sample(9, seed=5).images
    with Image.open(tmp_path / "own.png") as picture:
        pixels = np.asarray(picture)[::2, ::2]  # enlarged twice, 3 a row, 2 pixels apart
    assert (pixels[12:20, 22:30].transpose(2, 0, 1) == images[5]).all()


# What is refused


def test_targets_are_checked_before_any_work(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(DataLensError, match=r"FILE\.npz, FILE\.parquet"):
        check_target(tmp_path / "own.csv", 1)
    with pytest.raises(DataLensError, match="exists"):
        check_target(tmp_path, 1)
    check_target(tmp_path / "own.png", MOST_ON_A_SHEET)
    with pytest.raises(DataLensError, match="2,001 images"):
        check_target(tmp_path / "own.png", MOST_ON_A_SHEET + 1)

    def absent(name: str) -> None:
        raise ImportError(name)

    monkeypatch.setattr("datalens.data.tables.import_module", absent)
    with pytest.raises(DataLensError, match=r"pip install 'datalens\[parquet\]'"):
        check_target(tmp_path / "own.parquet", 1)


# What is held, and what is left


def parts_of(count: int, shape: tuple[int, int, int]) -> Iterator[Synthetic]:
    """Of noise, which no form can make small."""
    chance = np.random.default_rng(0)
    for start in range(0, count, SAMPLE_CHUNK):
        n = min(SAMPLE_CHUNK, count - start)
        images = chance.integers(0, 256, (n, *shape), dtype=np.uint8)
        yield Synthetic(images, np.zeros(n, np.int64))


@pytest.mark.parametrize("name", ["own.npz", "own.parquet", "own"])
@pytest.mark.parametrize("at_once", [False, True], ids=["streamed", "control"])
def test_thousands_need_the_memory_of_a_chunk(tmp_path: Path, name: str, at_once: bool) -> None:
    """16,000 images, 65 MB, in less than a third of that; not if held together."""
    count, shape = 16_000, (1, 64, 64)
    usual = pyarrow.default_memory_pool()
    apart = pyarrow.proxy_memory_pool(usual)  # which Python's tracer does not see
    pyarrow.set_memory_pool(apart)
    tracemalloc.start()
    try:
        parts = parts_of(count, shape)
        kept = list(parts) if at_once else parts
        samples = Samples(parts=kept, count=count, shape=shape, class_names=NAMES)
        write_samples(tmp_path / name, samples)
        peak = tracemalloc.get_traced_memory()[1] + apart.max_memory()
    finally:
        tracemalloc.stop()
        pyarrow.set_memory_pool(usual)
    assert (apart.max_memory() > 0) is (name == "own.parquet")
    assert (peak < count * 64 * 64 / 3) is not at_once


@pytest.mark.parametrize("name", ["own.npz", "own.parquet", "own.png", "own"])
@pytest.mark.parametrize("end", [KeyboardInterrupt, DataLensError, OSError])
def test_an_end_leaves_nothing(
    fitted: ClassGaussian, tmp_path: Path, name: str, end: type[BaseException]
) -> None:
    def ending() -> Iterator[Synthetic]:
        yield next(fitted.stream(SAMPLE_CHUNK))
        raise end("in the middle")

    samples = Samples(parts=ending(), count=1500, shape=fitted.shape, class_names=NAMES)
    with pytest.raises(DataLensError if end is OSError else end):
        write_samples(tmp_path / name, samples)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "labels, names, found",
    [
        ("1", ("1", "2", "3"), [0]),  # a name before a number
        ("0, 3", ("1", "2", "3"), [0, 2]),
        ("2,0", ("coat", "bag", "shirt"), [2, 0]),
        ("water, ice, snow", ("forest, field", "water, ice, snow"), [1]),
        ("forest, field,1, water, ice, snow", ("forest, field", "water, ice, snow"), [0, 1, 1]),
    ],
)
def test_classes_by_name_or_number(labels: str, names: tuple[str, ...], found: list[int]) -> None:
    assert _classes(labels, names) == found


def test_an_unknown_class_is_named() -> None:
    with pytest.raises(DataLensError, match=r"no class 'ice'; there are 0 \(fire\), 1 \(snow\)"):
        _classes("snow, ice", ("fire", "snow"))
