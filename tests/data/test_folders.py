"""Folders of class folders of images."""

import errno
import os
import shutil
import struct
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from datalens.data import count, fingerprint, load, load_unlabelled, name_of
from datalens.data.decoding import SHOWN_FAULTS, _on_white
from datalens.errors import DataLensError


def picture(path: Path, *, mode: str = "L", size: tuple[int, int] = (8, 8), value: int = 9) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.new("L", size, value).convert(mode).save(path)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    picture(tmp_path / "pets" / "dog" / "1.png", value=1)
    picture(tmp_path / "pets" / "cat" / "1.png", value=2)
    picture(tmp_path / "pets" / "cat" / "2.png", value=3)
    return tmp_path / "pets"


def test_classes_are_the_sorted_folder_names(folder: Path) -> None:
    records = load(str(folder))
    assert records.public.class_names == ("cat", "dog")
    assert records.public.name == "pets"
    assert records.public.shape == (3, 8, 8)
    assert records.labels.tolist() == [0, 0, 1]
    assert records.images[:, 0, 0, 0].tolist() == [2, 3, 1]


@pytest.mark.parametrize("suffix", ["png", "jpg", "bmp", "gif", "webp", "ppm"])
def test_common_formats(folder: Path, suffix: str) -> None:
    picture(folder / "dog" / f"2.{suffix}", mode="RGB", size=(8, 8), value=100)
    assert abs(int(load(str(folder), channels=3).images[-1].mean()) - 100) <= 1


@pytest.mark.parametrize("coloured", [0, 1, 2, 4])
def test_no_picture_decides_the_colour_of_all(folder: Path, coloured: int) -> None:
    """Whatever the files are: the user's word decides, and without one they are in colour."""
    for number, name in enumerate(["cat/1", "cat/2", "dog/1", "dog/2"]):
        mode = "RGB" if number < coloured else "L"
        picture(folder / f"{name}.png", mode=mode, value=number)
    images = load(str(folder)).images
    assert images[:, :, 0, 0].tolist() == [[number] * 3 for number in range(4)]
    assert (load(str(folder), channels=3).images == images).all()
    grey = load(str(folder), channels=1)
    assert grey.public.shape == (1, 8, 8)
    assert grey.images[:, 0, 0, 0].tolist() == [0, 1, 2, 3]
    with pytest.raises(DataLensError, match=r"channels must be 1 \(grey\) or 3 \(colour\), got 2"):
        load(str(folder), channels=2)


def test_colour_is_declared_of_pictures_alone() -> None:
    with pytest.raises(DataLensError, match="digits is grey or colour as it is"):
        load("digits", channels=3)


def test_a_train_folder_without_a_test_folder_is_asked_about(tmp_path: Path) -> None:
    for split in ("train", "val"):
        for name in ("a", "b"):
            picture(tmp_path / "pets" / split / name / "1.png")
    for split in ("train", "test"):
        with pytest.raises(DataLensError, match=r"pets has train/ but no test/"):
            load(str(tmp_path / "pets"), split=split)  # type: ignore[arg-type]
    assert load(str(tmp_path / "pets" / "train")).public.n_records == 2


@pytest.mark.parametrize("mode", ["L", "LA", "1", "RGB", "RGBA", "P"])
def test_modes(tmp_path: Path, mode: str) -> None:
    for name in ("a", "b"):
        picture(tmp_path / name / "1.png", mode=mode, value=255)
    for channels in (1, 3):
        images = load(str(tmp_path), channels=channels).images
        assert images.shape == (2, channels, 8, 8) and (images == 255).all()


def test_sizes_must_agree_or_be_given(folder: Path) -> None:
    picture(folder / "dog" / "large.png", size=(90, 70))
    with pytest.raises(DataLensError, match=r"large\.png has 70x90 pixels.*--image-size"):
        load(str(folder))
    assert load(str(folder), image_size=16).public.shape == (3, 16, 16)


def test_large_images_name_the_remedy(tmp_path: Path) -> None:
    for name in ("a", "b"):
        picture(tmp_path / name / "1.png", size=(100, 100))
    with pytest.raises(DataLensError, match="--image-size"):
        load(str(tmp_path))


def test_hidden_files_are_skipped(folder: Path) -> None:
    (folder / ".DS_Store").write_bytes(b"x")
    (folder / "cat" / ".thumbnail").write_bytes(b"x")
    (folder / ".git").mkdir()
    for place in (folder, folder / "cat"):
        for name in ("Thumbs.db", "desktop.ini"):
            (place / name).write_bytes(b"x")
    assert len(load(str(folder))) == 3
    assert count(str(folder), image_size=8).n_records == 3
    assert len(load_unlabelled(str(folder), (1, 8, 8))[1]) == 3


@pytest.mark.parametrize(
    "content, said",
    [
        (b"", "is empty: fetch it again, or remove it"),
        (b"words", "is no image of a format that is read: remove it, or save it as PNG"),
        (b"II*\0\x08\0\0\0", "is no image of a format that is read"),
        (b"\x89PNG\r\n\x1a\nIHDR", "is no image of a format that is read"),
    ],
)
def test_files_that_are_no_images_are_named(folder: Path, content: bytes, said: str) -> None:
    (folder / "cat" / "notes.txt").write_bytes(content)
    with pytest.raises(DataLensError, match=rf"notes\.txt {said}"):
        load(str(folder))


def test_forbidden_images_are_named(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As the system refuses them: who runs the tests may read everything."""
    opened = Path.open

    def refuse(path: Path, *given: Any, **named: Any) -> Any:
        if path.name == "2.png":
            raise PermissionError(errno.EACCES, "Permission denied", str(path))
        return opened(path, *given, **named)

    monkeypatch.setattr(Path, "open", refuse)
    with pytest.raises(
        DataLensError, match=r"cat/2\.png cannot be read \(Permission denied\): allow"
    ):
        load(str(folder))


def test_truncated_images_are_named(folder: Path) -> None:
    rng = np.random.default_rng(0)
    file = folder / "cat" / "cut.png"
    Image.fromarray(rng.integers(0, 256, (8, 8), dtype=np.uint8)).save(file)
    file.write_bytes(file.read_bytes()[:-50])
    with pytest.raises(DataLensError, match=r"cut\.png is damaged or cut off: fetch it again"):
        load(str(folder))


@pytest.mark.parametrize("cut", [3, -50])
def test_all_bad_pictures_are_named_at_once(folder: Path, cut: int) -> None:
    """Whether a header is cut off or the pixels behind it: a folder is not mended file by file."""
    rng = np.random.default_rng(0)
    for number in range(SHOWN_FAULTS + 1):
        file = folder / "cat" / f"x{number}.png"
        Image.fromarray(rng.integers(0, 256, (8, 8), dtype=np.uint8)).save(file)
        file.write_bytes(file.read_bytes()[:cut])
    with pytest.raises(DataLensError) as said:
        load(str(folder))
    others = ", ".join(f"{folder}/cat/x{number}.png" for number in range(1, SHOWN_FAULTS))
    assert str(said.value).startswith(f"7 pictures cannot be used. {folder}/cat/x0.png is ")
    assert str(said.value).endswith(f" The others: {others}, ....")
    for number in range(2, SHOWN_FAULTS + 1):
        (folder / "cat" / f"x{number}.png").unlink()
    with pytest.raises(DataLensError, match=r"^2 pictures .* The others: \S+/cat/x1\.png\.$"):
        load(str(folder))
    (folder / "cat" / "x1.png").unlink()
    with pytest.raises(DataLensError, match=rf"^{folder}/cat/x0\.png is "):
        load(str(folder))


def refused(folder: Path) -> str:
    """What both that read pictures and those that count them say of a folder."""
    with pytest.raises(DataLensError) as read:
        load(str(folder))
    with pytest.raises(DataLensError) as counted:
        count(str(folder), image_size=8)
    assert str(read.value) == str(counted.value)
    return str(read.value)


def test_a_folder_among_the_images_is_named(folder: Path) -> None:
    (folder / "cat" / "kittens").mkdir()
    assert f"{folder}/cat/kittens is a folder, and folders within a class are not" in refused(
        folder
    )


def test_a_class_without_images_is_refused(folder: Path) -> None:
    (folder / "emu").mkdir()
    (folder / "emu" / "Thumbs.db").write_bytes(b"x")
    assert f"{folder}/emu has no images" in refused(folder)
    root = folder.parent / "split"
    shutil.copytree(folder, root / "test")
    (folder / "emu").rename(folder.parent / "emu")
    folder.rename(root / "train")
    picture(root / "train" / "emu" / "1.png")
    assert len(load(str(root), split="test")) == 3  # nothing is learned from test images


def test_files_beside_the_class_folders_are_named(folder: Path) -> None:
    picture(folder / "stray.png")
    said = f"{folder} needs one sub-folder per class ({folder}/cat/1.jpg); stray.png lies directly"
    assert said in refused(folder)
    flat = folder.parent / "flat"
    for number in range(1200):
        flat.mkdir(exist_ok=True)
        (flat / f"{number:04}.jpg").touch()
    (flat / "labels.csv").touch()
    assert "(" + str(flat) + "/cat/1.jpg); 0000.jpg and 1,199 others lie directly" in refused(flat)


def test_counting_opens_no_picture(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Names alone: files that hold no picture are counted as they are named."""
    expected = load(str(folder), image_size=16, channels=1).public
    for file in folder.rglob("*.png"):
        file.write_bytes(b"words")
    assert count(str(folder), image_size=16, channels=1) == expected
    monkeypatch.setattr(Path, "open", None)
    root = folder.parent / "faces"
    root.mkdir()
    folder.rename(root / "train")
    (root / "test").mkdir()
    found = count(str(root), image_size=64)
    assert (found.name, found.n_records, found.shape) == ("faces", 3, (3, 64, 64))
    assert found.class_names == ("cat", "dog")
    with pytest.raises(DataLensError, match="give image_size"):
        count(str(root))


@pytest.mark.parametrize(
    "place, name",
    [
        ("faces", "faces"),
        ("faces/train", "faces"),
        ("faces/TRAIN", "faces"),
        ("faces/test", "faces-test"),
        ("faces/data/images", "faces"),
        ("faces/v1.2/train", "v1.2"),
        ("trainees", "trainees"),
    ],
)
def test_data_are_never_named_after_a_folder_that_says_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, place: str, name: str
) -> None:
    for label in ("a", "b"):
        picture(tmp_path / place / label / "1.png")
    assert load(tmp_path / place).public.name == name
    monkeypatch.chdir(tmp_path / place)
    assert load(".").public.name == name
    file = tmp_path / f"{place}.npz"
    np.savez(file, images=np.zeros((2, 8, 8), np.uint8), labels=[0, 1])
    assert load(file, n_classes=2).public.name == (name if "." not in place else "v1.2")


def test_at_the_root_a_name_stays(tmp_path: Path) -> None:
    assert name_of(Path("/data/train")) == "train" and name_of(Path("/train.npz")) == "train"


def test_a_folder_and_its_training_part_are_the_same_data(folder: Path) -> None:
    shutil.copytree(folder, folder.parent / "faces" / "train")
    shutil.copytree(folder, folder.parent / "faces" / "test")
    whole, part = (load(folder.parent / name) for name in ("faces", "faces/train"))
    assert whole.public == part.public
    assert load(folder.parent / "faces" / "test").public.name == "faces-test"


def test_sixteen_bit_images_are_refused(folder: Path) -> None:
    Image.fromarray(np.full((8, 8), 40_000, dtype=np.uint16)).save(folder / "cat" / "deep.png")
    with pytest.raises(DataLensError, match=r"deep\.png has more than 8 bits"):
        load(str(folder))


def deep_png(colour: int, channels: int) -> bytes:
    """8 by 8 pixels of 16 bits a channel, each 4,000: as 8 bits they would be almost black."""

    def chunk(kind: bytes, content: bytes) -> bytes:
        check = struct.pack(">I", zlib.crc32(kind + content))
        return struct.pack(">I", len(content)) + kind + content + check

    header = struct.pack(">IIBBBBB", 8, 8, 16, colour, 0, 0, 0)
    rows = 8 * (b"\0" + 8 * channels * struct.pack(">H", 4_000))
    packed = chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b"")
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + packed


@pytest.mark.parametrize(
    "name, content",
    [
        ("deep.png", deep_png(0, 1)),
        ("deep.png", deep_png(2, 3)),
        ("deep.png", deep_png(4, 2)),
        ("deep.png", deep_png(6, 4)),
        ("deep.ppm", b"P6 8 8 65535\n" + 192 * struct.pack(">H", 4_000)),
        ("deep.ppm", b"P3 8 8 4095\n" + b"4000 " * 192),
        ("deep.pgm", b"P5 8 8 65535\n" + 64 * struct.pack(">H", 4_000)),
    ],
)
def test_nothing_of_more_than_eight_bits_loses_any(folder: Path, name: str, content: bytes) -> None:
    (folder / "cat" / name).write_bytes(content)
    for channels in (1, 3):
        with pytest.raises(DataLensError, match=rf"{name} has more than 8 bits a channel"):
            load(str(folder), channels=channels)


def test_what_is_transparent_is_white(folder: Path) -> None:
    """A black drawing on nothing, in each way that a PNG has of saying so."""
    ink = np.zeros((8, 8), dtype=bool)
    ink[2:5, 1:7] = True
    white = np.where(ink, 0, 255).astype(np.uint8)
    alpha = Image.fromarray(np.where(ink, 255, 0).astype(np.uint8))
    black = Image.new("L", (8, 8), 0)
    kinds = {"LA": Image.merge("LA", (black, alpha))}
    kinds["RGBA"] = Image.merge("RGBA", (black, black, black, alpha))
    kinds["L"] = Image.fromarray(np.where(ink, 0, 7).astype(np.uint8))
    kinds["P"] = Image.fromarray(ink.astype(np.uint8), mode="P")
    kinds["P"].putpalette([9, 9, 9, 0, 0, 0])
    for mode, picture_of in kinds.items():
        place = folder.parent / mode
        named = {"L": {"transparency": 7}, "P": {"transparency": 0}}.get(mode, {})
        for name in ("a", "b"):
            (place / name).mkdir(parents=True)
            picture_of.save(place / name / "1.png", **named)
        images = load(str(place)).images
        assert images.shape[1] == 3
        assert (images == white).all(), mode
    half = Image.merge("LA", (black, Image.new("L", (8, 8), 128)))
    half.save(folder / "cat" / "1.png")
    assert load(str(folder)).images[0, 0, 0, 0] == 127


@pytest.mark.parametrize("most", [20, 50])  # for 64 pixels PIL raises an error, or only warns
def test_decompression_bombs_are_refused(
    folder: Path, monkeypatch: pytest.MonkeyPatch, most: int
) -> None:
    monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", most)
    with pytest.raises(DataLensError, match="too many pixels"):
        load(str(folder))


def test_train_and_test_folders(folder: Path) -> None:
    with pytest.raises(DataLensError, match="no test data"):
        load(str(folder), split="test")
    root = folder.parent / "split"
    root.mkdir()
    folder.rename(root / "train")
    picture(root / "test" / "dog" / "9.png", value=7)
    assert len(load(str(root))) == 3
    tested = load(str(root), split="test")
    assert tested.labels.tolist() == [1]
    assert tested.public.class_names == ("cat", "dog")
    picture(root / "test" / "cow" / "1.png")
    with pytest.raises(DataLensError, match="cow is a class that"):
        load(str(root), split="test")


def test_declared_classes_must_agree(folder: Path) -> None:
    assert load(str(folder), n_classes=2).public.n_classes == 2
    with pytest.raises(DataLensError, match="agree"):
        load(str(folder), n_classes=3)


def test_one_class_and_no_images_are_refused(tmp_path: Path) -> None:
    with pytest.raises(DataLensError, match="no images"):
        load(str(tmp_path))
    picture(tmp_path / "only" / "1.png")
    with pytest.raises(DataLensError, match="has one class folder, only, and two at least"):
        load(str(tmp_path))


def test_a_bad_image_size_is_refused_before_reading(folder: Path) -> None:
    with pytest.raises(DataLensError, match="8 to 64"):
        load(str(folder), image_size=10**6)


@pytest.mark.parametrize("way", ["symbolic", "hard", "folder"])
def test_a_picture_that_is_reached_twice_is_not_two_records(folder: Path, way: str) -> None:
    if way == "folder":
        (folder / "puppy").symlink_to(folder / "dog")
    elif way == "hard":
        (folder / "dog" / "2.png").hardlink_to(folder / "dog" / "1.png")
    else:
        (folder / "dog" / "2.png").symlink_to(folder / "cat" / "1.png")
    with pytest.raises(DataLensError, match=r"is the same file as .*1.png, through a link"):
        load(str(folder))


def test_a_link_to_a_picture_elsewhere_is_one_record(folder: Path, tmp_path: Path) -> None:
    picture(tmp_path / "elsewhere.png", value=7)
    (folder / "dog" / "2.png").symlink_to(tmp_path / "elsewhere.png")
    assert load(str(folder)).images[:, 0, 0, 0].tolist() == [2, 3, 1, 7]


def test_a_file_name_may_be_any_bytes(folder: Path) -> None:
    before = fingerprint(str(folder))
    (folder / "dog" / "1.png").rename(os.fsdecode(os.fsencode(folder) + b"/dog/caf\xe9.png"))
    assert len(load(str(folder)).labels) == 3
    assert fingerprint(str(folder)) != before


@pytest.mark.parametrize("height", [63, 64, 65, 200])
def test_transparency_is_the_same_in_parts(height: int) -> None:
    values = np.random.default_rng(height).integers(0, 256, (height, 9, 4), dtype=np.uint8)
    image = Image.fromarray(values)
    ground = Image.new("RGBA", image.size, (255, 255, 255, 255))
    whole = np.asarray(Image.alpha_composite(ground, image).convert("RGB"))
    assert np.array_equal(np.asarray(_on_white(image, "RGB")), whole)
