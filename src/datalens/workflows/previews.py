"""Pictures of a run that is under way: RUN/samples.png, drawn from what there is so far."""

import time
from collections.abc import Callable
from pathlib import Path

from datalens.synthesizers.learner import AnyLearner
from datalens.synthesizers.protocol import Synthesizer
from datalens.workflows.pictures import contact_sheet, save_sheet

EVERY = 20.0
"""Seconds between two pictures."""
ROWS, COLUMNS = 10, 10


class Previews:
    """A listener that draws a picture now and then.

    Guarantee: a generator is public from birth, since it follows from paid releases alone, and
    so is a picture of it. All randomness comes from a fixed seed, none from the run. Whatever
    goes wrong here stops nothing: a picture is not worth the budget of a step.
    """

    def __init__(
        self,
        learner: AnyLearner,
        path: Path,
        *,
        private: bool,
        every: float = EVERY,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._learner, self._path, self._private = learner, path, private
        self._every, self._clock = every, clock
        self._last = clock()

    def __call__(self, stage: str, done: int, total: int, spent: float | None) -> None:
        if not isinstance(self._learner, Synthesizer) or self._clock() - self._last < self._every:
            return
        try:
            self._draw(self._learner, f"{stage} {done} of {total}")
        except Exception:  # there may be nothing to draw from yet
            return
        finally:
            self._last = self._clock()

    def _draw(self, synthesizer: Synthesizer, so_far: str) -> None:
        caption = f"{'' if self._private else 'NOT PRIVATE  '}{synthesizer.method}: {so_far}"
        part = self._path.with_suffix(".part")
        write_sheet(synthesizer, part, caption)
        part.replace(self._path)


def write_sheet(synthesizer: Synthesizer, path: Path, caption: str) -> None:
    """A picture with one row a class."""
    classes = min(len(synthesizer.class_names), ROWS)
    labels = [label for label in range(classes) for _ in range(COLUMNS)]
    samples = synthesizer.sample(len(labels), labels, seed=0)
    save_sheet(contact_sheet(samples.images, COLUMNS, caption=caption), path)
