"""A rank holds its own records and no others; reading some is reading all and picking them."""

import gzip
import struct
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from datalens.data import Positions, PublicFacts, Records, load
from datalens.data import rows as reading
from datalens.errors import DataLensError
from datalens.synthesizers import METHODS, Synthesizer
from datalens.workflows.fitting import Source

from .linked import linked, together

N, CLASSES = 41, 3
CHANCE = np.random.default_rng(0)
GREY = CHANCE.integers(0, 256, (N, 12, 10), dtype=np.uint8)
COLOUR = CHANCE.integers(0, 256, (N, 12, 10, 3), dtype=np.uint8)
LABELS = CHANCE.integers(0, CLASSES, N)


def npz(folder: Path, images: Any, labels: Any = LABELS) -> str:
    np.savez_compressed(folder / "own.npz", images=images, labels=labels)
    return str(folder / "own.npz")


def pictures(folder: Path) -> str:
    """Grey, colour and turned photographs, which are all 12 high and 10 wide when shown."""
    for index, label in enumerate(LABELS):
        place = folder / "pictures" / f"class-{label}"
        place.mkdir(parents=True, exist_ok=True)
        if index % 3 == 0:
            Image.fromarray(GREY[index]).save(place / f"{index:03d}.png")
        elif index % 3 == 1:
            Image.fromarray(COLOUR[index]).save(place / f"{index:03d}.bmp")
        else:
            exif = Image.Exif()
            exif[0x0112] = 6
            turned = Image.fromarray(COLOUR[index].transpose(1, 0, 2))
            turned.save(place / f"{index:03d}.jpg", exif=exif)
    return str(folder / "pictures")


def idx(folder: Path) -> dict[str, Any]:
    place = folder / "mnist"
    place.mkdir()
    images = struct.pack(">4B3I", 0, 0, 8, 3, N, 12, 10) + GREY.tobytes()
    labels = struct.pack(">4BI", 0, 0, 8, 1, N) + LABELS.astype(np.uint8).tobytes()
    (place / "train-images-idx3-ubyte.gz").write_bytes(gzip.compress(images))
    (place / "train-labels-idx1-ubyte").write_bytes(labels)
    return {"source": "mnist", "data_dir": folder}


SOURCES: dict[str, Any] = {
    "npz": lambda folder: {"source": npz(folder, GREY), "n_classes": CLASSES},
    "npz, colour": lambda folder: {"source": npz(folder, COLOUR), "n_classes": CLASSES},
    "npz, floats": lambda folder: {"source": npz(folder, GREY / 255), "n_classes": CLASSES},
    "npz, by column": lambda folder: {
        "source": npz(folder, np.asfortranarray(GREY)),
        "n_classes": CLASSES,
    },
    "npz, resized": lambda folder: {
        "source": npz(folder, GREY),
        "n_classes": CLASSES,
        "image_size": 9,
    },
    "folder": lambda folder: {"source": pictures(folder)},
    "folder, resized": lambda folder: {"source": pictures(folder), "image_size": 16},
    "idx": idx,
    "idx, resized": lambda folder: {**idx(folder), "image_size": 14},
    "digits": lambda folder: {"source": "digits"},
}


@pytest.mark.parametrize("kind", SOURCES)
def test_reading_some_is_reading_all_and_picking(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reading, "_CHUNK", 500)  # so that a file has several
    source = SOURCES[kind](tmp_path)
    whole = load(**source)
    for wanted in (np.array([0, 7, 8, 30, N - 1]), np.array([], dtype=np.int64), np.arange(N)):
        told: list[PublicFacts] = []

        def keep(
            public: PublicFacts, wanted: Positions = wanted, told: list[PublicFacts] = told
        ) -> Positions:
            told.append(public)
            return wanted

        part = load(**source, keep=keep)
        assert told == [whole.public] and part.public == whole.public
        assert np.array_equal(part.images, whole.images[wanted])
        assert np.array_equal(part.labels, whole.labels[wanted])
        assert part.images.base is None or part.images.base.nbytes <= part.images.nbytes


def test_errors_name_the_record_s_own_position(tmp_path: Path) -> None:
    def keep(public: PublicFacts) -> Positions:
        return np.arange(5, N)

    floats = GREY / 255
    floats[20, 3, 3] = 1.5
    with pytest.raises(DataLensError, match="image 20 holds"):
        load(npz(tmp_path, floats), n_classes=CLASSES, keep=keep)
    labels = LABELS.copy()
    labels[20] = CLASSES
    with pytest.raises(DataLensError, match="position 20 is"):
        load(npz(tmp_path, GREY, labels), n_classes=CLASSES, keep=keep)
    with pytest.raises(DataLensError, match=f"must be {N}, one per image"):
        load(npz(tmp_path, GREY, LABELS[:-1]), n_classes=CLASSES, keep=keep)


VOTING = ("datalens", "pategan")
"""Methods that have teachers."""


def synthesizer(method: str) -> Synthesizer:
    few = {"n_teachers": 8, "block_size": 2, "steps": 3} if method in VOTING else {}
    return METHODS[method](epsilon=3.0, **few)


@pytest.mark.parametrize("method", sorted(m for m in METHODS if METHODS[m].many_ranks))
def test_every_record_is_on_one_rank(tmp_path: Path, method: str) -> None:
    """41 records and 8 teachers: one is left over, and counts in sums, so somebody has it."""
    whole = load(npz(tmp_path, GREY), n_classes=CLASSES)
    source = Source(name=str(tmp_path / "own.npz"), n_classes=CLASSES)
    parts: list[Records] = together(
        linked(3), lambda ranks: source.share(synthesizer(method), ranks, b"s" * 32)
    )
    held = np.concatenate([part.positions for part in parts])
    assert sorted(held) == list(range(N))
    for part in parts:
        assert len(part.images) == len(part.labels) == len(part.positions) < N / 2
        assert np.array_equal(part.images, whole.images[part.positions])


@pytest.mark.parametrize("method", sorted(m for m in METHODS if not METHODS[m].many_ranks))
def test_a_method_of_one_process_says_so(tmp_path: Path, method: str) -> None:
    npz(tmp_path, GREY)
    source = Source(name=str(tmp_path / "own.npz"), n_classes=CLASSES)
    budget = {"epsilon": 3.0} if METHODS[method].private else {}
    few = METHODS[method](**budget, steps=3, batch_size=3)
    for error in together(linked(2), lambda ranks: source.share(few, ranks, b"s" * 32)):
        assert f"{method} runs in one process" in str(error)
