"""Files that are whole and well-formed, and say what cannot be."""

import sqlite3
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

from datalens.data import PublicFacts
from datalens.mechanism.moments import ClassCounts
from datalens.privacy.calibration import affordable
from datalens.privacy.ledger import Ledger
from datalens.synthesizers import METHODS

from .judging import confined, judge
from .readers import READERS

# Settings.

EXTREMES: list[Any] = [0, 1, 2, -1, 10**9, 10**18, 0.5, 5e-324, 1e-300, 1e-12, 1e12, 1e20, 1e308]
FACTS = [
    PublicFacts(name="own", n_records=40, shape=(1, 8, 8), class_names=("ant", "bee")),
    PublicFacts(
        name="own", n_records=2**26, shape=(3, 64, 64), class_names=tuple(map(str, range(1000)))
    ),
]


@pytest.mark.parametrize("method", METHODS)
def test_settings_of_any_size_make_a_plan_or_a_sentence(method: str) -> None:
    """One or two numbers at a time: a plan takes no time, and its file reads back."""
    chance = Random(f"settings {method}")
    fields = list(METHODS[method].settings_type.model_fields)
    budget = {"epsilon": 5.0} if METHODS[method].private else {}
    for number in range(150):
        chosen = {
            chance.choice(fields): chance.choice(EXTREMES) for _ in range(chance.randint(1, 2))
        }
        plan = lambda: METHODS[method](**{**budget, **chosen}).resolve(FACTS[number % 2])  # noqa: B023
        try:
            judge(plan, names=(*fields, "teachers", "top-k", "batch-size", "rho"))
        except BaseException as error:
            error.add_note(f"{chosen} of {FACTS[number % 2].n_records} records")
            raise


def test_what_is_affordable_is_found_at_once_however_many_it_is() -> None:
    """Past 2**53 one less is the same float: counting down by one would not end."""
    chance = Random("affordable")
    for _ in range(2000):
        rho, each = 10 ** chance.uniform(-3, 9), 10 ** chance.uniform(-30, 1)
        count = affordable(rho, each)
        assert count * each <= rho < (count + 2 + count / 2**50) * each


# Generators.


def reshaped(arrays: dict[str, np.ndarray]) -> None:
    for name in arrays:
        arrays[name] = arrays[name].reshape(-1)


def recast(kind: str) -> Callable[[dict[str, np.ndarray]], None]:
    def change(arrays: dict[str, np.ndarray]) -> None:
        for name in set(arrays) - {"prior"}:
            arrays[name] = arrays[name].astype(kind)

    return change


def filled(value: float, *names: str) -> Callable[[dict[str, np.ndarray]], None]:
    def change(arrays: dict[str, np.ndarray]) -> None:
        for name in names or arrays:
            arrays[name] = np.full_like(arrays[name], value)

    return change


def without_prior(arrays: dict[str, np.ndarray]) -> None:
    del arrays["prior"]


def one_more(arrays: dict[str, np.ndarray]) -> None:
    arrays["more"] = np.zeros(3, dtype=np.float32)


def longer(arrays: dict[str, np.ndarray]) -> None:
    for name in arrays:
        arrays[name] = np.concatenate([arrays[name], arrays[name]])


GENERATORS = {
    "flat": reshaped,
    "doubles": recast("f8"),
    "integers": recast("i8"),
    "halves": recast("f2"),
    "NaN": filled(np.nan),
    "infinity": filled(np.inf),
    "huge": filled(3e38),
    "prior NaN": filled(np.nan, "prior"),
    "prior zero": filled(0.0, "prior"),
    "prior below": filled(-1.0, "prior"),
    "no prior": without_prior,
    "one more": one_more,
    "longer": longer,
}


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("case", GENERATORS)
def test_generators(case: str, method: str, tmp_path: Path) -> None:
    reader = READERS[f"sample generator.safetensors {method}"]
    reader.make(tmp_path)
    arrays = load_file(tmp_path / reader.file)
    GENERATORS[case](arrays)
    save_file(arrays, tmp_path / reader.file)
    names = ("generator", "config.toml")
    assert not judge(lambda: reader.read(tmp_path), names=names) or case == "huge"


# Ledgers.

LEDGERS = {
    "another table": ["DROP TABLE entries", "CREATE TABLE entries (x)"],
    "no text": ["UPDATE entries SET body = x'ff'"],
    "no JSON": ["UPDATE entries SET body = 'nothing'"],
    "deep JSON": ["UPDATE entries SET body = replace(hex(zeroblob(5000)), '0', '[')"],
    "other JSON": ["UPDATE entries SET body = '[1]'"],
    "no plan": ["""UPDATE entries SET body = '{"kind": "reserve"}'"""],
    "number": ["UPDATE entries SET body = 1"],
    "view": [
        "ALTER TABLE entries RENAME TO others",
        "CREATE VIEW entries AS SELECT * FROM others",
    ],
    "endless view": [
        "ALTER TABLE entries RENAME TO others",
        "CREATE VIEW entries AS WITH RECURSIVE again(x) AS (SELECT 1 UNION ALL SELECT x FROM again)"
        " SELECT * FROM others, again",
    ],
    "forgetful": [
        "CREATE TRIGGER forget AFTER INSERT ON entries BEGIN DELETE FROM entries WHERE"
        " key = new.key; END"
    ],
}


@pytest.mark.parametrize("case", LEDGERS)
def test_ledgers(case: str, tmp_path: Path) -> None:
    """A ledger that is a database, and not ours, is refused; above all one that forgets."""
    reader = READERS["ledger"]
    reader.make(tmp_path)
    with sqlite3.connect(tmp_path / reader.file) as database:
        for statement in LEDGERS[case]:
            database.execute(statement)
    database.close()
    names = ("own.sqlite", *reader.also)
    assert not confined(lambda: reader.read(tmp_path), names=names, mebibytes=64)


def test_a_ledger_of_our_own_is_not_refused(tmp_path: Path) -> None:
    READERS["ledger"].make(tmp_path)
    ledger = Ledger(tmp_path / "own.sqlite")
    ledger.spend("run", "more", ClassCounts(sigma=10.0, n_classes=3).event, count=1)
    assert ledger.has_spent("run", "more")
