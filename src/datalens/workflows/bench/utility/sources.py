"""What is benchmarked: data sets by name, and folders or files of one's own."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from datalens.data import PublicFacts, Split, catalogue, describe, load
from datalens.errors import DataLensError
from datalens.workflows.bench.utility.printed import stands_for

PLAIN = re.compile(r"\w[\w.-]*")
"""What can be part of a file's name and of a link to it."""


@dataclass(frozen=True, kw_only=True)
class Source:
    """Where the records of a cell come from."""

    name: str
    """The data set's; of a folder, its last part."""
    path: Path | None = None
    """None where there is a data set of that name."""
    like: str
    """The data set whose preset is meant by `paper`: itself, unless it stands in for another."""

    def public(self, data_dir: Path | None, split: Split = "train") -> PublicFacts:
        """What is public about it; no image is kept."""
        return facts(self.path or self.name, data_dir, split)


def sources(given: Sequence[str], data_dir: Path | None) -> list[Source]:
    """Each once, in their order. A name goes before a path."""
    known = [entry.name for entry in catalogue()]
    found: dict[str, Source] = {}
    for text in dict.fromkeys(given):
        path = Path(text).expanduser()
        if text in known or not path.exists():
            describe(text, data_dir)
            source = Source(name=text, like=text)
        else:
            source = _own(path.absolute())
        if source.path and (source.name in found or source.name in known):
            raise DataLensError(f"{text} has the name of another data set: rename it.")
        found[source.name] = source
    return list(found.values())


def _own(path: Path) -> Source:
    public = facts(path, None)
    if not PLAIN.fullmatch(public.name):
        raise DataLensError(
            f"{path} cannot name the files of its results: rename it, with letters, digits,"
            " - and _ alone."
        )
    return Source(name=public.name, path=path, like=stands_for(public.name, public.class_names))


def facts(source: str | Path, data_dir: Path | None, split: Split = "train") -> PublicFacts:
    def nothing(public: PublicFacts) -> np.ndarray:
        return np.empty(0, dtype=np.int64)

    return load(source, split=split, data_dir=data_dir, keep=nothing).public
