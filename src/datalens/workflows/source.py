"""Where the records of a command come from."""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

from datalens.data import (
    Keep,
    NoTestSplit,
    PublicFacts,
    Records,
    Split,
    count,
    fingerprint,
    holds_pictures,
    is_folder,
    is_two_things,
    load,
)
from datalens.ensemble import Ranks
from datalens.errors import DataLensError
from datalens.synthesizers.learner import AnyLearner

FOLDER_SIZE = 64
"""As the paper has colour images. It is published, so it is chosen without a look at the pictures:
whatever is read from them (one odd size among equal ones) could tell of a single record."""


class Tested(NamedTuple):
    """Real records to test on."""

    records: Records
    whole: bool
    """Whether they are all there are, for want of a test split."""


@dataclass(frozen=True, kw_only=True)
class Source:
    """Where the records come from."""

    name: str
    data_dir: Path | None = None
    image_size: int | None = None
    """Pixels a side, as the user says."""
    n_classes: int | None = None
    colour: bool | None = None
    """Whether pictures in files or a table are read in colour, as the user says."""
    folder_size: int | None = FOLDER_SIZE
    """Pixels a side of a folder's pictures where the user says nothing; None: their own."""
    usual_channels: int | None = None
    """Those of pictures where the user says nothing; None: colour, whatever the pictures are."""

    def __post_init__(self) -> None:
        if is_two_things(self.name, self.data_dir):
            raise DataLensError(
                f"{self.name} is a data set by name, and here also a folder: say ./{self.name} for"
                " the folder, or go elsewhere for the data set."
            )

    @property
    def options(self) -> list[str]:
        """How the command line was told, beside the name, word by word."""
        told = {
            "--data-dir": self.data_dir,
            "--image-size": self.image_size,
            "--classes": self.n_classes,
        }
        given = {name: str(value) for name, value in told.items() if value is not None}
        shade = {None: [], True: ["--colour"], False: ["--grey"]}[self.colour]
        return [word for pair in given.items() for word in pair] + shade

    @property
    def size(self) -> int | None:
        """What images are brought to; None where they stay as they are."""
        if self.image_size is None and is_folder(self.name):
            return self.folder_size
        return self.image_size

    @property
    def channels(self) -> int | None:
        """1 or 3, as was said, or as a run has; None where nothing was."""
        if self.colour is None:
            return self.usual_channels if holds_pictures(self.name) else None
        return 3 if self.colour else 1

    @property
    def assumed(self) -> str:
        """How pictures are read where the user says nothing: one sentence, or none."""
        said = []
        if holds_pictures(self.name) and self.channels is None:
            said.append("read in colour (--grey reads them in grey)")
        if self.size != self.image_size:
            said.append(f"brought to {self.size}x{self.size} pixels (--image-size takes another)")
        return f"Pictures are {' and '.join(said)}." if said else ""

    def check_outside(self, out: Path) -> None:
        """Refuse to write among a folder's pictures, where the run would count as a class."""
        if is_folder(self.name) and out.resolve().is_relative_to(Path(self.name).resolve()):
            raise DataLensError(
                f"{out} lies in {self.name}, whose folders are classes; name an --out elsewhere."
            )

    def as_in(self, config: dict[str, Any]) -> "Source":
        """With pictures of the size and colour that a run has, by its configuration."""
        channels, height, width = config["data"]["shape"]
        size = height if height == width else None
        return replace(self, folder_size=size, usual_channels=channels)

    def as_started(self, config: dict[str, Any]) -> "Source":
        """As a run had it that goes on: with the size its images were brought to, whatever from."""
        there = self.as_in(config)
        return replace(there, image_size=self.image_size or there.folder_size)

    def records(self, split: Split = "train", keep: Keep | None = None) -> Records:
        return load(
            self.name,
            split=split,
            data_dir=self.data_dir,
            image_size=self.size,
            n_classes=self.n_classes,
            channels=self.channels,
            keep=keep,
        )

    def count(self) -> PublicFacts:
        """What is public of a folder or an NPZ file, without reading an image or a label."""
        return count(
            self.name, image_size=self.size, n_classes=self.n_classes, channels=self.channels
        )

    def share(self, learner: AnyLearner, ranks: Ranks, secret: bytes) -> Records:
        """The records of this rank, once it is clear that all ranks have the same data."""
        if ranks.size == 1:
            return self.records()
        ranks.agree("the data", fingerprint(self.name, data_dir=self.data_dir)[:16])
        records = self.records(keep=lambda public: learner.share(public, ranks, secret))
        ranks.agree("what is public about the data", str(records.public))
        return records

    def fingerprint(self) -> bytes:
        """Of the files that the records come from: never to be published."""
        return fingerprint(self.name, data_dir=self.data_dir).encode()

    def tested(self) -> Tested:
        """The test split; a file or folder that has none is test data as a whole."""
        try:
            return Tested(self.records("test"), whole=False)
        except NoTestSplit:
            return Tested(self.records(), whole=True)
