"""Files that are none: what is no plain file (a pipe, a device, a folder) is not opened, and what
is longer than a reader's bound is not read. Each in a process of its own that may grow by 96 MiB.
"""

import os
from pathlib import Path

import pytest

from .judging import confined
from .readers import READERS

KINDS = ("hole", "pipe", "zero", "folder", "circle")
WHOLE_FILES = ["sample config.toml datalens", "sample certificate.json datalens", "preset", "log"]
WHOLE_FILES += ["sample generator.safetensors datalens", "session", "student", "teachers", "npz"]
WHOLE_FILES += ["png L"]
VERIFIED = ["verify config.toml datalens", "verify certificate.json datalens"]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", [*WHOLE_FILES, *VERIFIED])
def test_what_has_no_end_is_not_read(kind: str, name: str, tmp_path: Path) -> None:
    """A terabyte that is all hole; a pipe nobody writes to; a device that never ends."""
    reader = READERS[name]
    reader.make(tmp_path)
    file = tmp_path / reader.file
    file.unlink()
    if kind == "hole":
        with file.open("wb") as hole:
            hole.truncate(2**40)
    elif kind == "pipe":
        os.mkfifo(file)
    elif kind == "folder":
        file.mkdir()
    else:
        file.symlink_to({"zero": Path("/dev/zero"), "circle": file}[kind])
    names = (file.name, "run", "step-00003", "own")
    taken = confined(lambda: reader.read(tmp_path), names=names, mebibytes=96)
    # Such a checkpoint is as good as none, and of such a link verify says that it leads nowhere.
    assert not taken or name in ("student", "teachers") or (name in VERIFIED and kind == "circle")


@pytest.mark.parametrize(
    "name",
    ["teachers-000000-999999999999.safetensors", "teachers-0-9.part", "teachers-9-0.safetensors"],
)
def test_names_of_checkpoints_cannot_hang_a_run(name: str, tmp_path: Path) -> None:
    reader = READERS["teachers"]
    reader.make(tmp_path)
    (tmp_path / reader.file).rename((tmp_path / reader.file).with_name(name))
    for other in ("step-", "step-9x", "step--1", f"step-{10**18}"):
        (tmp_path / "checkpoint" / other).mkdir()
    confined(lambda: reader.read(tmp_path), names=("step-00003",), mebibytes=16)
