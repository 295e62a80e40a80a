"""`datalens export`: the half that may be published, and nothing else."""

import shutil
from pathlib import Path

from datalens.errors import DataLensError
from datalens.synthesizers.protocol import PUBLISHED

ALSO = ("samples.png", "report.html", "log.jsonl", "NOT-PRIVATE.txt")


def export(run: Path, out: Path) -> list[str]:
    """Copy the published files by name; whatever else lies in the folder stays there."""
    missing = [name for name in PUBLISHED if not (run / name).is_file()]
    if missing:
        raise DataLensError(f"{run} is no finished run: it lacks {', '.join(missing)}.")
    if out.exists():
        raise DataLensError(f"{out} exists already; name another place.")
    names = [name for name in (*PUBLISHED, *ALSO) if (run / name).is_file()]
    part = out.with_name(out.name + ".part")
    try:
        part.mkdir(parents=True)
        for name in names:
            shutil.copyfile(run / name, part / name)
        part.rename(out)
    except OSError as error:
        shutil.rmtree(part, ignore_errors=True)
        raise DataLensError(f"{out} cannot be written ({error.strerror}).") from None
    return names
