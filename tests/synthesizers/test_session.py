"""What a run keeps for itself: where its secret comes from, and who can read it."""

import os
import secrets
import shutil
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from datalens.data import Records
from datalens.errors import DataLensError
from datalens.privacy.ledger import ledger_path
from datalens.synthesizers.frozen import FrozenPlan
from datalens.synthesizers.session import Session, new_secret, run_of
from datalens.workflows.fitting import fit_run, make_synthesizer, resume_run
from datalens.workflows.source import Source


@pytest.fixture
def open_umask() -> Iterator[None]:
    """Whatever is made is open to all, unless somebody sees to it that it is not."""
    before = os.umask(0)
    yield
    os.umask(before)


def readable_by_others(folder: Path) -> list[Path]:
    """Files of a folder that another user of the machine could open."""
    if not folder.stat().st_mode & 0o011:
        return []
    return [path for path in folder.rglob("*") if path.is_file() and path.stat().st_mode & 0o044]


@pytest.mark.usefixtures("open_umask")
def test_nobody_else_can_read_what_is_internal(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither while a run is under way, nor when it was stopped, nor when it has ended."""
    out, found = tmp_path / "run", list[Path]()
    reserve = Session.reserve

    def crash(self: Session, plan: FrozenPlan, records: Records) -> None:
        found.extend(readable_by_others(self.folder))
        reserve(self, plan, records)
        raise KeyboardInterrupt

    learner = make_synthesizer(
        "class-gaussian", preset="auto", data_name="digits", overrides={"epsilon": 1.0}
    )
    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(Session, "reserve", crash)
        fit_run(learner, Source(name="digits"), out, ledger=None, seed=None, quiet=True)
    found += readable_by_others(out / "internal")
    resume_run(Source(name="digits"), out, quiet=True)
    assert found + readable_by_others(out / "internal") == []
    assert readable_by_others(out) != []  # the control: what is for publishing
    assert len(list((out / "internal" / "releases").iterdir())) == 2


def test_a_private_runs_secret_comes_from_the_operating_system(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = []

    def token_bytes(count: int) -> bytes:
        asked.append(count)
        return bytes([len(asked)]) * count

    monkeypatch.setattr(secrets, "token_bytes", token_bytes)
    made = [new_secret(None), new_secret(None)]
    assert made == [b"\x01" * 32, b"\x02" * 32] and asked == [32, 32]
    session = Session.start(ledger="a", folder=tmp_path / "internal")
    assert session.secret in {bytes([n]) * 32 for n in range(3, 1 + len(asked))}


def test_runs_of_the_same_second_have_secrets_of_their_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("time.time", lambda: 1.0)
    monkeypatch.setattr("time.time_ns", lambda: 10**9)
    runs = [Session.start(ledger="a", folder=tmp_path / f"{n}" / "internal") for n in range(3)]
    assert len({run.secret for run in runs}) == len({run_of(run.folder) for run in runs}) == 3
    assert all(len(run.secret) == 32 for run in runs)


def test_a_resumed_run_notices_that_its_ledger_was_put_back(tmp_path: Path) -> None:
    session = Session.start(ledger="a", folder=tmp_path / "internal")
    shutil.copy(session.ledger.path, tmp_path / "copy")
    session.ledger.reserve(session.run, [], facts={})
    Session.resume(folder=session.folder)
    shutil.copy(tmp_path / "copy", session.ledger.path)
    with pytest.raises(DataLensError, match="no longer the same"):
        Session.resume(folder=session.folder)
    ledger_path("a").unlink()
    with pytest.raises(DataLensError, match="is missing"):
        Session.resume(folder=session.folder)


def test_records_are_recognised_also_where_their_seal_was_removed(tmp_path: Path) -> None:
    """Others at the same positions would reach teachers that know those before."""
    images = np.random.default_rng(0).integers(0, 256, (9, 1, 8, 8), dtype=np.uint8)
    own, others = (Records.from_arrays(i, np.arange(9) % 3, n_classes=3) for i in (images, ~images))
    session = Session.start(ledger="a", folder=tmp_path / "internal")
    session.recognise(own)
    session.ledger.reserve(session.run, [], facts={})
    session.recognise(own)
    with pytest.raises(DataLensError, match="started on other records"):
        session.recognise(others)
    (session.folder / "records").unlink()
    with pytest.raises(DataLensError):
        session.recognise(others)


def test_only_a_seed_makes_floating_point_noise_repeatable(tmp_path: Path) -> None:
    def drawn(seed: int | None) -> list[float]:
        session = Session.start(ledger="a", folder=tmp_path / f"{seed}", seed=seed)
        values = np.zeros(3)
        noise = (session.float_noise.add(values, sigma=1.0, key="a") for _ in range(2))
        return [float(np.abs(each).sum()) for each in noise]

    private, seeded = drawn(None), drawn(1)
    assert private[0] != private[1] and seeded[0] == seeded[1]


def test_halves_of_files_that_a_crash_left_are_removed_on_resume(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = tmp_path / "run"
    learner = make_synthesizer(
        "class-gaussian", preset="auto", data_name="digits", overrides={"epsilon": 1.0}
    )

    def crash(self: Session, plan: FrozenPlan, records: Records) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(Session, "reserve", crash)
        fit_run(learner, Source(name="digits"), out, ledger=None, seed=None, quiet=True)
    left = [
        out / "internal" / name
        for name in ("releases/a.part", "checkpoint/step-00003/student.part", "checkpoint.part")
    ]
    for path in left:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(bytes(9))
    resume_run(Source(name="digits"), out, quiet=True)
    assert (out / "certificate.json").exists() and not any(path.exists() for path in left)
