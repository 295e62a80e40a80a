"""The page of commands says what the command line says."""

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[3]


def test_the_page_of_commands_is_what_the_script_writes() -> None:
    script = [sys.executable, str(ROOT / "scripts" / "commands_page.py")]
    written = subprocess.run(script, capture_output=True, text=True, check=True).stdout
    page = (ROOT / "docs" / "reference" / "commands.md").read_text()
    assert page == written, "run: python scripts/commands_page.py > docs/reference/commands.md"
    # What it would say if the command line had not been found.
    for command in ("fit", "verify", "bench utility"):
        assert f"\n## datalens {command}\n" in page
    assert "| `--epsilon` |" in page
