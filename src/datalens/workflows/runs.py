"""Run folders: reading one back, whichever method made it."""

from pathlib import Path
from reprlib import repr as shown

from datalens.errors import DataLensError
from datalens.synthesizers import METHODS, Synthesizer
from datalens.synthesizers.protocol import read_config


def is_private(method: str) -> bool:
    """Whether a method protects anybody; what is not known is taken for one, and refused later."""
    return method not in METHODS or METHODS[method].private


def load_run(run: Path) -> Synthesizer:
    """The fitted synthesizer of a finished run."""
    method = read_config(run).get("method")
    if not isinstance(method, str) or method not in METHODS:
        raise DataLensError(f"{run} was made by an unknown method, {shown(method)}.")
    if not (run / "certificate.json").is_file():
        raise DataLensError(f"{run} is not finished; go on with datalens fit ... --resume.")
    return METHODS[method].load(run)
