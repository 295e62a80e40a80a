"""Figures that stay in the private half of a run."""

import json
from pathlib import Path
from typing import Any

from datalens.errors import DataLensError
from datalens.files import replace_file

EVALUATION, AUDIT = "evaluation.json", "audit.json"
"""What was computed on real records and not paid for, in RUN/internal."""


def keep_internal(run: Path, name: str, figures: dict[str, Any]) -> None:
    """RUN/internal/NAME, where the run's private half is here, in place of an older one."""
    if not (run / "internal").is_dir():
        return
    path = run / "internal" / name
    try:
        replace_file(path, f"{json.dumps(figures, indent=1)}\n".encode())
    except OSError as error:
        raise DataLensError(f"{path} cannot be written ({error.strerror}).") from None
