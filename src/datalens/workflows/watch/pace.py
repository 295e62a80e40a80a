"""How long a stage still takes, at the pace of its recent steps."""

from collections import deque
from statistics import median

RECENT = 30
"""Steps that count."""
FEWEST = 3
"""Steps before a pace is told: a stage may begin with some that take far longer than the rest."""


class Pace:
    """Of one stage, by the clock of whoever looks on.

    What a usual step takes is the median over recent ones, each of those between two looks taken
    as equally long. A few slow steps (the model that a labeller's hundred quick ones follow) do
    not count for all to come.
    """

    def __init__(self, now: float, done: int) -> None:
        self._when, self._done = now, done
        self._took: deque[float] = deque(maxlen=RECENT)

    def saw(self, now: float, done: int) -> None:
        """So much is done now; less than before if a resumed run has begun anew."""
        steps = done - self._done
        if steps > 0 and now > self._when:
            self._took.extend([(now - self._when) / steps] * min(steps, RECENT))
        if steps:
            self._when, self._done = now, done

    @property
    def step(self) -> float | None:
        """Seconds of a usual step; None while too few have been seen."""
        return median(self._took) if len(self._took) >= FEWEST else None

    def seconds_left(self, now: float, total: int) -> float | None:
        """It runs down during a step, by as much as that should take, and never grows."""
        if self.step is None:
            return None
        under_way = min(now - self._when, self.step)
        return max((total - self._done) * self.step - under_way, 0.0)
