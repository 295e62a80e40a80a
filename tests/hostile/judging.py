"""Whether a reader behaves: it reads, or it says one sentence; soon, and within some memory."""

import faulthandler
import resource
import signal
import sys
import unicodedata
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

from datalens.errors import DataLensError

SECONDS = 10
"""Longest that one reader may take over one small file; most take milliseconds."""
MEBIBYTES = 256
"""Most by which the process may grow over one small file."""
LONGEST_SENTENCE = 1000
"""Characters: a hostile file must not fill the terminal."""


class Hang(BaseException):
    """No kind of error that a reader might handle."""


def judge(read: Callable[[], object], *, names: tuple[str, ...]) -> bool:
    """Whether the file was read; anything but reading and one sentence is a failure.

    The sentence holds one of `names`.
    """
    before = _peak()
    with deadline(), warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        try:
            read()
            taken = True
        except DataLensError as error:
            taken = False
            check_sentence(str(error), names)
    assert not said, f"a warning reached the user: {said[0].message}"
    assert _peak() - before < MEBIBYTES, f"took {_peak() - before} MiB"
    return taken


def check_sentence(text: str, names: tuple[str, ...]) -> None:
    assert text.endswith("."), text
    assert not any(unicodedata.category(letter)[0] == "C" for letter in text), repr(text)
    assert len(text) <= LONGEST_SENTENCE, text
    assert any(name in text for name in names), f"{text!r} names none of {names}"


@contextmanager
def deadline(seconds: float = SECONDS) -> Iterator[None]:
    """A hang ends in an error; one in compiled code, which hears no signal, ends the process."""

    def end(number: int, frame: FrameType | None) -> None:
        raise Hang(f"still reading after {seconds} s")

    before = signal.signal(signal.SIGALRM, end)
    faulthandler.dump_traceback_later(3 * seconds, exit=True, file=sys.__stderr__)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        faulthandler.cancel_dump_traceback_later()
        signal.signal(signal.SIGALRM, before)


def _peak() -> int:
    """The most this process has ever taken, in MiB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
