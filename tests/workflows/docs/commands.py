"""Whether the command line would take some words, without running them."""

import re
from collections.abc import Sequence
from typing import Any

import typer

from datalens.workflows.cli import app

NUMBERS = {"N": "2", "EPSILON": "1"}
"""What pages write for a number."""


def command_of(words: Sequence[str]) -> tuple[Any, list[str]]:
    """The command that they name, and what it is given."""
    command, rest = typer.main.get_command(app), list(words[1:])
    while hasattr(command, "commands"):
        name = rest.pop(0)
        if name not in command.commands:
            raise ValueError(f"There is no command {name}.")
        command = command.commands[name]
    return command, rest


def check(words: Sequence[str]) -> None:
    """Raise if a command, an option or a value is not what the command line takes."""
    command, rest = command_of(words)
    command.make_context(command.name, [NUMBERS.get(word, word) for word in rest])


def check_options(words: Sequence[str]) -> None:
    """Raise if the command or an option does not exist; what is missing may be missing."""
    command, rest = command_of(words)
    known = {name for parameter in command.params for name in parameter.opts}
    known |= {name for parameter in command.params for name in parameter.secondary_opts}
    for word in rest:
        option = re.match(r"--[a-z-]+", word)
        if option and option[0] not in known | {"--help"}:
            raise ValueError(f"{command.name} has no option {option[0]}.")
