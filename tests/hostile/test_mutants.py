"""A thousand broken files, some for every reader; thirty times as many under `-m slow`.

What is bounded, for every file: a reader reads it, or raises DataLensError with one printable
sentence that ends with a full stop, is at most 1,000 characters long and names the file; it
warns of nothing; it takes at most 10 s (an alarm; in compiled code, which hears none, a watchdog
ends the process with a traceback after 30 s) and lets the process grow by at most 256 MiB. The
files are at most 100 kB; what small files may claim to be is in test_bombs.py.

A failure says how to see it again: HOSTILE=NUMBER tries that mutant alone.
"""

import os
import shutil
from pathlib import Path

import pytest

from .judging import judge
from .readers import READERS

EXAMPLES = 30
SLOW_EXAMPLES = 1000


@pytest.mark.parametrize("name", READERS)
def test_a_broken_file_is_read_or_refused_in_one_sentence(name: str, tmp_path: Path) -> None:
    try_all(name, range(EXAMPLES), tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("name", READERS)
def test_thousands_of_broken_files(name: str, tmp_path: Path) -> None:
    try_all(name, range(EXAMPLES, SLOW_EXAMPLES), tmp_path)


@pytest.mark.parametrize("name", READERS)
def test_the_whole_file_is_read(name: str, tmp_path: Path) -> None:
    """The control: what is refused is refused for the damage."""
    reader = READERS[name]
    reader.make(tmp_path)
    assert judge(lambda: reader.read(tmp_path), names=())


def try_all(name: str, numbers: range, folder: Path) -> None:
    reader = READERS[name]
    if "HOSTILE" in os.environ:
        number = int(os.environ["HOSTILE"])
        numbers = range(number, number + 1)
    whole = folder / "whole"
    whole.mkdir()
    reader.make(whole)
    content = (whole / reader.file).read_bytes()
    for number in numbers:
        case = folder / "case"
        shutil.copytree(whole, case)
        (case / reader.file).write_bytes(reader.mutate(content, number))
        names = (Path(reader.file).name, *reader.also)
        try:
            judge(lambda: reader.read(case), names=names)  # noqa: B023
        except BaseException as error:
            error.add_note(
                f"Mutant {number} of {name}, in {case}. Again: HOSTILE={number} pytest"
                f" tests/hostile/test_mutants.py -k '{name} and broken_file'"
            )
            raise
        shutil.rmtree(case)
