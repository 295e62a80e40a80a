"""Kill -9 at any moment: no charge is missing, the ledger opens, nothing is drawn twice."""

import multiprocessing
import os
import random
import shutil
import signal
import time
from collections import Counter
from pathlib import Path
from typing import NamedTuple

import pytest

from datalens.data import load
from datalens.errors import DataLensError
from datalens.mechanism.events import Event
from datalens.privacy.ledger import Ledger
from datalens.privacy.verify import verify
from datalens.synthesizers import METHODS
from datalens.synthesizers.dpgan import BLOCK
from datalens.synthesizers.session import Session, run_of

from . import spender

PRELOADED = ["tests.privacy.spender"]
PRELOADED_TO_TRAIN = [
    "datalens.workflows.fitting",
    "datalens.classifiers.dpsgd",
    "opendp.prelude",
    "sklearn.datasets",
]
"""What takes a second to import: kills are to meet runs at work."""
KILLS = {"mixture": 67, "votes": 67, "dp-sgd": 66}
SEED = 6


def killed_after(seconds: float, target: object, *words: object, grows: Path | None = None) -> bool:
    """Whether the process was still at work when it was killed; `grows` is waited for first."""
    process = CONTEXT.Process(target=target, args=words)
    before = len(lines(grows)) if grows else 0
    process.start()
    patience = time.monotonic() + 60
    while grows and len(lines(grows)) == before and time.monotonic() < patience:
        time.sleep(0.001)
    process.join(seconds)
    still = process.is_alive()
    if still and process.pid is not None:
        os.kill(process.pid, signal.SIGKILL)
    process.join(60)
    assert still or process.exitcode == 0
    return still


CONTEXT = multiprocessing.get_context("forkserver")


def lines(path: Path) -> list[str]:
    return path.read_text().split() if path.exists() else []


def check_books(ledger: Ledger, run: str, sums: list[str], releases: Path) -> set[str]:
    """What must hold after any crash; returns the charges whose release was lost."""
    charged = [row.key.removeprefix("spend/") for row in ledger.rows(run) if row.kind == "spend"]
    files = {path.stem for path in releases.glob("*.npy")}
    stored = {key for key in charged if key.replace("/", "-") in files}
    assert len(set(sums)) == len(sums), "a key has two releases"
    assert len(set(charged)) == len(charged), "a release was charged twice"
    assert set(sums) <= set(charged), "a value was used whose charge is missing"
    assert stored <= set(sums), "a release is stored that nobody formed"
    assert len(stored) == len(files), "a release is stored that nobody paid for"
    return set(charged) - stored


def kill_spenders(folder: Path, kills: int, chance: random.Random) -> None:
    CONTEXT.set_forkserver_preload(PRELOADED)
    killed_after(60, spender.spend, folder, 1)  # the server has started, the run has begun
    for number in range(kills):  # every other one is certainly in the midst of it
        grows = folder / "sums" if number % 2 else None
        words = (spender.spend, folder, spender.RESERVED)
        assert killed_after(chance.uniform(0, 0.06), *words, grows=grows)
    ledger = Ledger(folder / "data.sqlite")
    lost = check_books(ledger, "run", lines(folder / "sums"), folder / "releases")
    done = len(ledger.charges("run"))
    assert done >= kills / 2
    assert not killed_after(120, spender.spend, folder, done + 3, folder / "lost")
    after = check_books(ledger, "run", lines(folder / "sums"), folder / "releases")
    assert set(lines(folder / "lost")) == lost == after  # charged, and gone on without
    assert len(ledger.charges("run")) == done + 3


def test_twenty_kills_of_a_light_spender(tmp_path: Path) -> None:
    kill_spenders(tmp_path, 20, random.Random(4))


@pytest.mark.slow
def test_two_hundred_kills_of_a_light_spender(tmp_path: Path) -> None:
    kill_spenders(tmp_path, 200, random.Random(5))


class Toll(NamedTuple):
    """What kills of real training have cost."""

    kills: int
    runs: int
    """That had begun, each killed and resumed until it ended."""
    charges: int
    """In the ledgers, of all these runs; none is missing, and none was made twice."""
    lost: int
    """Charges whose release is missing: of DP-SGD, a block of 100 steps."""
    ended: int
    """Runs that could not go on."""


def kill_training(folder: Path, kind: str, kills: int, chance: random.Random) -> Toll:
    """Runs are killed and gone on with until they end, one after the other on one ledger."""
    CONTEXT.set_forkserver_preload([*PRELOADED, *PRELOADED_TO_TRAIN])
    started = time.monotonic()
    assert not killed_after(600, spender.train, folder, folder / "whole", kind)
    length = time.monotonic() - started
    killed = runs = charges = lost = 0
    while killed < kills:
        out = folder / f"run-{runs}"
        while not (out / "certificate.json").exists():
            if out.exists() and not (out / "config.toml").exists():
                break  # killed before it began: such a run has cost nothing
            if out.name in lines(folder / spender.ENDED):
                break
            after = chance.uniform(0, length) if killed < kills else 600
            killed += killed_after(after, spender.train, folder, out, kind)
        if not (out / "config.toml").exists():
            shutil.rmtree(out)
            continue
        runs += 1
        ledger = Ledger(folder / "home" / "ledgers" / f"{kind}.sqlite")
        run, sums = run_of(out / "internal"), lines(folder / f"sums-{out.name}")
        if kind == "dp-sgd":
            lost += check_blocks(ledger, run, sums)
        else:
            lost += len(check_books(ledger, run, sums, out / "internal" / "releases"))
        charges += sum(row.kind == "spend" for row in ledger.rows(run))
        if (out / "certificate.json").exists():
            assert verify(out, ledger=ledger.path) == []
            assert not list(out.rglob("*.part"))
    return Toll(killed, runs, charges, lost, len(lines(folder / spender.ENDED)))


def check_blocks(ledger: Ledger, run: str, sums: list[str]) -> int:
    """As `check_books`, where steps are charged in blocks; the blocks that were not whole."""
    charged = [row.key.removeprefix("spend/") for row in ledger.rows(run) if row.kind == "spend"]
    steps = [int(key.rsplit("/", 1)[1]) for key in sums]
    blocks = Counter(f"steps/{step - step % BLOCK}" for step in steps)
    assert len(set(steps)) == len(steps), "a step was taken twice"
    assert len(set(charged)) == len(charged), "a block was charged twice"
    assert set(blocks) <= set(charged), "a step was taken whose charge is missing"
    return sum(blocks[block] < BLOCK for block in charged)


def test_three_kills_of_real_training(tmp_path: Path) -> None:
    kill_training(tmp_path, "mixture", 3, random.Random(SEED))


@pytest.mark.slow
@pytest.mark.parametrize("kind, kills", KILLS.items())
def test_two_hundred_kills_of_real_training(kind: str, kills: int, tmp_path: Path) -> None:
    """benchmarks/kills.py makes the table in docs/resuming.md in the same way."""
    assert kill_training(tmp_path, kind, kills, random.Random(SEED)).ended <= kills / 20


@pytest.mark.parametrize(
    "method, settings, key",
    [
        ("class-gaussian", {}, "second-moments"),
        ("datalens", {}, "class-sums"),
        ("dp-merf", {"waves": 20, "updates": 2}, "feature-sums"),
    ],
)
def test_a_run_that_cannot_go_on_says_what_to_do(
    method: str, settings: dict[str, int], key: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    records, spend = load("digits"), Ledger.spend

    def crash(self: Ledger, run: str, now: str, event: Event, *, count: int) -> None:
        spend(self, run, now, event, count=count)
        if now == key:
            raise KeyboardInterrupt

    session = Session.start(ledger="toy", folder=tmp_path / "internal")
    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(Ledger, "spend", crash)
        METHODS[method](epsilon=8.0, **settings).fit(records, session=session)
    resumed = Session.resume(folder=session.folder)
    said = rf"stays spent on the ledger toy\. .*datalens ledger toy --end {session.run}"
    with pytest.raises(DataLensError, match=said):
        METHODS[method](epsilon=8.0, **settings).fit(records, session=resumed)
    assert [row.key for row in session.ledger.rows(session.run)][-1] == f"spend/{key}"
