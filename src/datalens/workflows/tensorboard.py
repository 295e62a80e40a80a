"""`fit --tensorboard FOLDER`: the public log, for those who have TensorBoard."""

from pathlib import Path
from types import TracebackType
from typing import Any

from datalens.errors import DataLensError


class Board:
    """A listener that writes epsilon and progress as scalars.

    Guarantee: it writes what the public log may hold, and no times: how long a step takes may
    depend on who was drawn for it.
    """

    def __init__(self, folder: Path) -> None:
        try:
            from torch.utils.tensorboard import SummaryWriter
        except ImportError:
            raise DataLensError(
                "--tensorboard needs the package tensorboard; install datalens[tensorboard], or"
                " read RUN/log.jsonl, which is always written."
            ) from None
        try:
            self._writer: Any = SummaryWriter(str(folder), flush_secs=5)
        except OSError as error:
            raise DataLensError(f"{folder} cannot be written ({error.strerror}).") from None

    def __call__(self, stage: str, done: int, total: int, spent: float | None) -> None:
        self._write(f"progress/{stage}", done / max(total, 1), done)
        if spent is not None:
            self._write(f"epsilon/{stage}", spent, done)

    def _write(self, name: str, value: float, done: int) -> None:
        self._writer.add_scalar(name, value, done, walltime=0.0)

    def __enter__(self) -> "Board":
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._writer.close()
