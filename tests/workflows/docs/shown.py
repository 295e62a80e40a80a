"""What README.md and docs/ show a reader: commands, mentions of commands, Python."""

import re
import shlex
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[3]
PAGES = {
    str(path.relative_to(ROOT)): path
    for path in [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
}
PROGRAMS = ("datalens", "torchrun", "python", "make", "pip", "OMP_NUM_THREADS=1")
"""A line of an indented block is a command if it begins with one of these."""


@dataclass(frozen=True)
class Shown:
    """A command, as words, or a block of Python, as text."""

    line: int
    words: tuple[str, ...] = ()
    python: str = ""


def shown(text: str) -> list[Shown]:
    """All commands and Python blocks of a page, in its order."""
    found, fence, begun = list[Shown](), "", 0
    lines = text.split("\n")
    for number, line in enumerate(lines, start=1):
        if line.startswith("```"):
            if fence == "python":
                found.append(Shown(begun, python="\n".join(lines[begun : number - 1])))
            fence, begun = ("" if fence else line[3:].strip() or "text"), number
        elif not fence and line.startswith("    ") and line.split()[:1] in [[p] for p in PROGRAMS]:
            rest = line
            for following in lines[number:]:
                if not rest.endswith("\\"):
                    break
                rest = rest[:-1] + following
            found.append(Shown(number, words=words(rest)))
    return found


def words(command: str) -> tuple[str, ...]:
    """A command without its comment; what is optional is given, of a|b the first."""
    if command.split()[0] == "datalens":
        command = re.sub(r"\s*\|\s*[^\s\]]+", "", command).replace("[", "").replace("]", "")
    return tuple(shlex.split(command, comments=True))


def mentions(text: str) -> list[tuple[str, ...]]:
    """Commands in running text: `datalens ...`."""
    return [tuple(found.split()) for found in re.findall(r"`(datalens [a-z][^`]*)`", text)]
