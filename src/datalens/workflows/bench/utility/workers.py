"""Worker processes: one a repetition, so many at a time.

A process of its own for each repetition costs the few seconds that PyTorch takes to load, and
bounds what goes wrong: memory is given back, and one that is killed takes no other with it.
"""

import os
import subprocess
import sys
import tempfile
from collections.abc import Generator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, as_completed
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from threading import Lock
from typing import Any, Protocol

from datalens.data.documents import read_json
from datalens.errors import DataLensError, printable
from datalens.workflows.bench.utility.unit import FIGURES, SHEET, Order

WORKER = [sys.executable, "-m", "datalens.workflows.bench.utility.unit"]
MINUTE = 60
LONGEST = 300
"""Letters of what a worker says when it fails."""


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """What a worker brings back."""

    figures: dict[str, Any]
    sheet: bytes | None
    """A PNG, of repetition 0."""


class TookTooLong(DataLensError):
    """A repetition was ended, or not begun, because its cell takes more than it may."""

    def __init__(self, minutes: float) -> None:
        super().__init__(f"not run: it takes more than {minutes:g} minutes.")
        self.minutes = minutes


class Work(Protocol):
    """Does one order at a time in each of several threads."""

    def __call__(self, order: Order) -> Outcome: ...

    def stop(self) -> None:
        """End what is under way, at once; nothing begins any more."""


class Processes:
    """Does each order in a process of its own.

    Guarantee: the process has a DATALENS_HOME of its own, which is deleted with it. It cannot
    spend anyone's real budget, nor meet what another repetition has spent.
    """

    def __init__(self, *, jobs: int, most_minutes: float | None = None) -> None:
        self.threads = max(1, cores() // jobs)
        self.most_minutes = most_minutes
        self._slow: set[str] = set()
        """Cells of which a repetition has taken too long: no other is begun."""
        self._running: set[subprocess.Popen[str]] = set()
        self._lock = Lock()
        self._over = False

    def stop(self) -> None:
        with self._lock:
            self._over = True
            for process in self._running:
                process.kill()

    def __call__(self, order: Order) -> Outcome:
        if self.most_minutes is not None and order.stem in self._slow:
            raise TookTooLong(self.most_minutes)
        with tempfile.TemporaryDirectory(
            prefix="datalens-bench-", ignore_cleanup_errors=True
        ) as name:
            folder = Path(name)
            said = folder / "stderr"
            code = self._run(order, folder, said)
            if code != 0 or not (folder / FIGURES).is_file():
                raise DataLensError(_last_words(said, code))
            sheet = folder / SHEET
            return Outcome(
                figures=read_json(folder / FIGURES),
                sheet=sheet.read_bytes() if sheet.is_file() else None,
            )

    def _run(self, order: Order, folder: Path, said: Path) -> int:
        environment = os.environ | {
            "DATALENS_HOME": str(folder / "home"),
            "TMPDIR": str(folder),  # what a worker that is killed leaves behind goes too
            "OMP_NUM_THREADS": str(self.threads),
        }
        with said.open("w") as errors:
            with self._lock:
                if self._over:
                    raise DataLensError("stopped before it began.")
                process = subprocess.Popen(
                    [*WORKER, str(folder)],
                    stdin=subprocess.PIPE,
                    stdout=subprocess.DEVNULL,
                    stderr=errors,
                    text=True,
                    env=environment,
                    start_new_session=True,  # Ctrl-C is for us; we end the workers
                )
                self._running.add(process)
            try:
                with process:  # stdin is closed, and the end waited for
                    _tell(process, order)
                    return self._ended(process, order)
            finally:
                with self._lock:
                    self._running.discard(process)

    def _ended(self, process: subprocess.Popen[str], order: Order) -> int:
        """Its exit code; or it is ended, if it takes more than it may."""
        if self.most_minutes is None:
            return process.wait()
        try:
            return process.wait(MINUTE * self.most_minutes)
        except subprocess.TimeoutExpired:
            process.kill()
            self._slow.add(order.stem)
            raise TookTooLong(self.most_minutes) from None


def _tell(process: subprocess.Popen[str], order: Order) -> None:
    if process.stdin is None:
        raise TypeError("a worker needs a pipe for its order")
    try:
        process.stdin.write(order.model_dump_json() + "\n")
        process.stdin.flush()
    except BrokenPipeError:  # it has died already; its last words are read later
        with suppress(BrokenPipeError):
            process.stdin.close()  # what is still buffered would be written once more


def _last_words(said: Path, code: int) -> str:
    if code < 0:
        return f"its process was killed (signal {-code}); there may not be enough memory."
    lines = [line for line in said.read_text(errors="replace").splitlines() if line.strip()]
    return printable(lines[-1].strip())[:LONGEST] if lines else f"it ended with code {code}."


def cores() -> int:
    """Those that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def done(
    orders: Sequence[Order], work: Work, *, jobs: int
) -> Generator[tuple[Order, Outcome | Exception], None, None]:
    """Every order with what came of it, as they end; `jobs` at a time off one queue.

    Closed before its end, it stops what is under way.
    """
    pool = ThreadPoolExecutor(jobs, "bench")
    try:
        waiting: dict[Future[Outcome], Order] = {pool.submit(work, o): o for o in orders}
        for ended in as_completed(waiting):
            error = ended.exception()
            if error is not None and not isinstance(error, Exception):
                raise error
            yield waiting[ended], error or ended.result()
    finally:
        pool.shutdown(wait=False, cancel_futures=True)
        work.stop()
        pool.shutdown()
