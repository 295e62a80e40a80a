"""Kill -9 at any moment: no charge is missing, the ledger opens, nothing is drawn twice."""

import multiprocessing
import os
import random
import signal
import time
from pathlib import Path

import pytest

from datalens.privacy.ledger import Ledger
from datalens.privacy.verify import verify

from . import spender

PRELOADED = ["tests.privacy.spender"]


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


def check_books(ledger: Ledger, run: str, draws: list[str], releases: Path) -> set[str]:
    """What must hold after any crash; returns the charges whose release was lost."""
    charged = [row.key.removeprefix("spend/") for row in ledger.rows(run) if row.kind == "spend"]
    files = {path.stem for path in releases.glob("*.npy")}
    stored = {key for key in charged if key.replace("/", "-") in files}
    assert len(set(draws)) == len(draws), "a release was drawn twice"
    assert len(set(charged)) == len(charged), "a release was charged twice"
    assert set(draws) <= set(charged), "noise was drawn for a charge that is missing"
    assert stored <= set(draws), "a release is stored that nobody drew"
    assert len(stored) == len(files), "a release is stored that nobody paid for"
    return set(charged) - stored


def kill_spenders(folder: Path, kills: int, chance: random.Random) -> None:
    CONTEXT.set_forkserver_preload(PRELOADED)
    killed_after(60, spender.spend, folder, 1)  # the server has started, the run has begun
    for number in range(kills):  # every other one is certainly in the midst of it
        grows = folder / "draws" if number % 2 else None
        words = (spender.spend, folder, spender.RESERVED)
        assert killed_after(chance.uniform(0, 0.06), *words, grows=grows)
    ledger = Ledger(folder / "data.sqlite")
    lost = check_books(ledger, "run", lines(folder / "draws"), folder / "releases")
    done = len(ledger.charges("run"))
    assert done >= kills / 2
    assert not killed_after(120, spender.spend, folder, done + 3, folder / "lost")
    after = check_books(ledger, "run", lines(folder / "draws"), folder / "releases")
    assert set(lines(folder / "lost")) == lost == after  # charged, and gone on without
    assert len(ledger.charges("run")) == done + 3


def test_twenty_kills_of_a_light_spender(tmp_path: Path) -> None:
    kill_spenders(tmp_path, 20, random.Random(4))


@pytest.mark.slow
def test_two_hundred_kills_of_a_light_spender(tmp_path: Path) -> None:
    kill_spenders(tmp_path, 200, random.Random(5))


@pytest.mark.slow
def test_two_hundred_kills_of_real_training(tmp_path: Path, own_home: Path) -> None:
    """Runs are killed and gone on with until they end, one after the other on one ledger."""
    CONTEXT.set_forkserver_preload([*PRELOADED, "datalens.workflows.fitting"])
    chance, kills, runs, lost = random.Random(6), 0, 0, 0
    while kills < 200:
        out = tmp_path / f"run-{runs}"
        while not (out / "certificate.json").exists():
            if out.exists() and not (out / "config.toml").exists():
                break  # killed before it began: such a run has cost nothing
            kills += killed_after(chance.uniform(0.1, 4.0), spender.train, tmp_path, out)
        runs += 1
        if not (out / "certificate.json").exists():
            continue
        ledger = Ledger(tmp_path / "home" / "ledgers" / "digits.sqlite")
        draws = lines(tmp_path / f"draws-{out.name}")
        run = [r for r in ledger.standing().runs.values() if r.state == "ended"][-1].run
        lost += len(check_books(ledger, run, draws, out / "internal" / "releases"))
        assert verify(out, ledger=ledger.path) == []
    print(f"{kills} kills, {runs} runs, {lost} releases lost, {time.process_time():.0f} s")
