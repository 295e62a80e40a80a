"""Progress on the terminal, and a clean way to stop."""

import json
import signal
import time
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from math import isfinite
from pathlib import Path
from types import FrameType
from typing import Any, TypeVar

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from datalens.data.documents import MAX_JSON, read_whole
from datalens.errors import DataLensWarning, brief
from datalens.privacy.rounding import rounded_up

STOPPED = "STOPPED"
"""A file in a run's folder, empty, while the run stands still: it was stopped, or it failed."""
SIGN_OF_LIFE = 1.0
"""Seconds between two lines of a log that say no more than how far a stage has come."""

Listener = Callable[[str, int, int, float | None], None]
"""Is told the stage, what is done of what total, and the epsilon so far where it has changed."""


class Watcher:
    """An observer that draws bars on stderr, writes the public log, and hears Ctrl-C.

    `listeners` are told the same. Every line of the log is on disk when `progress` returns.
    """

    def __init__(
        self,
        *,
        epsilon: float | None,
        log: Path,
        quiet: bool = False,
        listeners: Sequence[Listener] = (),
    ) -> None:
        self._epsilon, self._log = epsilon, log
        self.listeners = list(listeners)
        self._told = -SIGN_OF_LIFE
        self._stopping = False
        self._console = Console(stderr=True, quiet=quiet)
        self._bars = Progress(
            TextColumn("[bold]{task.description:<11}"),
            BarColumn(),
            MofNCompleteColumn(),
            TextColumn("{task.fields[spent]}"),
            TimeRemainingColumn(),
            console=self._console,
        )
        self._tasks: dict[str, Any] = {}
        self._lines: set[str] | None = None

    def progress(self, stage: str, done: int, total: int, *, spent: float | None = None) -> None:
        if stage not in self._tasks:
            self._tasks[stage] = self._bars.add_task(stage.replace("-", " "), spent="")
        text = "" if spent is None else f"epsilon {rounded_up(spent)} of {self._epsilon:g}"
        self._bars.update(self._tasks[stage], completed=done, total=total, spent=text)
        entry = {"stage": stage, "done": done, "total": total}
        if spent is not None:
            self._add({**entry, "epsilon": spent})
        elif time.monotonic() - self._told >= SIGN_OF_LIFE:  # `tidy_log` takes them out again
            self._told = time.monotonic()
            with suppress(OSError):  # steps that are paid for must not be lost for its sake
                self._add(entry)
        for listener in list(self.listeners):
            try:
                listener(stage, done, total, spent)
            except Exception as error:  # it watches, and no more
                self.listeners.remove(listener)
                self.say(f"One who was told of the progress is told no more ({brief(error)}).")

    def _add(self, entry: dict[str, Any]) -> None:
        """A line of the log, unless it is there: a resumed run repeats what it replays."""
        line = json.dumps(entry) + "\n"
        if self._lines is None:
            known = read_whole(self._log, at_most=MAX_JSON) if self._log.exists() else b""
            self._lines = set(known.decode(errors="replace").splitlines(keepends=True))
        if line not in self._lines:
            self._lines.add(line)
            with self._log.open("a") as file:
                file.write(line)

    def say(self, sentence: str) -> None:
        """A word to the user, on stderr."""
        self._console.print(sentence, highlight=False, markup=False, soft_wrap=True)

    def stopping(self) -> bool:
        return self._stopping

    @contextmanager
    def watching(self) -> Iterator["Watcher"]:
        """Ctrl-C once: stop after this step. Twice: at once, which is safe too.

        Our warnings are printed between the bars.
        """

        def stop(number: int, frame: FrameType | None) -> None:
            if self._stopping:
                raise KeyboardInterrupt
            self._stopping = True
            self.say("Stopping after this step; press Ctrl-C again to stop at once.")

        before = signal.signal(signal.SIGINT, stop)
        try:
            with self._bars, careful(self.say):
                yield self
        finally:
            signal.signal(signal.SIGINT, before)


@contextmanager
def careful(say: Callable[[str], None]) -> Iterator[None]:
    """Our warnings are said in this block as they are raised, and others shown as they would be."""
    with warnings.catch_warnings():
        others = warnings.showwarning

        def show(message: Warning | str, category: type[Warning], *where: Any, **more: Any) -> None:
            if issubclass(category, DataLensWarning):
                say(f"Careful: {message}")
            else:
                others(message, category, *where, **more)

        warnings.simplefilter("always", DataLensWarning)
        warnings.showwarning = show
        yield


@contextmanager
def marked(run: Path) -> Iterator[None]:
    """The run is under way in this block; whatever ends it early leaves a mark, and no reason."""
    (run / STOPPED).unlink(missing_ok=True)
    try:
        yield
    except BaseException:
        with suppress(OSError):  # what went wrong is worth more than its mark
            (run / STOPPED).touch()
        raise


T = TypeVar("T")


@contextmanager
def counted(
    what: str, parts: Iterable[T], *, of: int, size: Callable[[T], int]
) -> Iterator[Iterator[T]]:
    """The same parts, with a bar on stderr that grows by the size of each."""
    columns = (TextColumn("[bold]{task.description}"), BarColumn(), MofNCompleteColumn())
    console = Console(stderr=True)
    with Progress(*columns, TimeRemainingColumn(), console=console, transient=True) as bars:
        task = bars.add_task(what, total=of)

        def passed_on() -> Iterator[T]:
            for part in parts:
                yield part
                bars.advance(task, size(part))

        yield passed_on()


def tidy_log(log: Path) -> None:
    """A resumed run repeats steps it replays: keep one line of each, and no signs of life."""
    lines = {}
    for line in read_whole(log, at_most=MAX_JSON).splitlines():
        # A line that a crash has cut short, or that is none of ours, is left out.
        with suppress(ValueError, KeyError, TypeError, RecursionError, OverflowError):
            entry = json.loads(line)
            stage, done, total = str(entry["stage"]), int(entry["done"]), int(entry["total"])
            spent = float(entry["epsilon"])
            if isfinite(spent):
                kept = {"stage": stage, "done": done, "total": total, "epsilon": spent}
                lines[stage, done] = json.dumps(kept)
    log.write_text("".join(line + "\n" for line in lines.values()))
