"""Where published data sets may lie on this machine."""

import os
from pathlib import Path

_DEBIAN = Path("/usr/share/datasets")


def data_folders(data_dir: Path | None) -> list[Path]:
    """The folders to look into, in this order."""
    named = os.environ.get("DATALENS_DATA")
    folders = [data_dir, Path(named) if named else None, cache_folder(), _DEBIAN]
    return [folder for folder in folders if folder]


def cache_folder() -> Path:
    """Where downloads are kept."""
    base = os.environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache") / "datalens"


def first_file(*candidates: Path) -> Path | None:
    """The first that is a plain file; a folder that may not be entered holds none."""
    for file in candidates:
        try:
            if file.is_file():
                return file
        except OSError:
            continue
    return None


def first_folder(*candidates: Path) -> Path | None:
    """The first that is a folder."""
    for folder in candidates:
        try:
            if folder.is_dir():
                return folder
        except OSError:
            continue
    return None
