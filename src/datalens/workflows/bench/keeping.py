"""Result files: the figures as JSON, and as a page that says where they came from."""

import json
import shlex
import sys
from pathlib import Path
from typing import Any

from datalens.workflows.bench.tables import Rows, for_markdown


def keep(out: Path, result: dict[str, Any], tables: dict[str, Rows]) -> None:
    """Write OUT.json and OUT.md."""
    command = " ".join(["datalens", *map(shlex.quote, sys.argv[1:])])
    out.parent.mkdir(parents=True, exist_ok=True)
    Path(f"{out}.json").write_text(json.dumps({"command": command, **result}, indent=1) + "\n")
    machine = ", ".join(f"{name} {value}" for name, value in result["machine"].items())
    body = "\n".join(for_markdown(title, rows) for title, rows in tables.items())
    Path(f"{out}.md").write_text(f"`{command}`\n\n{machine}\n\n{body}")
