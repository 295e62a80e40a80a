"""The judge itself: what it must not let pass, it does not."""

import time
import warnings
from collections.abc import Callable

import numpy as np
import pytest

from datalens.errors import DataLensError, printable

from . import judging
from .judging import Hang, confined, judge
from .mutations import of_bytes, of_json, of_toml


def refuse(sentence: str) -> Callable[[], object]:
    def read() -> None:
        raise DataLensError(sentence)

    return read


def test_a_reader_may_read_or_refuse() -> None:
    assert judge(lambda: 1, names=("own",)) is True
    assert judge(refuse("own.npz is cut short."), names=("own",)) is False


@pytest.mark.parametrize(
    "sentence",
    [
        "own has no full stop",
        "two\nlines about own.",
        "own \x1b[2J.",
        "nameless.",
        "own" * 999 + ".",
    ],
)
def test_other_sentences_fail(sentence: str) -> None:
    with pytest.raises(AssertionError):
        judge(refuse(sentence), names=("own",))


def test_any_other_error_fails() -> None:
    with pytest.raises(ZeroDivisionError):
        judge(lambda: 1 // 0, names=())


def test_warnings_fail() -> None:
    with pytest.raises(AssertionError, match="warning"):
        judge(lambda: warnings.warn("own is odd", stacklevel=1), names=())


def test_hangs_fail(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(judging, "SECONDS", 0.05)
    with pytest.raises(Hang):
        judge(lambda: time.sleep(9), names=())


def test_memory_fails() -> None:
    take = lambda size: np.ones(size * 2**20, dtype=np.uint8).sum()
    assert confined(lambda: take(8), names=(), mebibytes=32)
    with pytest.raises(AssertionError, match="took"):
        confined(lambda: take(64), names=(), mebibytes=32)


def test_memory_that_lay_about_freed_counts() -> None:
    np.ones(20 * 2**20, dtype=np.uint8)  # from now on pieces of that size come from the heap
    pieces = [np.ones(10 * 2**20, dtype=np.uint8) for _ in range(20)]
    last = pieces.pop()
    pieces.clear()
    with pytest.raises(AssertionError, match="took"):
        confined(lambda: np.ones(64 * 2**20, dtype=np.uint8).sum(), names=(), mebibytes=32)
    assert last.any()  # until here it kept what lies below from being given back


def test_mutants_differ_and_repeat() -> None:
    for mutate, content in (
        (of_bytes, b"some bytes of a file" * 9),
        (of_json, b'{"a": [1, 2, {"b": "c"}], "d": null}'),
        (of_toml, b'a = 1\n[b]\nc = "d"\n'),
    ):
        mutants = [mutate(content, number) for number in range(50)]
        assert mutants == [mutate(content, number) for number in range(50)]
        assert len(set(mutants)) > 30


def test_printable() -> None:
    assert (
        printable("a\nb\x1b[0m\udcff")
        == "a\N{REPLACEMENT CHARACTER}b\N{REPLACEMENT CHARACTER}[0m\N{REPLACEMENT CHARACTER}"
    )
