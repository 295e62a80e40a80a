"""Scenes laid out as classes of Places365."""

from pathlib import Path

import pytest
from scenes import lay_out

from datalens.data import places365
from datalens.errors import DataLensError

FOLDERS = ("buildings", "forest", "glacier", "mountain", "sea", "street")


def scenes(root: Path) -> Path:
    for split in ("train", "test"):
        for name in FOLDERS:
            (root / split / name).mkdir(parents=True)
            (root / split / name / "1.jpg").write_text(f"{split} {name}")
    return root


def test_scenes_that_fit_are_in_and_others_are_not(tmp_path: Path) -> None:
    out = tmp_path / "out" / "scenes"
    assert lay_out(scenes(tmp_path / "in"), out) == 8
    assert {path.name for path in (out / "train").iterdir()} == set(places365.CLASS_NAMES)
    found = {path.relative_to(out).as_posix(): path.read_text() for path in out.rglob("*.jpg")}
    assert found["train/water, ice, snow/sea-1.jpg"] == "train sea"
    assert found["test/water, ice, snow/glacier-1.jpg"] == "test glacier"
    assert found["test/mountains, hills, desert, sky/mountain-1.jpg"] == "test mountain"
    assert found["train/forest, field, jungle/forest-1.jpg"] == "train forest"
    assert len(found) == 8


def test_nothing_is_overwritten_and_nothing_half_done(tmp_path: Path) -> None:
    root = scenes(tmp_path / "in")
    with pytest.raises(DataLensError, match="exists already"):
        lay_out(root, root)
    (root / "test" / "sea" / "1.jpg").unlink()
    (root / "test" / "sea").rmdir()
    with pytest.raises(DataLensError, match="cannot be read as a folder"):
        lay_out(root, tmp_path / "out")
    assert not (tmp_path / "out").exists()
