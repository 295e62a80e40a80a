"""Every command and its options, from the command line itself.

python scripts/commands_page.py > docs/reference/commands.md
"""

import re
from collections.abc import Iterator
from typing import Any

import typer

from datalens.workflows.cli import app

HEAD = """# Commands

Written by `scripts/commands_page.py` from what `datalens COMMAND --help` says. Exit code 0: done;
1: it ran, and what was asked does not hold or came to nothing; 2: it cannot be done as asked, and
one sentence says why.
"""


def page() -> str:
    """The whole page."""
    return "\n".join([HEAD, *(_section(*each) for each in _commands(typer.main.get_command(app)))])


def _commands(command: Any, name: str = "datalens") -> Iterator[tuple[str, Any]]:
    """Commands that do something, under their whole names, as --help lists them."""
    below = getattr(command, "commands", {})
    if not below:
        yield name, command
    for word, each in below.items():
        yield from _commands(each, f"{name} {word}")


def _section(name: str, command: Any) -> str:
    given = [each for each in command.params if each.param_type_name == "argument"]
    options = [each for each in command.params if each.param_type_name == "option"]
    usage = " ".join([name, *(_argument(each) for each in given), "[OPTIONS]" if options else ""])
    rows = [(_argument(each), each.help or "", "") for each in given]
    rows += [
        (", ".join(each.opts + each.secondary_opts), each.help or "", each) for each in options
    ]
    lines = [
        f"## {name}",
        "",
        f"`{usage.strip()}`",
        "",
        _sentences(command.help),
        "",
        "| | | default |",
        "|---|---|---|",
        *(f"| `{term}` | {_cell(said)} | {_default(option)} |" for term, said, option in rows),
        "",
    ]
    return "\n".join(lines)


def _argument(argument: Any) -> str:
    name = (argument.metavar or argument.name.upper()) + ("..." if argument.nargs == -1 else "")
    return name if argument.required else f"[{name}]"


def _sentences(text: str | None) -> str:
    """Paragraphs as they are; a line's end within one is a blank."""
    paragraphs = re.split(r"\n\s*\n", (text or "").strip())
    return "\n\n".join(" ".join(each.split()) for each in paragraphs)


def _cell(text: str) -> str:
    return " ".join(text.replace("|", "\\|").split())


def _default(option: Any) -> str:
    value = getattr(option, "default", None)
    plain = isinstance(value, (str, int, float)) and not isinstance(value, bool)
    return f"`{value}`" if plain and value != "" else ""


if __name__ == "__main__":
    print(page(), end="")
