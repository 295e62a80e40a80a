"""Files that are there whole or not at all."""

import json
from pathlib import Path
from typing import Any

from datalens.errors import DataLensError

EVALUATION, AUDIT = "evaluation.json", "audit.json"
"""What was computed on real records and not paid for, in RUN/internal."""


def replace_file(path: Path, content: bytes) -> None:
    """The old content or the new, never a part of it."""
    part = path.with_name(f".{path.name}.part")
    try:
        part.write_bytes(content)
        part.replace(path)  # os.replace: at one stroke
    finally:
        part.unlink(missing_ok=True)


def keep_internal(run: Path, name: str, figures: dict[str, Any]) -> None:
    """RUN/internal/NAME, where the run's private half is here, in place of an older one."""
    if not (run / "internal").is_dir():
        return
    path = run / "internal" / name
    try:
        replace_file(path, f"{json.dumps(figures, indent=1)}\n".encode())
    except OSError as error:
        raise DataLensError(f"{path} cannot be written ({error.strerror}).") from None
