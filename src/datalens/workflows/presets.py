"""Presets: `auto` chooses from public facts, `paper` is the paper, a TOML file is your own."""

import tomllib
from importlib.resources import files
from pathlib import Path
from typing import Any

from datalens.data.documents import read_toml
from datalens.errors import DataLensError

PAPER_SETS = ("mnist", "fashion-mnist", "celeba-gender", "celeba-hair", "places365")


def load_preset(preset: str, *, data_name: str, epsilon: float) -> dict[str, Any]:
    """The settings of a preset; explicit options override them later."""
    if preset == "auto":
        return {}
    if preset == "paper":
        if data_name not in PAPER_SETS:
            raise DataLensError(
                f"The preset paper is for {', '.join(PAPER_SETS)}, not {data_name}; use auto, or"
                " copy one of its files and pass it with --preset FILE.toml."
            )
        budget = "1" if epsilon <= 1 else "10"
        name = f"paper-{data_name}-epsilon-{budget}.toml"
        return tomllib.loads(files("datalens.workflows").joinpath("presets", name).read_text())
    if not preset.endswith(".toml"):
        raise DataLensError(f"Unknown preset {preset!r}; use auto, paper or a FILE.toml.")
    return read_toml(Path(preset))


def teachers_within(preset: dict[str, Any], n_records: int) -> int:
    """The paper's number of teachers, or as many as have shards of its size (`real_batch`)."""
    number: int = preset["n_teachers"]
    shard: int = preset["real_batch"]
    return number if n_records >= number * shard else max(1, n_records // shard)
