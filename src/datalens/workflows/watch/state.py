"""What a run's public files say of it while it is under way."""

import json
import time
from collections.abc import Callable
from contextlib import suppress
from math import isfinite
from pathlib import Path
from typing import Any

from datalens.data.documents import MAX_JSON, read_whole
from datalens.errors import DataLensError
from datalens.privacy.rounding import rounded_up
from datalens.synthesizers.learner import read_config
from datalens.synthesizers.private_classifier import CLASSIFIERS
from datalens.workflows.progress import STOPPED
from datalens.workflows.suggesting import command
from datalens.workflows.watch.pace import Pace

LOG, PICTURE, DONE = "log.jsonl", "samples.png", "certificate.json"
SILENT = 600.0
"""Seconds without news after which a run may have ended without a word, or ten usual steps."""
MAX_PICTURE = 16 * 2**20
LONGEST_NAME = 40


class Follower:
    """Reads a run folder again and again, and sees how fast it gets on.

    Guarantee: it opens config.toml, log.jsonl and samples.png, which are published, and of
    certificate.json and the mark of a stopped run it sees whether they are there. Nothing under
    internal/ is ever opened. The log bears no times; those shown are this reader's own, from when
    it first saw a line, and how old the file is.
    """

    def __init__(
        self,
        run: Path,
        *,
        clock: Callable[[], float] = time.monotonic,
        wall: Callable[[], float] = time.time,
    ) -> None:
        self._run, self._clock, self._wall = run, clock, wall
        self.name = run.name or run.resolve().name
        self._paces: dict[str, Pace] = {}
        """Of each stage, from when it was first seen."""

    def state(self) -> dict[str, Any]:
        """As the page shows it."""
        entries = self._entries()
        spent = [entry["epsilon"] for entry in entries if "epsilon" in entry]
        latest = {entry["stage"]: entry for entry in entries}
        stages = [
            {"stage": e["stage"], "done": e["done"], "total": e["total"]} for e in latest.values()
        ]
        config = self._config()
        settings, data = config.get("settings", {}), config.get("data", {})
        pace = self._pace(stages[-1]) if stages else None
        standing = self._standing()
        left = None
        if pace and standing == "under way":
            left = pace.seconds_left(self._clock(), stages[-1]["total"])
        return {
            "run": self.name,
            "method": str(config.get("method", "")),
            "data": str(data.get("name", "")) if isinstance(data, dict) else "",
            "budget": _number(settings.get("epsilon")) if isinstance(settings, dict) else None,
            "epsilon": max(spent, default=0.0),
            "epsilon_shown": rounded_up(max(spent, default=0.0)),
            "stages": stages,
            "seconds_left": left,
            "picture": self._picture_version(),
            "finished": standing == "finished",
            "standing": standing,
            "silent": standing == "under way" and self._silent(pace),
            "go_on": self._go_on(config.get("method")),
        }

    def picture(self) -> bytes | None:
        """The samples, if there are any yet."""
        with suppress(DataLensError):
            return read_whole(self._file(PICTURE), at_most=MAX_PICTURE)
        return None

    def _file(self, name: str) -> Path:
        """A link could lead anywhere, so none is followed."""
        file = self._run / name
        if file.is_symlink():
            raise DataLensError(f"{file} is a link; put the file there.")
        return file

    def _config(self) -> dict[str, Any]:
        with suppress(DataLensError):
            return read_config(self._file("config.toml").parent)
        return {}

    def _entries(self) -> list[dict[str, Any]]:
        """The lines of the log; one that is being written is left for the next time."""
        found = []
        try:
            lines = read_whole(self._file(LOG), at_most=MAX_JSON).splitlines()
        except DataLensError:
            return []
        for line in lines:
            with suppress(ValueError, KeyError, TypeError, RecursionError, OverflowError):
                told = json.loads(line)
                entry: dict[str, Any] = {"stage": str(told["stage"])[:LONGEST_NAME]}
                entry |= {"done": int(told["done"]), "total": int(told["total"])}
                if (spent := _number(told.get("epsilon"))) is not None:
                    entry["epsilon"] = spent
                found.append(entry)
        return found

    def _pace(self, stage: dict[str, Any]) -> Pace:
        """Of the stage under way, as far as it has been seen."""
        now, done = self._clock(), stage["done"]
        pace = self._paces.setdefault(stage["stage"], Pace(now, done))
        pace.saw(now, done)
        return pace

    def _standing(self) -> str:
        if (self._run / DONE).is_file():
            return "finished"
        return "stopped" if (self._run / STOPPED).is_file() else "under way"

    def _silent(self, pace: Pace | None) -> bool:
        """Whether nothing has been logged for long: a run that is killed leaves no mark."""
        with suppress(OSError, DataLensError):
            age = self._wall() - self._file(LOG).stat().st_mtime
            return age > max(SILENT, 10 * ((pace and pace.step) or 0.0))
        return False

    def _go_on(self, method: object) -> str:
        """The command that goes on with it; which data it is about, its owner knows."""
        verb = "classify" if method in CLASSIFIERS else "fit"
        return command(verb, "DATA", "--out", self._run, "--resume")

    def _picture_version(self) -> int | None:
        """Another number when there is another picture."""
        with suppress(OSError, DataLensError):
            return self._file(PICTURE).stat().st_mtime_ns
        return None


def _number(value: Any) -> float | None:
    known = isinstance(value, int | float) and not isinstance(value, bool) and isfinite(value)
    return float(value) if known else None
