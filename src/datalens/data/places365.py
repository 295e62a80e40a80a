"""Places365 with three of its level-2 classes, from the publisher's folders of scenes.

The paper takes three level-2 classes of the publisher's hierarchy, 120,000 pictures, and names
neither the classes nor the scenes. Ours are the three that are nature out of doors, and of each
the eight scenes that show it most plainly: with at most 5,000 pictures a scene, 120,000 at most.
"""

from pathlib import Path

import numpy as np

from datalens.data.decoding import Picture, decoded
from datalens.data.folders import check_each_is_there_once, visible
from datalens.data.records import Keep, PublicFacts, Records, Split
from datalens.data.resizing import check_image_size
from datalens.data.whereabouts import data_folders, first_folder
from datalens.errors import DataLensError

SCENES = {
    "water, ice, snow": (
        "beach",
        "coast",
        "glacier",
        "iceberg",
        "lake-natural",
        "ocean",
        "river",
        "waterfall",
    ),
    "mountains, hills, desert, sky": (
        "badlands",
        "butte",
        "canyon",
        "cliff",
        "desert-sand",
        "mountain",
        "sky",
        "valley",
    ),
    "forest, field, jungle": (
        "bamboo_forest",
        "corn_field",
        "field-wild",
        "forest-broadleaf",
        "forest_path",
        "hayfield",
        "rainforest",
        "wheat_field",
    ),
}
"""Folders of scenes by the class they belong to."""
CLASS_NAMES = tuple(SCENES)
SIDE = 64
"""Pixels, as in the paper."""
N_RECORDS: dict[Split, int | None] = {"train": None, "test": None}
WHY = "declared public by the user, who passes folders with these scenes and files"

_FOLDER = "places365_standard"
_SPLITS: dict[Split, str] = {"train": "train", "test": "val"}
"""The official test pictures have no published labels."""

HOW_TO_GET = (
    f"unpack places365standard_easyformat.tar, so that {_FOLDER}/train and {_FOLDER}/val lie in a "
    "folder that --data-dir names"
)


def find(data_dir: Path | None) -> str | None:
    """Where it lies."""
    folder = _found("train", data_dir)
    return str(folder.parent) if folder else None


def pictures(split: Split, data_dir: Path | None) -> list[Path]:
    """The files of a split, in the order of the records: class by class, scene by scene."""
    return [file for files in _files(split, data_dir) for file in files]


def load(split: Split, data_dir: Path | None, image_size: int | None, keep: Keep | None) -> Records:
    """All records of a split, or those that `keep` names."""
    size = SIDE if image_size is None else image_size
    check_image_size(size)
    by_class = _files(split, data_dir)
    files = [file for files in by_class for file in files]
    ahead = PublicFacts(
        name="places365",
        n_records=len(files),
        shape=(3, size, size),
        class_names=CLASS_NAMES,
        why=WHY,
    )
    positions = None if keep is None else keep(ahead)
    wanted = np.arange(len(files)) if positions is None else positions
    labels = np.repeat(np.arange(len(by_class)), [len(files) for files in by_class])[wanted]
    stored = [Picture.of_file(files[position]) for position in wanted]
    return Records(
        images=decoded(stored, ahead.shape, size),
        labels=labels.astype(np.int64),
        public=ahead,
        positions=positions,
    )


def _found(split: Split, data_dir: Path | None) -> Path | None:
    roots = data_folders(data_dir)
    return first_folder(
        *(base / _FOLDER / _SPLITS[split] for root in roots for base in (root, root / "places365"))
    )


def _files(split: Split, data_dir: Path | None) -> list[list[Path]]:
    """The files of each class."""
    folder = _found(split, data_dir)
    if folder is None:
        raise DataLensError(f"places365 is not on this machine: {HOW_TO_GET}.")
    by_class = []
    for scenes in SCENES.values():
        for scene in scenes:
            if not (folder / scene).is_dir():
                raise DataLensError(f"{folder} lacks the scene {scene}: unpack the archive again.")
        by_class.append([file for scene in scenes for file in visible(folder / scene)])
    if not any(by_class):
        raise DataLensError(f"{folder} has no pictures: unpack the archive again.")
    check_each_is_there_once([file for files in by_class for file in files])
    return by_class
