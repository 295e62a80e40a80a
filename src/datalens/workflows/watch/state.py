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

LOG, PICTURE, DONE = "log.jsonl", "samples.png", "certificate.json"
MAX_PICTURE = 16 * 2**20
LONGEST_NAME = 40


class Follower:
    """Reads a run folder again and again, and sees how fast it gets on.

    Guarantee: it opens config.toml, log.jsonl and samples.png, which are published, and of
    certificate.json it sees whether it is there. Nothing under internal/ is ever opened. The log
    bears no times; those shown are this reader's own, from when it first saw a line.
    """

    def __init__(self, run: Path, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._run, self._clock = run, clock
        self.name = run.name or run.resolve().name
        self._seen: dict[str, tuple[float, int]] = {}
        """For each stage, when it was first seen and how much was done then."""

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
        return {
            "run": self.name,
            "method": str(config.get("method", "")),
            "data": str(data.get("name", "")) if isinstance(data, dict) else "",
            "budget": _number(settings.get("epsilon")) if isinstance(settings, dict) else None,
            "epsilon": max(spent, default=0.0),
            "epsilon_shown": rounded_up(max(spent, default=0.0), 3),
            "stages": stages,
            "seconds_left": self._seconds_left(stages[-1]) if stages else None,
            "picture": self._picture_version(),
            "finished": (self._run / DONE).is_file(),
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

    def _seconds_left(self, stage: dict[str, Any]) -> float | None:
        """Of the stage under way, at the pace seen so far; None before there is a pace."""
        now, done = self._clock(), stage["done"]
        since, before = self._seen.setdefault(stage["stage"], (now, done))
        if done <= before or now <= since:
            return None
        return (stage["total"] - done) * (now - since) / (done - before)

    def _picture_version(self) -> int | None:
        """Another number when there is another picture."""
        with suppress(OSError, DataLensError):
            return self._file(PICTURE).stat().st_mtime_ns
        return None


def _number(value: Any) -> float | None:
    known = isinstance(value, int | float) and not isinstance(value, bool) and isfinite(value)
    return float(value) if known else None
