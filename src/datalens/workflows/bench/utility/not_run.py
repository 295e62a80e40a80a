"""Cells that were ended because they took too long: a list in the folder of results."""

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from datalens.data.documents import read_whole
from datalens.errors import DataLensError
from datalens.files import replace_file
from datalens.workflows.bench.utility.cells import Cell, stem

FILE = "not-run.jsonl"
_MOST = 2**20
"""Bytes of the list."""


class NotRun(BaseModel):
    """A cell, and what it was given."""

    model_config = ConfigDict(frozen=True, allow_inf_nan=False)

    dataset: str
    method: str
    epsilon_asked: float | None
    held_out: bool
    overrides: dict[str, Any]
    minutes: float = Field(gt=0)
    """It took more than so many."""

    @classmethod
    def of(cls, cell: Cell, minutes: float) -> "NotRun":
        return cls(
            dataset=cell.dataset,
            method=cell.method,
            epsilon_asked=cell.epsilon,
            held_out=cell.held_out,
            overrides=cell.overrides,
            minutes=minutes,
        )

    @property
    def stem(self) -> str:
        return stem(self.dataset, self.method, self.epsilon_asked, self.held_out, self.overrides)


def read_not_run(out: Path) -> dict[str, NotRun]:
    """By stem; none where there is no list."""
    file = out / FILE
    if not file.exists():
        return {}
    try:
        lines = read_whole(file, at_most=_MOST).splitlines()
        found = [NotRun(**json.loads(line)) for line in lines]
    except (ValidationError, TypeError, ValueError):
        raise DataLensError(
            f"{file} is no list of cells that were not run; move it away, or name another --out."
        ) from None
    return {each.stem: each for each in found}


def write_not_run(out: Path, cells: Mapping[str, NotRun]) -> None:
    """The list, in the order of names; no file where nothing is on it."""
    if not cells:
        (out / FILE).unlink(missing_ok=True)
        return
    replace_file(out / FILE, _lines(cells[name] for name in sorted(cells)).encode())


def _lines(cells: Iterable[NotRun]) -> str:
    return "".join(json.dumps(each.model_dump()) + "\n" for each in cells)
