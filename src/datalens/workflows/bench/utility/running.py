"""`datalens bench utility`: what is not there yet is measured, and kept as it comes."""

from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from datalens.errors import sentence
from datalens.privacy.ledger import default_home
from datalens.workflows.bench.machine import source_digest
from datalens.workflows.bench.utility.cells import Cell
from datalens.workflows.bench.utility.folder import alone_in
from datalens.workflows.bench.utility.not_run import NotRun
from datalens.workflows.bench.utility.results import Repetition, Result
from datalens.workflows.bench.utility.unit import Order
from datalens.workflows.bench.utility.workers import (
    Outcome,
    Processes,
    TookTooLong,
    Work,
    cores,
    done,
)

SLOWEST = ("dcgan", "gpate", "pategan", "dpgan", "gswgan", "dp-merf", "datalens", "class-gaussian")
"""Methods by the time they take. Others may take longer still, and come before them."""
MOST_JOBS = 4
"""At a time, unless told: each needs a gigabyte or two."""


@dataclass(frozen=True, kw_only=True)
class Bench:
    """What there is when all that could be measured has been."""

    results: list[Result]
    """Of every cell in the folder, asked for or not."""
    not_run: list[NotRun]
    """Likewise, of those that take too long."""
    failed: list[str]
    """A sentence on each repetition that came to nothing."""


def run_bench(
    cells: Sequence[Cell],
    *,
    seeds: int,
    jobs: int,
    out: Path,
    command: str,
    images: int | None,
    seeded: bool = False,
    data_dir: Path | None = None,
    most_minutes: float | None = None,
    work: Work | None = None,
) -> Bench:
    """Repetitions 0 to `seeds` - 1 of each cell that are not in `out` yet, `jobs` at a time.

    Each is kept when it ends, so that an interruption loses only what is under way. `command` is
    what the page says it was made by. `seeded` repetitions come out alike every time, and are NOT
    PRIVATE. One that takes more than `most_minutes` is ended,
    and its cell is kept as not run. `work` is done by processes unless told otherwise.
    """
    failed = []
    with alone_in(out) as folder:
        missing = folder.missing(cells, seeds, images, most_minutes, seeded=seeded)
        source = source_digest()
        orders = [
            _order(cell, seed, cell.images(images), data_dir, source, seeded=seeded)
            for cell, seed in missing
        ]
        orders.sort(key=_turn)
        by_stem = {cell.stem: cell for cell in cells}
        watched = Watched(
            work or Processes(jobs=jobs, most_minutes=most_minutes), total=len(orders)
        )
        with watched.bars, closing(done(orders, watched, jobs=jobs)) as ended:
            for order, outcome in ended:
                if isinstance(outcome, TookTooLong):
                    folder.give_up(by_stem[order.stem], outcome.minutes)
                    watched.say(f"{_named(order)}: {outcome}")
                    continue
                if isinstance(outcome, Exception):
                    failed.append(f"{_named(order)}: {sentence(outcome)}")
                    watched.say(failed[-1])
                    continue
                repetition = Repetition(**outcome.figures, command=command)
                folder.keep(by_stem[order.stem], repetition, outcome.sheet)
                watched.say(
                    f"{_named(order)}: {100 * repetition.accuracy:.1f} %"
                    f" in {repetition.seconds.all / 60:.1f} min"
                )
        folder.write_page()  # also over cells that others have put there
        return Bench(
            results=list(folder.results.values()),
            not_run=list(folder.not_run.values()),
            failed=failed,
        )


def usual_jobs(cells: Sequence[Cell]) -> int:
    """As many as there are cores, within reason; one, if there are teachers that fill memory."""
    heavy = any(c.configuration["settings"].get("discriminator") == "reference" for c in cells)
    return 1 if heavy else min(cores(), MOST_JOBS)


def _order(
    cell: Cell, seed: int, images: int, data_dir: Path | None, source: str, *, seeded: bool = False
) -> Order:
    return Order(
        stem=cell.stem,
        dataset=cell.dataset,
        path=cell.path,
        held_out=cell.held_out,
        configuration=cell.configuration,
        seed=seed,
        seeded=seeded,
        images=images,
        data_dir=data_dir.absolute() if data_dir else None,
        source=source,
        cache=default_home() / "cache",
    )


def _turn(order: Order) -> tuple[int, int]:
    """First one repetition of each; of those what takes long, lest it run alone in the end."""
    method = order.configuration["method"]
    return order.seed, SLOWEST.index(method) if method in SLOWEST else -1


def _named(order: Order) -> str:
    return f"{order.stem}, repetition {order.seed}"


class Watched:
    """Work with a bar over all of it and a line for each order under way, on stderr."""

    def __init__(self, work: Work, *, total: int) -> None:
        self._work = work
        self._console = Console(stderr=True)
        self.bars = Progress(
            TextColumn("{task.description}"),
            BarColumn(bar_width=20),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
            console=self._console,
        )
        self._all = self.bars.add_task("[bold]repetitions", total=total)

    def __call__(self, order: Order) -> Outcome:
        task = self.bars.add_task(_named(order), total=1)
        try:
            return self._work(order)
        finally:
            self.bars.remove_task(task)
            self.bars.advance(self._all)

    def stop(self) -> None:
        self._work.stop()

    def say(self, text: str) -> None:
        self._console.print(text, highlight=False, markup=False, soft_wrap=True)
