"""CelebA's pictures, attributes and partition, as its publisher gives them out."""

import io
import zipfile
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from datalens.data import describe, fingerprint, load
from datalens.errors import DataLensError

pytestmark = pytest.mark.usefixtures("empty_machine")

NAMES = "Bald Black_Hair Blond_Hair Brown_Hair Eyeglasses Male Young"
FACES = {  # part, black, blond, brown, male
    "000001.jpg": (0, 0, 0, 1, 0),
    "000002.jpg": (0, 1, 0, 0, 1),
    "000003.jpg": (1, 1, 0, 0, 1),
    "000004.jpg": (0, 0, 0, 0, 1),
    "000005.jpg": (2, 0, 1, 0, 0),
    "000006.jpg": (0, 0, 1, 1, 0),
    "000007.jpg": (0, 0, 1, 0, 0),
    "000008.jpg": (2, 0, 0, 0, 1),
}


def jpeg(number: int, size: tuple[int, int] = (178, 218)) -> bytes:
    """Red on the left and blue on the right, brighter from face to face."""
    pixels = np.zeros((size[1], size[0], 3), np.uint8)
    pixels[:, : size[0] // 2, 0] = pixels[:, size[0] // 2 :, 2] = 20 * number
    content = io.BytesIO()
    Image.fromarray(pixels).save(content, format="JPEG", quality=95)
    return content.getvalue()


def attributes() -> str:
    rows = [str(len(FACES)), NAMES + " "]
    for file, (_, black, blond, brown, male) in FACES.items():
        marks = (0, black, blond, brown, 1, male, 1)
        rows.append(f"{file} " + " ".join(f"{1 if mark else -1:2d}" for mark in marks))
    return "\r\n".join(rows) + "\r\n"


def lay_out(root: Path, *, zipped: bool = False, apart: bool = False) -> Path:
    """As a flat folder, or in the publisher's own folders."""
    base = root / "celeba"
    img, anno, part = (base / name if apart else base for name in ("Img", "Anno", "Eval"))
    for folder in (img, anno, part):
        folder.mkdir(parents=True, exist_ok=True)
    (anno / "list_attr_celeba.txt").write_text(attributes(), newline="")
    lines = [f"{file} {face[0]}\n" for file, face in FACES.items()]
    (part / "list_eval_partition.txt").write_text("".join(lines))
    pictures = {file: jpeg(number) for number, file in enumerate(FACES, 1)}
    if zipped:
        with zipfile.ZipFile(img / "img_align_celeba.zip", "w", zipfile.ZIP_DEFLATED) as archive:
            archive.mkdir("img_align_celeba")
            for file, content in pictures.items():
                archive.writestr(f"img_align_celeba/{file}", content)
    else:
        (img / "img_align_celeba").mkdir()
        for file, content in pictures.items():
            (img / "img_align_celeba" / file).write_bytes(content)
    return root


@pytest.mark.parametrize("zipped", [False, True])
@pytest.mark.parametrize("apart", [False, True])
def test_faces_are_read_as_published(tmp_path: Path, zipped: bool, apart: bool) -> None:
    root = lay_out(tmp_path / "data", zipped=zipped, apart=apart)
    gender = load("celeba-gender", data_dir=root)
    assert gender.public.class_names == ("female", "male")
    assert gender.labels.tolist() == [0, 1, 1, 0, 0]  # faces 1, 2, 4, 6, 7
    assert load("celeba-gender", split="test", data_dir=root).labels.tolist() == [0, 1]
    hair = load("celeba-hair", data_dir=root)
    assert hair.public.class_names == ("black", "blond", "brown")
    assert hair.labels.tolist() == [2, 0, 1]  # faces 1, 2, 7: of 4 and 6 nobody can tell
    assert load("celeba-hair", split="test", data_dir=root).labels.tolist() == [1]
    assert hair.images.shape == (3, 3, 64, 64)
    # Red and blue stay on their sides, at the brightness of faces 1, 2 and 7.
    assert np.abs(hair.images[:, 0, 30, 10] - [20.0, 40, 140]).max() <= 3
    assert np.abs(hair.images[:, 2, 30, 50] - [20.0, 40, 140]).max() <= 3
    assert hair.images[:, 2, 30, 10].max() <= 3
    assert "declared" in hair.public.why  # eight faces are not what was published


def test_the_whole_picture_is_shrunk(tmp_path: Path) -> None:
    root = lay_out(tmp_path / "data")
    own = load("celeba-gender", data_dir=root, keep=lambda public: np.array([4])).images[0]
    with Image.open(root / "celeba/img_align_celeba/000007.jpg") as picture:
        expected = picture.resize((64, 64), Image.Resampling.BILINEAR)
    assert (own == np.asarray(expected).transpose(2, 0, 1)).all()
    assert load("celeba-gender", data_dir=root, image_size=32).public.shape == (3, 32, 32)


@pytest.mark.parametrize("zipped", [False, True])
def test_only_the_wanted_faces_are_decoded(tmp_path: Path, zipped: bool) -> None:
    root = lay_out(tmp_path / "data", zipped=zipped)
    whole = load("celeba-gender", data_dir=root)
    if not zipped:  # a face that another rank holds may be unreadable to us
        (root / "celeba/img_align_celeba/000002.jpg").write_bytes(b"")
    wanted = np.array([0, 3])
    part = load("celeba-gender", data_dir=root, keep=lambda public: wanted)
    assert (part.images == whole.images[wanted]).all()
    assert (part.labels.tolist(), part.public.n_records) == ([0, 0], 5)


def test_it_says_what_goes_where(tmp_path: Path) -> None:
    with pytest.raises(DataLensError, match=r"img_align_celeba\.zip.*list_eval_partition\.txt"):
        load("celeba-hair")
    root = lay_out(tmp_path / "data")
    assert describe("celeba-hair", root).found == str(root / "celeba")
    assert describe("celeba-hair", root).n_records is None
    assert describe("celeba-gender", root).n_records == 162_770


@pytest.mark.parametrize("zipped", [False, True])
def test_fingerprints(tmp_path: Path, zipped: bool) -> None:
    root = lay_out(tmp_path / "data", zipped=zipped)
    first, other = (fingerprint(name, data_dir=root) for name in ("celeba-gender", "celeba-hair"))
    assert first == fingerprint("celeba-gender", data_dir=root)
    assert (first == other) is zipped  # the same archive, other pictures
    file = root / "celeba" / "list_attr_celeba.txt"
    file.write_text(file.read_text().replace("000001.jpg -1", "000001.jpg  1"))
    assert fingerprint("celeba-gender", data_dir=root) != first


@pytest.mark.parametrize(
    "file, old, new, sentence",
    [
        ("list_attr_celeba.txt", "8\r\n", "9\r\n", "first line is not the number"),
        ("list_attr_celeba.txt", "Male", "Mole", "no attribute Male"),
        ("list_attr_celeba.txt", "000004.jpg", "000002.jpg", "line 6 lists a file for the second"),
        ("list_attr_celeba.txt", "000004.jpg -1", "000004.jpg", "line 6 is not a file name and 7"),
        ("list_attr_celeba.txt", "1  1\r\n000003", "2  1\r\n000003", "line 4 is not a file name"),
        ("list_attr_celeba.txt", "000004.jpg", "00000é.jpg", "line 6 does not begin"),
        ("list_attr_celeba.txt", "000004.jpg", "000009.jpg", "lacks 000004.jpg"),
        ("list_eval_partition.txt", "000004.jpg 0", "000004.jpg 3", "line 4 is not a file name"),
        ("list_eval_partition.txt", "000004.jpg 0", "000004.jpg", "line 4 is not a file name"),
        ("list_eval_partition.txt", "000004.jpg", "000002.jpg", "line 4 lists a file for the sec"),
    ],
)
def test_lists_that_are_wrong_are_named(
    tmp_path: Path, file: str, old: str, new: str, sentence: str
) -> None:
    root = lay_out(tmp_path / "data")
    path = root / "celeba" / file
    content = path.read_bytes().decode()
    assert old in content
    path.write_bytes(content.replace(old, new, 1).encode())
    with pytest.raises(DataLensError, match=sentence) as error:
        load("celeba-gender", data_dir=root)
    assert file in str(error.value)


def test_a_name_in_a_list_is_no_path(tmp_path: Path) -> None:
    """Or a list could have a picture read that lies anywhere."""
    root = lay_out(tmp_path / "data")
    (root / "celeba" / "secret.jpg").write_bytes(jpeg(9))
    for file in ("list_attr_celeba.txt", "list_eval_partition.txt"):
        path = root / "celeba" / file
        path.write_text(path.read_text().replace("000004.jpg", "../secret.jpg"))
    with pytest.raises(DataLensError, match=r"lacks \.\./secret\.jpg"):
        load("celeba-gender", data_dir=root)


def test_pictures_that_are_wrong_are_named(tmp_path: Path) -> None:
    root = lay_out(tmp_path / "data")
    (root / "celeba/img_align_celeba/000004.jpg").write_bytes(b"words")
    with pytest.raises(DataLensError, match=r"000004\.jpg is no image of a format"):
        load("celeba-gender", data_dir=root)
    (root / "celeba/img_align_celeba/000004.jpg").unlink()
    with pytest.raises(DataLensError, match=r"lacks 000004\.jpg"):
        load("celeba-gender", data_dir=root)


def test_archives_that_are_wrong_are_named(tmp_path: Path) -> None:
    root = lay_out(tmp_path / "data", zipped=True)
    file = root / "celeba" / "img_align_celeba.zip"
    whole = file.read_bytes()
    for content in (b"<html>", whole[:-40], whole[:300] + bytes(50) + whole[350:]):
        file.write_bytes(content)
        with pytest.raises(DataLensError, match=r"img_align_celeba\.zip"):
            load("celeba-gender", data_dir=root)
    with zipfile.ZipFile(file, "w", zipfile.ZIP_LZMA) as archive:
        for name in FACES:
            archive.writestr(f"img_align_celeba/{name}", jpeg(1))
    with pytest.raises(DataLensError, match="foreign way"):
        load("celeba-gender", data_dir=root)
