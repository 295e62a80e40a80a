"""A rank that dies, hangs, errs or disagrees ends all, in one sentence, and nothing is lost."""

import json
import os
import signal
import sqlite3
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from .processes import Processes, wait_for

SETTINGS = ["--epsilon", 3, "--teachers", 9, "--steps", 25, "--batch-size", 2]
SETTINGS += ["--set", "block_size=2", "--set", "label_steps=2"]
SEEDED = [*SETTINGS, "--seed", 1, "--not-private"]
GONE = "is gone or does not answer"


def start(size: int, folder: Path, *words: object) -> Processes:
    return Processes(size, folder, lambda rank: ["fit", "digits", *words])


@pytest.fixture(scope="module")
def uninterrupted(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same run, left in peace, on a ledger of its own."""
    folder = tmp_path_factory.mktemp("uninterrupted")
    home = {"DATALENS_HOME": str(folder / "home")}
    words = ["fit", "digits", *SEEDED, "--out", folder / "run"]
    run = Processes(1, folder / "of", lambda rank: words, lambda rank: home)
    assert run.codes() == [0], run.sentences()
    return folder / "run"


def assert_as_if_nothing_had_happened(out: Path, uninterrupted: Path) -> None:
    """The same generator and the same charges, each made once."""
    name = "generator.safetensors"
    assert (out / name).read_bytes() == (uninterrupted / name).read_bytes()
    charges = [
        [(row["key"], row["body"].get("charge")) for row in json.loads(text)["rows"]]
        for text in ((folder / "ledger.json").read_text() for folder in (out, uninterrupted))
    ]
    assert charges[0] == charges[1]
    assert len({key for key, _ in charges[0]}) == len(charges[0])


@pytest.mark.parametrize("victim", [0, 2])
def test_a_killed_rank_and_resume_with_another_number(
    tmp_path: Path, uninterrupted: Path, victim: int
) -> None:
    out = tmp_path / "run"
    ranks = start(3, tmp_path / "before", *SEEDED, "--out", out)
    wait_for(out / "internal" / "releases" / "votes-3.npy")
    ranks.kill(victim, signal.SIGKILL)
    codes = ranks.codes()
    assert codes.pop(victim) == -signal.SIGKILL and codes == [2, 2]
    said = ranks.sentences()
    del said[victim]
    assert all(f"rank {victim} {GONE}" in sentence for sentence in said)
    assert not (out / "certificate.json").exists()

    again = start(2, tmp_path / "after", "--out", out, "--resume")
    assert again.codes() == [0, 0], again.sentences()
    assert_as_if_nothing_had_happened(out, uninterrupted)


@pytest.mark.parametrize("victim", [0, 1])
def test_a_hung_rank_is_given_up(tmp_path: Path, victim: int) -> None:
    out = tmp_path / "run"
    ranks = start(3, tmp_path / "of", *SEEDED, "--out", out, "--rank-timeout", 4)
    wait_for(out / "internal" / "releases" / "votes-3.npy")
    ranks.kill(victim, signal.SIGSTOP)
    stopped = time.monotonic()
    try:
        others = [p for rank, p in enumerate(ranks.processes) if rank != victim]
        for process in others:
            process.join(60)
        assert [process.exitcode for process in others] == [2, 2]
        assert time.monotonic() - stopped < 60  # and not the ten minutes that are usual
        said = ranks.sentences()
        del said[victim]
        assert all(f"rank {victim} {GONE} (waited 4 s at most)" in s for s in said)
    finally:
        ranks.kill(victim, signal.SIGKILL)


def test_told_to_end(tmp_path: Path) -> None:
    """As torchrun tells the others when one has died."""
    out = tmp_path / "run"
    ranks = start(3, tmp_path / "of", *SEEDED, "--out", out)
    wait_for(out / "internal" / "releases" / "votes-3.npy")
    for rank in range(3):
        ranks.kill(rank, signal.SIGTERM)
    assert ranks.codes() == [2, 2, 2]
    for rank, said in enumerate(ranks.sentences()):  # cut off within a message, it hears no more
        assert "was told to end (SIGTERM)" in said or GONE in said
        assert ranks.err(rank).count("datalens: ") == 1 and "Traceback" not in ranks.err(rank)


@pytest.mark.parametrize("sizes", [(3, 2), (1, 3)])
def test_ctrl_c_stops_all_at_one_checkpoint(
    tmp_path: Path, uninterrupted: Path, sizes: tuple[int, int]
) -> None:
    out = tmp_path / "run"
    ranks = start(sizes[0], tmp_path / "before", *SEEDED, "--out", out)
    wait_for(out / "internal" / "releases" / "votes-3.npy")
    for rank in range(sizes[0]):  # as a terminal does
        ranks.kill(rank, signal.SIGINT)
    assert ranks.codes() == [130] * sizes[0], ranks.sentences()
    assert "Go on with: datalens fit digits" in ranks.err(0)
    (step,) = (out / "internal" / "checkpoint").iterdir()
    assert len(list(step.glob("teachers-*.safetensors"))) == sizes[0]

    log = (out / "log.jsonl").read_text().splitlines()
    again = start(sizes[1], tmp_path / "after", "--out", out, "--resume")
    assert again.codes() == [0] * sizes[1], again.sentences()
    assert_as_if_nothing_had_happened(out, uninterrupted)
    assert len((out / "log.jsonl").read_text().splitlines()) == 4 + 25  # the warm start, the votes
    assert not (out / "internal" / "checkpoint").exists()
    assert json.loads(log[-1])["done"] == int(step.name.removeprefix("step-")) + 1


def test_machines_without_a_shared_folder(tmp_path: Path, uninterrupted: Path) -> None:
    """Every rank has a folder of its own; then rank 1's is lost, and all is replayed."""
    places = [tmp_path / "here", tmp_path / "there"]
    for place in places:
        place.mkdir()

    def run(name: str, *words: object) -> Processes:
        return Processes(
            2,
            tmp_path / name,
            lambda rank: ["fit", "digits", *words, "--out", "run"],
            lambda rank: {"START_IN": str(places[rank])},
        )

    ranks = run("first", *SEEDED)
    wait_for(places[0] / "run" / "internal" / "releases" / "votes-3.npy")
    ranks.kill(0, signal.SIGINT)
    assert ranks.codes() == [130, 130], ranks.sentences()
    parts = [sorted(p.name for p in place.glob("run/internal/checkpoint/*/*")) for place in places]
    assert parts == [
        ["student.safetensors", "teachers-000000-000003.safetensors"],
        ["teachers-000004-000008.safetensors"],
    ]
    assert not (places[1] / "run" / "config.toml").exists()
    assert (places[1] / "run" / "internal").stat().st_mode & 0o077 == 0
    (places[1] / "run").rename(tmp_path / "lost")
    ranks = run("second", "--resume")
    assert ranks.codes() == [0, 0], ranks.sentences()
    assert_as_if_nothing_had_happened(places[0] / "run", uninterrupted)


def ledger_rows(home: Path) -> int:
    rows = 0
    for path in home.glob("ledgers/*.sqlite"):
        with sqlite3.connect(path) as database:
            rows += database.execute("SELECT COUNT(*) FROM entries").fetchone()[0]
    return rows


def test_other_settings_on_one_rank(tmp_path: Path, own_home: Path) -> None:
    def words(rank: int) -> list[object]:
        size = 0.05 if rank < 2 else 0.06
        return ["fit", "digits", *SETTINGS, "--step-size", size, "--out", tmp_path / "run"]

    ranks = Processes(3, tmp_path / "of", words)
    assert ranks.codes() == [2, 2, 2]
    assert all("the ranks differ in the configuration: rank 0 has" in s for s in ranks.sentences())
    assert all("rank 2 has" in s and "rank 1 has" not in s for s in ranks.sentences())
    assert not (tmp_path / "run").exists() and ledger_rows(own_home) == 0


def test_other_data_on_one_rank(tmp_path: Path, own_home: Path) -> None:
    chance = np.random.default_rng(0)
    for rank in range(2):
        (tmp_path / str(rank)).mkdir()
        images = chance.integers(0, 256, (60, 8, 8), dtype=np.uint8)
        np.savez(tmp_path / str(rank) / "own.npz", images=images, labels=np.arange(60) % 3)

    def words(rank: int) -> list[object]:
        data = tmp_path / str(rank) / "own.npz"
        return ["fit", data, "--classes", 3, *SETTINGS, "--out", tmp_path / "run"]

    ranks = Processes(2, tmp_path / "of", words)
    assert ranks.codes() == [2, 2]
    assert all("the ranks differ in the data: rank 0 has" in s for s in ranks.sentences())
    assert not (tmp_path / "run").exists() and ledger_rows(own_home) == 0


def test_an_error_of_one_rank_is_everybody_s(tmp_path: Path, own_home: Path) -> None:
    def words(rank: int) -> list[object]:
        return ["fit", "nowhere.npz" if rank == 1 else "digits", *SETTINGS, "--out", tmp_path / "r"]

    ranks = Processes(3, tmp_path / "of", words)
    assert ranks.codes() == [2, 2, 2]  # soon, and not after the ten minutes a rank may take
    said = ranks.sentences()
    assert all("nowhere.npz is neither a data set by name" in sentence for sentence in said)
    assert said[0] == said[2] and said[0].startswith("datalens: rank 1: nowhere.npz")
    assert said[1].startswith("datalens: nowhere.npz")
    assert ledger_rows(own_home) == 0


def test_other_threads_on_one_rank(tmp_path: Path) -> None:
    ranks = Processes(
        2,
        tmp_path / "of",
        lambda rank: ["fit", "digits", *SETTINGS, "--out", tmp_path / "run"],
        lambda rank: {"OMP_NUM_THREADS": str(rank + 1)},
    )
    assert ranks.codes() == [2, 2]
    sentence = "the ranks differ in the number of threads: rank 0 has 1, rank 1 has 2"
    assert all(sentence in said for said in ranks.sentences())


def test_a_rank_that_never_comes(tmp_path: Path) -> None:
    """Rank 2 of 3 is not started."""
    ranks = Processes(
        2,
        tmp_path / "of",
        lambda rank: ["fit", "digits", *SETTINGS, "--out", tmp_path / "r", "--rank-timeout", 2],
        lambda rank: {"WORLD_SIZE": "3"},
    )
    assert ranks.codes() == [2, 2]
    assert all("the ranks cannot meet at 127.0.0.1:" in said for said in ranks.sentences())


def children(process: int) -> dict[int, int]:
    """Process numbers of a process's ranks."""
    found = {}
    for child in Path(f"/proc/{process}/task/{process}/children").read_text().split():
        environment = Path(f"/proc/{child}/environ").read_bytes().split(b"\0")
        for entry in environment:
            if entry.startswith(b"RANK="):
                found[int(entry.removeprefix(b"RANK="))] = int(child)
    return found


@pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="looks for ranks in /proc")
def test_torchrun_itself(tmp_path: Path, uninterrupted: Path) -> None:
    """A rank is killed; torchrun tells the others to end, and still each has its sentence."""
    out = tmp_path / "run"
    launch = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", "2", "-m"]
    words = ["datalens", "fit", "digits", *map(str, SEEDED), "--out", str(out)]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    with subprocess.Popen(
        [*launch, *words], env=environment, stderr=subprocess.PIPE, text=True
    ) as launcher:
        wait_for(out / "internal" / "releases" / "votes-3.npy")
        os.kill(children(launcher.pid)[1], signal.SIGKILL)
        said = launcher.communicate(timeout=60)[1]
    assert launcher.returncode != 0
    assert f"datalens: rank 1 {GONE}" in said
    again = start(1, tmp_path / "after", "--out", out, "--resume")
    assert again.codes() == [0], again.sentences()
    assert_as_if_nothing_had_happened(out, uninterrupted)
