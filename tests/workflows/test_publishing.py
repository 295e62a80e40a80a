"""The published half of a run holds nothing of the records but the releases.

Two runs on very different data, in the second of which the first one's releases are replayed,
publish the same files byte for byte. So whatever is published can be computed from the releases
and from public facts alone.
"""

import shutil
from pathlib import Path

import numpy as np
import pytest

from datalens.synthesizers import METHODS
from datalens.synthesizers.session import Session
from datalens.workflows.fitting import Source, fit_run, resume_run
from datalens.workflows.publishing import export

SETTINGS = {
    "class-gaussian": {"label_prior": "bought"},
    "dp-merf": {"label_prior": "bought", "waves": 20, "updates": 3, "batch_size": 6},
    "pategan": {"label_prior": "bought", "noise": "laplace", "n_teachers": 6, "steps": 3}
    | {"batch_size": 4, "teacher_warm_up": 2, "teacher_learning_rate": 1e-3},
    "dpgan": {"label_prior": "bought", "steps": 12, "batch_size": 8, "width": 2},
    "datalens": {
        "label_prior": "bought",
        "n_teachers": 6,
        "steps": 3,
        "batch_size": 4,
        "label_steps": 2,
        "teacher_warm_up": 2,
    },
    "gpate": {
        "label_prior": "bought",
        "n_teachers": 6,
        "steps": 3,
        "batch_size": 4,
        "warm_up": 2,
    },
    "gswgan": {
        "label_prior": "bought",
        "n_teachers": 6,
        "steps": 12,
        "batch_size": 3,
        "latent": 4,
        "warm_up": 2,
        "refresh_every": 5,
    },
}


@pytest.fixture(params=sorted(SETTINGS))
def method(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def sources(tmp_path: Path) -> tuple[Source, Source]:
    """Alike in all that is public; in nothing else."""
    chance = np.random.default_rng(0)
    dark = np.zeros((60, 8, 8), dtype=np.uint8)
    noisy = chance.integers(0, 256, (60, 8, 8), dtype=np.uint8)
    labels = {"one": np.arange(60) % 3, "other": np.full(60, 2)}
    for name, images in (("one", dark), ("other", noisy)):
        (tmp_path / name).mkdir()
        np.savez(tmp_path / name / "faces.npz", images=images, labels=labels[name])
    one, other = (
        Source(name=str(tmp_path / name / "faces.npz"), n_classes=3) for name in ("one", "other")
    )
    return one, other


def fit(method: str, source: Source, out: Path, seed: int | None = None) -> None:
    made = METHODS[method](epsilon=5.0, **SETTINGS[method])
    fit_run(made, source, out, ledger="faces", seed=seed, quiet=True)


def published(run: Path, where: Path) -> dict[str, bytes]:
    export(run, where)
    return {file.name: file.read_bytes() for file in where.iterdir()}


def test_published_files_follow_from_the_releases(
    method: str, sources: tuple[Source, Source], tmp_path: Path
) -> None:
    one, other = sources
    fit(method, one, tmp_path / "a")
    inside = tmp_path / "b" / "internal"
    inside.mkdir(parents=True)
    shutil.copy(tmp_path / "a" / "config.toml", tmp_path / "b")
    shutil.copy(tmp_path / "a" / "internal" / "session.json", inside)
    shutil.copytree(tmp_path / "a" / "internal" / "releases", inside / "releases")
    for name in ("timings.json", "evaluation.json", "audit.json", "data_dependent.jsonl"):
        (inside / name).write_text("what lies here is of no consequence")
    secret = Session.resume(folder=inside).secret
    seal = other.records().seal(secret)  # other records than it was started on are refused
    (inside / "records").write_text(seal.tobytes().hex())
    resume_run(other, tmp_path / "b", quiet=True)
    first, second = (published(tmp_path / run, tmp_path / f"public-{run}") for run in "ab")
    assert set(first) >= {"certificate.json", "ledger.json", "report.html", "samples.png"}
    assert set(first) == set(second)
    for name, content in first.items():
        assert content == second[name], name


def test_without_the_replay_they_differ(
    method: str, sources: tuple[Source, Source], tmp_path: Path
) -> None:
    """The control: with the very same noise, the records do show in the releases."""
    for run, source in zip("ab", sources, strict=True):
        fit(method, source, tmp_path / run, seed=1)
    first, second = (published(tmp_path / run, tmp_path / f"public-{run}") for run in "ab")
    differ = {name for name in first if first[name] != second[name]}
    assert {"generator.safetensors", "samples.png"} <= differ


def test_no_fingerprint_is_published(
    method: str, sources: tuple[Source, Source], tmp_path: Path, own_home: Path
) -> None:
    import sqlite3

    one, _ = sources
    fit(method, one, tmp_path / "a")
    with sqlite3.connect(own_home / "known-records.sqlite") as database:
        (files, marks), (key,) = (
            database.execute(f"SELECT {what}").fetchone()
            for what in ("files, marks FROM known", "key FROM secret")
        )
    prints = [files, key, *(marks[at : at + 8] for at in range(0, len(marks), 8))]
    everything = b"".join(published(tmp_path / "a", tmp_path / "public").values())
    for value in (*prints, one.fingerprint()):
        for form in (value, value.hex().encode()):
            assert form not in everything


def test_other_data_on_a_ledger_are_noticed_and_let_in(
    sources: tuple[Source, Source], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for name, source in (("a", sources[0]), ("b", sources[0]), ("c", sources[1])):
        made = METHODS["class-gaussian"](epsilon=1.0)
        fit_run(made, source, tmp_path / name, ledger="faces", seed=None)
        said = " ".join(capsys.readouterr().err.split())
        assert ("no run is known that charged the ledger faces" in said) is (name == "c")
