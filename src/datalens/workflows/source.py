"""Where the records of a command come from."""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from datalens.data import Keep, NoTestSplit, Records, Split, fingerprint, is_folder, load
from datalens.ensemble import Ranks
from datalens.synthesizers.learner import AnyLearner

FOLDER_SIZE = 64
"""As the paper has colour images. It is published, so it is chosen without a look at the pictures:
whatever is read from them (one odd size among equal ones) could tell of a single record."""


@dataclass(frozen=True, kw_only=True)
class Source:
    """Where the records come from."""

    name: str
    data_dir: Path | None = None
    image_size: int | None = None
    """Pixels a side, as the user says."""
    n_classes: int | None = None
    folder_size: int | None = FOLDER_SIZE
    """Pixels a side of a folder's pictures where the user says nothing; None: their own."""

    @property
    def options(self) -> list[str]:
        """How the command line was told, beside the name, word by word."""
        told = {
            "--data-dir": self.data_dir,
            "--image-size": self.image_size,
            "--classes": self.n_classes,
        }
        given = {name: str(value) for name, value in told.items() if value is not None}
        return [word for pair in given.items() for word in pair]

    @property
    def size(self) -> int | None:
        """What images are brought to; None where they stay as they are."""
        if self.image_size is None and is_folder(self.name):
            return self.folder_size
        return self.image_size

    def as_in(self, config: dict[str, Any]) -> "Source":
        """With a folder's pictures of the size that a run has, by its configuration."""
        _, height, width = config["data"]["shape"]
        return replace(self, folder_size=height if height == width else None)

    def records(self, split: Split = "train", keep: Keep | None = None) -> Records:
        return load(
            self.name,
            split=split,
            data_dir=self.data_dir,
            image_size=self.size,
            n_classes=self.n_classes,
            keep=keep,
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

    def test_records(self) -> Records:
        """The test split; a file or folder that has none is test data as a whole."""
        try:
            return self.records("test")
        except NoTestSplit:
            return self.records()
