"""What several commands have in common."""

import json
import sys
from pathlib import Path
from typing import Annotated, Any

import typer

Json = Annotated[bool, typer.Option("--json", help="Print one JSON object and nothing else.")]
DataDir = Annotated[Path | None, typer.Option(help="Where data sets lie (else DATALENS_DATA).")]
ImageSize = Annotated[int | None, typer.Option(help="Resize images to this many pixels square.")]
Classes = Annotated[int | None, typer.Option(help="Number of classes; public by your word.")]

SEEDED = "NOT PRIVATE: the noise came from a seed."


def print_json(result: dict[str, Any]) -> None:
    """One object on one line, for machines."""
    sys.stdout.write(json.dumps(result) + "\n")
