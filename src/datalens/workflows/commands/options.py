"""What several commands have in common."""

import json
import math
import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from datalens.errors import DataLensError

Epsilon = Annotated[
    float | None, typer.Option(help="Privacy budget: epsilon in (epsilon, delta)-privacy.")
]
Delta = Annotated[
    float | None,
    typer.Option(help="delta in (epsilon, delta)-privacy. Default: 1e-5."),
]
LargeDelta = Annotated[
    bool,
    typer.Option(
        "--allow-large-delta",
        help="Accept a delta above 1 / number of records, which allows publishing a whole record.",
    ),
]
LedgerName = Annotated[
    str | None, typer.Option(help="Ledger to charge. Default: the one named after the data.")
]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON object and nothing else.")]
DataDir = Annotated[Path | None, typer.Option(help="Where data sets lie (else DATALENS_DATA).")]
ImageSize = Annotated[
    int | None, typer.Option(help="Resize to this many pixels square; a folder: 64.")
]
Colour = Annotated[
    bool | None,
    typer.Option(
        "--colour/--grey", help="Read a folder's or table's pictures in colour (default) or grey."
    ),
]
Classes = Annotated[int | None, typer.Option(help="Number of classes, which you declare public.")]
Seed = Annotated[
    int | None,
    typer.Option(
        help="Seed of all randomness, noise too: reproducible, not private. Needs --not-private."
    ),
]
NotPrivate = Annotated[
    bool, typer.Option("--not-private", help="Confirm that the run protects nobody.")
]
Others = Annotated[
    list[str] | None,
    typer.Option("--set", help="Any other setting: NAME=VALUE; docs/methods lists them."),
]
Resume = Annotated[bool, typer.Option("--resume", help="Go on with the run in --out.")]

NOT_PRIVATE = {
    "seeded": "NOT PRIVATE: the noise came from a seed.",
    "none": "NOT PRIVATE: nothing was protected.",
}
"""What to say of a run that protects nobody, by its kind of noise."""


def print_json(result: dict[str, Any]) -> None:
    """One object on one line, for machines."""
    sys.stdout.write(json.dumps(result) + "\n")


def pairs(texts: list[str]) -> dict[str, str]:
    """What --set was given."""
    found = {}
    for text in texts:
        name, equals, value = text.partition("=")
        if not equals or not name:
            raise DataLensError(f"--set takes NAME=VALUE, got {text!r}.")
        found[name] = value
    return found


def chosen(given: dict[str, Any], set_: list[str]) -> dict[str, Any]:
    """The settings that were given, by their own options or with --set."""
    others = pairs(set_)
    if doubled := set(others) & set(given):
        raise DataLensError(f"{', '.join(sorted(doubled))}: use its own option, not --set.")
    return {name: value for name, value in given.items() if value is not None} | others


def positive_number(option: str, text: str) -> float:
    """One of the numbers that an option lists."""
    try:
        number = float(text)
    except ValueError:
        number = math.nan
    if not 0 < number < math.inf:  # nor NaN
        raise DataLensError(f"{option} takes positive numbers, got {text!r}.")
    return number
