"""Whether a reader behaves: it reads, or it says one sentence; soon, and within some memory."""

import ctypes
import faulthandler
import gc
import multiprocessing
import resource
import signal
import sys
import unicodedata
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from multiprocessing.connection import Connection
from pathlib import Path
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


def judge(
    read: Callable[[], object], *, names: tuple[str, ...], mebibytes: int = MEBIBYTES
) -> bool:
    """Whether the file was read; anything but reading and one sentence is a failure.

    The sentence holds one of `names`, and the process grows by less than `mebibytes`.
    """
    _forget_peak()
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
    assert _peak() - before < mebibytes, f"took {_peak() - before} MiB"
    return taken


def confined(read: Callable[[], object], *, names: tuple[str, ...], mebibytes: int) -> bool:
    """The same in a process of its own, which may grow by `mebibytes` and no more.

    Its peak is measured, because a reader might make a sentence of a refused allocation; and it
    is refused 8 GiB, so that a reader without bounds ends itself and not the machine.
    """
    forked = multiprocessing.get_context("fork")
    ours, theirs = forked.Pipe(duplex=False)
    process = forked.Process(target=_confined, args=(theirs, read, names, mebibytes))
    process.start()
    theirs.close()
    try:
        verdict = ours.recv() if ours.poll(3 * SECONDS) else "still reading"
    except EOFError:
        verdict = "the reader's process died"
    process.kill()
    process.join()
    assert isinstance(verdict, bool), verdict
    return verdict


def _confined(
    result: Connection, read: Callable[[], object], names: tuple[str, ...], mebibytes: int
) -> None:
    gc.freeze()  # what other tests left lying about is not for this process to clear up
    held = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (held + 8 * 2**30, held + 8 * 2**30))
    try:
        taken: object = judge(read, names=names, mebibytes=mebibytes)
    except BaseException as error:
        taken = f"{type(error).__name__}: {error}"
    result.send(taken)


def check_sentence(text: str, names: tuple[str, ...]) -> None:
    assert text.endswith("."), text
    assert not any(unicodedata.category(letter)[0] == "C" for letter in text), repr(text)
    assert len(text) <= LONGEST_SENTENCE, text
    assert any(name in text for name in names), f"{text!r} names none of {names}"


@contextmanager
def deadline() -> Iterator[None]:
    """A hang ends in an error; one in compiled code, which hears no signal, ends the process."""
    seconds = SECONDS

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


def _forget_peak() -> None:
    """From now on the peak is that of what follows.

    What lies about freed is given back first: a reader that takes it would seem to take nothing.
    """
    if trim := getattr(ctypes.CDLL(None), "malloc_trim", None):
        trim(0)
    Path("/proc/self/clear_refs").write_text("5")


def _peak() -> int:
    """The most this process has taken since its peak was forgotten, in MiB."""
    lines = Path("/proc/self/status").read_text().splitlines()
    (peak,) = (line.split()[1] for line in lines if line.startswith("VmHWM"))
    return int(peak) // 1024
