"""Where a run goes on: student and teachers at the end of a step.

A folder a step: `student.safetensors`, and beside it the teachers in as many parts as there were
ranks, `teachers-FIRST-LAST.safetensors`. Any number of ranks can go on from them. Teachers are
written rarely, because they can be rebuilt: from the last checkpoint (or from nothing) by
replaying the stored releases, which are public, over the same steps.
"""

import json
import re
import shutil
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Protocol

from safetensors import safe_open
from safetensors.torch import load, save, save_file
from torch import Tensor

from datalens.data.documents import read_whole
from datalens.ensemble import ALONE, Ranks
from datalens.errors import DataLensError, brief
from datalens.synthesizers.session import Stopped

SECONDS_BETWEEN = 120.0
STUDENT = "student.safetensors"
HEADER = 2**20
"""Bytes that a student's file may have beside its tensors."""


class HasState(Protocol):
    def state(self) -> dict[str, Tensor]: ...

    def load_state(self, state: dict[str, Tensor]) -> None: ...


class Ensemble(Protocol):
    """Some of a run's teachers: the first's number, how many, and tensors with a row for each."""

    first_teacher: int
    n_teachers: int

    def state(self) -> dict[str, Tensor]: ...


class Checkpoints:
    """Writes a checkpoint now and then, whole or not at all; when asked to stop, always.

    When is rank 0's decision. Every rank writes and reads its own teachers, in its own folder or
    in one that all share; a step that is not complete for every rank is passed over.
    """

    def __init__(
        self,
        folder: Path,
        *,
        student: HasState,
        teachers: Ensemble,
        ranks: Ranks = ALONE,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._folder, self._ranks, self._clock = folder, ranks, clock
        self._student, self._teachers = student, teachers
        first = teachers.first_teacher
        self._own = range(first, first + teachers.n_teachers)
        self._written, self._took = clock(), 0.0

    def resume(self) -> int:
        """Load the last complete checkpoint, if any, and return the first step still to do."""
        complete = json.dumps([step for step in self._steps() if self._has(step)]).encode()
        step = int(self._ranks.exchange("complete checkpoints", complete, _newest_common))
        if step < 0:
            return 0
        with self._readable(step):
            for file, part in self._parts(step).items():
                self._take(file, part)
            student = self._student_bytes(step) if self._ranks.rank == 0 else b""
        student = self._ranks.tell("student", student)
        with self._readable(step):
            self._student.load_state(load(student))
        return step + 1

    def after(self, step: int, *, stopping: bool) -> None:
        """Called at the end of each step; raises Stopped once a requested stop is safe."""
        since = self._clock() - self._written
        due = since > max(SECONDS_BETWEEN, 20 * self._took)
        word = self._ranks.tell("checkpoint", b"stop" if stopping else b"write" if due else b"")
        if word:
            started = self._clock()
            self._write(step)
            self._ranks.tell("checkpoint written", b"")  # by all: older ones can go
            for old in set(self._steps()) - {step}:
                shutil.rmtree(self._at(old), ignore_errors=True)
            self._written = self._clock()
            self._took = self._written - started
        if word == b"stop":
            raise Stopped

    def clear(self) -> None:
        """The run is finished: its private teachers are no longer needed."""
        shutil.rmtree(self._folder, ignore_errors=True)

    def _write(self, step: int) -> None:
        target = self._at(step)
        with suppress(FileExistsError):
            self._folder.parent.mkdir(parents=True)  # on a machine that rank 0 is not on
            self._folder.parent.chmod(0o700)
        target.mkdir(parents=True, exist_ok=True)
        tensors = {name: tensor.contiguous() for name, tensor in self._teachers.state().items()}
        name = f"teachers-{self._own.start:06d}-{self._own.stop - 1:06d}"
        save_file(tensors, target / f"{name}.part")
        (target / f"{name}.part").replace(target / f"{name}.safetensors")
        if self._ranks.rank == 0:
            state = {name: tensor.contiguous() for name, tensor in self._student.state().items()}
            (target / "student.part").write_bytes(save(state))
            (target / "student.part").replace(target / STUDENT)

    def _at(self, step: int) -> Path:
        return self._folder / f"step-{step:05d}"

    def _steps(self) -> list[int]:
        names = (re.fullmatch(r"step-(\d+)", path.name) for path in self._folder.glob("step-*"))
        return sorted(int(name[1]) for name in names if name)

    def _has(self, step: int) -> bool:
        """Whether all of this rank's teachers are there; on rank 0 also the student."""
        own = self._own
        covered = {
            number
            for part in self._parts(step).values()
            for number in range(max(part.start, own.start), min(part.stop, own.stop))
        }
        student = self._ranks.rank > 0 or (self._at(step) / STUDENT).is_file()
        return student and covered.issuperset(own)

    def _parts(self, step: int) -> dict[Path, range]:
        """The files that hold some of this rank's teachers, and which teachers they hold."""
        found = {}
        for file in sorted(self._at(step).glob("teachers-*.safetensors")):
            if match := re.fullmatch(r"teachers-(\d+)-(\d+)", file.stem):
                part = range(int(match[1]), int(match[2]) + 1)
                ours = part.start < self._own.stop and self._own.start < part.stop
                if ours and file.is_file():
                    found[file] = part
        return found

    def _take(self, file: Path, part: range) -> None:
        """Copy what is this rank's from a file, and read no more of it than that."""
        low, high = max(part.start, self._own.start), min(part.stop, self._own.stop)
        with safe_open(file, framework="pt") as stored:
            own = self._teachers.state()
            if set(stored.keys()) != set(own):
                raise ValueError("it is of other teachers")
            for name, tensor in own.items():
                stack = stored.get_slice(name)
                if stack.get_shape() != [len(part), *tensor.shape[1:]]:  # before any is read
                    raise ValueError(f"{name} does not fit")
                rows = stack[low - part.start : high - part.start]
                if rows.dtype != tensor.dtype:
                    raise ValueError(f"{name} is of another kind")
                tensor[low - self._own.start : high - self._own.start].copy_(rows)

    def _student_bytes(self, step: int) -> bytes:
        own = sum(tensor.nbytes for tensor in self._student.state().values())
        # An optimiser that has not begun has no moments yet: two for each weight, and averages.
        return read_whole(self._at(step) / STUDENT, at_most=4 * own + HEADER)

    @contextmanager
    def _readable(self, step: int) -> Iterator[None]:
        try:
            yield
        except Exception as error:  # of a damaged file, PyTorch and safetensors say many things
            raise DataLensError(
                f"The checkpoint {self._at(step)} cannot be read ({brief(error)});"
                " delete it and resume: the run is rebuilt from its releases."
            ) from None


def _newest_common(parts: Sequence[bytes]) -> bytes:
    """The newest step that every rank has; -1 if there is none."""
    common = set.intersection(*(set(json.loads(part)) for part in parts))
    return str(max(common, default=-1)).encode()
