"""Scenes laid out as the three classes of `places365`, for a bench without Places365.

    python benchmarks/scenes.py SCENES OUT/scenes
    datalens bench utility --datasets OUT/scenes --epsilons 1,10 --methods all --seeds 1

SCENES has train/ and test/, each with the folders below, as the Intel Image Classification set has
them. Scenes that belong to none of the three classes (buildings, street) are left out. Files are
copied under the name of their scene; the classes are those of datalens.data.places365.
"""

import argparse
import shutil
from pathlib import Path

from datalens.data.folders import visible
from datalens.data.places365 import SCENES
from datalens.errors import DataLensError

LIKE = {
    "forest": "forest-broadleaf",
    "glacier": "glacier",
    "mountain": "mountain",
    "sea": "ocean",
}
"""The scene of Places365 that each is."""


def class_of(scene: str) -> str:
    """The one of the three that it belongs to."""
    return next(name for name, scenes in SCENES.items() if LIKE[scene] in scenes)


def lay_out(scenes: Path, out: Path) -> int:
    """Copy the scenes that fit; how many pictures there are."""
    if out.exists():
        raise DataLensError(f"{out} exists already: name a folder that does not.")
    wanted = {
        file: out / split / class_of(scene) / f"{scene}-{file.name}"
        for split in ("train", "test")
        for scene in LIKE
        for file in visible(scenes / split / scene)
    }
    for file, place in wanted.items():
        place.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(file, place)
    return len(wanted)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("scenes", type=Path)
    parser.add_argument("out", type=Path)
    given = parser.parse_args()
    try:
        print(f"{lay_out(given.scenes, given.out):,} pictures in {given.out}")
    except DataLensError as error:
        parser.error(str(error))


if __name__ == "__main__":
    main()
