"""Where a run goes on: student and teachers at the end of a step.

Teachers are written rarely, because they can be rebuilt: from the last checkpoint (or from
nothing) by replaying the stored releases, which are public, over the same steps.
"""

import time
from collections.abc import Callable
from pathlib import Path
from typing import Protocol

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor

from datalens.errors import DataLensError
from datalens.synthesizers.session import Stopped

SECONDS_BETWEEN = 120.0


class HasState(Protocol):
    def state(self) -> dict[str, Tensor]: ...

    def load_state(self, state: dict[str, Tensor]) -> None: ...


class Checkpoints:
    """Writes a checkpoint now and then, whole or not at all; when asked to stop, always."""

    def __init__(
        self, path: Path, *, clock: Callable[[], float] = time.monotonic, **parts: HasState
    ) -> None:
        self._path, self._clock, self._parts = path, clock, parts
        self._written, self._took = clock(), 0.0

    def resume(self) -> int:
        """Load the last checkpoint, if there is one, and return the first step still to do."""
        if not self._path.exists():
            return 0
        try:
            tensors = load_file(self._path)
            for name, part in self._parts.items():
                prefix = f"{name}/"
                part.load_state(
                    {k.removeprefix(prefix): t for k, t in tensors.items() if k.startswith(prefix)}
                )
            return int(tensors["step"]) + 1
        except (OSError, SafetensorError, KeyError, ValueError) as error:
            raise DataLensError(
                f"The checkpoint {self._path} cannot be read ({error}); delete it and resume: the"
                " run is rebuilt from its releases."
            ) from None

    def after(self, step: int, *, stopping: bool) -> None:
        """Called at the end of each step; raises Stopped once a requested stop is safe."""
        since = self._clock() - self._written
        if stopping or since > max(SECONDS_BETWEEN, 20 * self._took):
            started = self._clock()
            self._write(step)
            self._written = self._clock()
            self._took = self._written - started
        if stopping:
            raise Stopped

    def clear(self) -> None:
        """The run is finished: its private teachers are no longer needed."""
        self._path.unlink(missing_ok=True)

    def _write(self, step: int) -> None:
        tensors = {"step": torch.tensor(step)}
        for name, part in self._parts.items():
            tensors |= {f"{name}/{k}": t.contiguous() for k, t in part.state().items()}
        temporary = self._path.with_suffix(".part")
        save_file(tensors, temporary)
        temporary.replace(self._path)
