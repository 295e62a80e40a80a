"""Places365's folders of scenes, brought together into three classes."""

from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from datalens.data import describe, fingerprint, load
from datalens.data.places365 import SCENES
from datalens.errors import DataLensError

pytestmark = pytest.mark.usefixtures("empty_machine")


def picture(path: Path, value: int, mode: str = "RGB") -> None:
    Image.new("L", (256, 256), value).convert(mode).save(path)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """One picture of each of our scenes, two of the first, and a scene that is not ours."""
    for part in ("train", "val"):
        folder = tmp_path / "data" / "places365_standard" / part
        for number, scene in enumerate([s for scenes in SCENES.values() for s in scenes]):
            (folder / scene).mkdir(parents=True)
            picture(folder / scene / "00000001.jpg", 10 * number)
        (folder / "airfield").mkdir()
        picture(folder / "airfield" / "00000001.jpg", 255)
    picture(tmp_path / "data/places365_standard/train/beach/00000002.jpg", 250, "L")
    return tmp_path / "data"


def test_scenes_become_classes(root: Path) -> None:
    train, test = (load("places365", split=s, data_dir=root) for s in ("train", "test"))  # type: ignore[arg-type]
    assert train.public.class_names == tuple(SCENES)
    assert train.labels.tolist() == [0] * 9 + [1] * 8 + [2] * 8
    assert test.labels.tolist() == [0] * 8 + [1] * 8 + [2] * 8
    assert train.images.shape == (25, 3, 64, 64)
    shown = [0, 250, *range(10, 240, 10)]  # a grey file is shown in colour
    assert np.abs(train.images[:, :, 5, 5] - np.array(shown)[:, None]).max() <= 1
    assert "declared" in train.public.why
    assert load("places365", data_dir=root, image_size=32).public.shape == (3, 32, 32)


def test_every_scene_has_one_class() -> None:
    scenes = [scene for scenes in SCENES.values() for scene in scenes]
    assert len(scenes) == len(set(scenes)) == 24


def test_only_the_wanted_pictures_are_decoded(root: Path) -> None:
    (root / "places365_standard/train/coast/00000001.jpg").write_bytes(b"")
    wanted = np.array([0, 9, 24])
    part = load("places365", data_dir=root, keep=lambda public: wanted)
    assert part.labels.tolist() == [0, 1, 2]
    assert np.abs(part.images[:, 0, 5, 5] - [0.0, 80, 230]).max() <= 1
    assert part.public.n_records == 25
    with pytest.raises(DataLensError, match=r"coast/00000001\.jpg is empty"):
        load("places365", data_dir=root)


def test_what_is_missing_is_named(root: Path) -> None:
    with pytest.raises(DataLensError, match=r"places365standard_easyformat\.tar"):
        load("places365")
    assert describe("places365").found is None
    assert describe("places365", root).found == str(root / "places365_standard")
    (root / "places365_standard/train/sky").rename(root / "sky")
    with pytest.raises(DataLensError, match="lacks the scene sky"):
        load("places365", data_dir=root)


def test_a_fingerprint_sees_names_and_sizes(root: Path) -> None:
    before = fingerprint("places365", data_dir=root)
    picture(root / "places365_standard/train/airfield/00000002.jpg", 9)
    assert fingerprint("places365", data_dir=root) == before
    picture(root / "places365_standard/train/sky/00000002.jpg", 9)
    assert fingerprint("places365", data_dir=root) != before
