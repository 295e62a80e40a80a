"""The folder of results: a JSON and a picture for each cell, and a page over all of them."""

import fcntl
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from datalens.errors import DataLensError
from datalens.files import replace_file
from datalens.workflows.bench.utility.cells import Cell
from datalens.workflows.bench.utility.not_run import NotRun, read_not_run, write_not_run
from datalens.workflows.bench.utility.pages import check_page, write_page
from datalens.workflows.bench.utility.results import (
    Repetition,
    Result,
    check_same,
    read_results,
    write_result,
)


class Folder:
    """What has been measured so far. Every file is whole at every moment."""

    def __init__(self, path: Path) -> None:
        check_page(path)
        self.path = path
        self.results = read_results(path)
        self.not_run = read_not_run(path)

    def missing(
        self,
        cells: Sequence[Cell],
        seeds: int,
        images: int | None,
        most_minutes: float | None = None,
        *,
        seeded: bool = False,
    ) -> list[tuple[Cell, int]]:
        """Cells and seeds still to be done; not those that are known to take too long."""
        for cell in cells:
            if cell.stem in self.results:
                path = self.path / f"{cell.stem}.json"
                found = self.results[cell.stem]
                check_same(cell, found, path, images=cell.images(images), seeded=seeded)
        slow = {
            stem
            for stem, cell in self.not_run.items()
            if most_minutes is not None and most_minutes <= cell.minutes
        }
        known = {stem: set(result.seeds) for stem, result in self.results.items()}
        return [
            (cell, seed)
            for seed in range(seeds)
            for cell in cells
            if cell.stem not in slow and seed not in known.get(cell.stem, ())
        ]

    def keep(self, cell: Cell, repetition: Repetition, sheet: bytes | None) -> None:
        result = (self.results.get(cell.stem) or Result.of(cell)).with_(repetition)
        if sheet is not None:
            replace_file(self.path / f"{cell.stem}.png", sheet)
        write_result(self.path, result)
        self.results[cell.stem] = result
        if self.not_run.pop(cell.stem, None):
            write_not_run(self.path, self.not_run)
        self.write_page()

    def give_up(self, cell: Cell, minutes: float) -> None:
        """It takes more than so many."""
        self.not_run[cell.stem] = NotRun.of(cell, minutes)
        write_not_run(self.path, self.not_run)
        self.write_page()

    def write_page(self) -> None:
        if self.results or self.not_run:
            write_page(self.path, self.results.values(), self.not_run.values())


@contextmanager
def alone_in(out: Path) -> Iterator[Folder]:
    """The folder, made if need be. Nobody else writes to it meanwhile."""
    try:
        out.mkdir(parents=True, exist_ok=True)
        handle = os.open(out, os.O_RDONLY)
    except OSError as error:
        raise DataLensError(f"{out} cannot be a folder of results ({error.strerror}).") from None
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield Folder(out)
    except BlockingIOError:
        raise DataLensError(f"Another bench is writing to {out}; wait for it.") from None
    finally:
        os.close(handle)
