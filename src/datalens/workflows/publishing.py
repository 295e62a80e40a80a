"""`datalens export`: the half that may be published, and nothing else."""

import shutil
from pathlib import Path
from tempfile import TemporaryDirectory

from datalens.errors import DataLensError
from datalens.privacy.signing import SIGNATURE
from datalens.synthesizers.learner import read_config
from datalens.workflows.runs import holds_classifier, load_any, refuse_figure

PUBLISHED = ("config.toml", "ledger.json", "certificate.json")
ALSO = (SIGNATURE, "samples.png", "report.html", "log.jsonl", "NOT-PRIVATE.txt")


def export(run: Path, out: Path) -> list[str]:
    """Copy the published files by name; whatever else lies in the folder stays there.

    Links are not followed: they could bring in a file from elsewhere.
    """
    if (run / "config.toml").is_file():
        refuse_figure(run, read_config(run).get("method"))
        load_any(run)  # or refuse: one that is unfinished, cannot be read, or does not hold
    product = "classifier" if holds_classifier(run) else "generator"
    whole = (*PUBLISHED, f"{product}.safetensors")
    missing = [name for name in whole if not (run / name).is_file()]
    if missing:
        raise DataLensError(f"{run} is no finished run: it lacks {', '.join(missing)}.")
    if out.exists():
        raise DataLensError(f"{out} exists already; name another place.")
    names = [name for name in (*whole, *ALSO) if (run / name).is_file()]
    if links := [name for name in names if (run / name).is_symlink()]:
        raise DataLensError(f"{run} has links in place of {', '.join(links)}; put the files there.")
    if out.resolve().is_relative_to((run / "internal").resolve()):
        raise DataLensError(f"{out} lies in the private half of {run}; name another place.")
    try:
        out.parent.mkdir(parents=True, exist_ok=True)
        with TemporaryDirectory(dir=out.parent, prefix=".datalens-") as folder:
            part = Path(folder) / out.name
            part.mkdir()
            for name in names:
                shutil.copyfile(run / name, part / name)
            part.rename(out)
    except OSError as error:
        raise DataLensError(f"{out} cannot be written ({error.strerror}).") from None
    return names
