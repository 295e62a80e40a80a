"""What a run keeps for itself: where its secret comes from, and who can read it."""

import os
import secrets
from collections.abc import Iterator
from pathlib import Path

import pytest

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

    def crash(self: Session, plan: object, records: object) -> None:
        found.extend(readable_by_others(self.folder))
        reserve(self, plan, records)  # type: ignore[arg-type]
        raise KeyboardInterrupt

    learner = make_synthesizer(
        "class-gaussian", preset="auto", data_name="digits", overrides={"epsilon": 1.0}
    )
    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(Session, "reserve", crash)
        fit_run(learner, Source(name="digits"), out, ledger=None, seed=None, quiet=True)
    found += readable_by_others(out / "internal")
    resume_run(Source(name="digits"), out, epsilon=None, quiet=True)
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


def test_halves_of_files_that_a_crash_left_are_removed_on_resume(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = tmp_path / "run"
    learner = make_synthesizer(
        "class-gaussian", preset="auto", data_name="digits", overrides={"epsilon": 1.0}
    )

    def crash(self: Session, plan: object, records: object) -> None:
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
    resume_run(Source(name="digits"), out, epsilon=None, quiet=True)
    assert (out / "certificate.json").exists() and not any(path.exists() for path in left)
