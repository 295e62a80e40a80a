"""dcgan protects nobody, and nothing that it leaves behind can be taken for private."""

import hashlib
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from datalens.data import Records
from datalens.errors import DataLensError
from datalens.privacy.ledger import Ledger, ledger_path
from datalens.privacy.verify import claims_privacy, verify
from datalens.privacy.wording import SOURCES, statement
from datalens.synthesizers import dcgan
from datalens.synthesizers.dcgan import DcGan
from datalens.synthesizers.session import Session, Silent, Stopped

SMALL: dict[str, Any] = {"steps": 9, "batch_size": 6, "latent": 4, "width": 2}


def records() -> Records:
    images = np.random.default_rng(0).integers(0, 256, (60, 1, 8, 8), dtype=np.uint8)
    return Records.from_arrays(images, np.arange(60) % 3, n_classes=3, name="spots")


@pytest.fixture
def run(tmp_path: Path) -> Path:
    DcGan(**SMALL).fit(records()).save(tmp_path / "run")
    return tmp_path / "run"


@pytest.mark.parametrize("seed", [None, 3])
def test_everything_says_so(seed: int | None, tmp_path: Path) -> None:
    fitted = DcGan(**SMALL).fit(records(), seed=seed)
    certificate = fitted.certificate
    assert certificate["private"] is False
    assert certificate["statement"].startswith("NOT PRIVATE. Nothing was protected")
    assert certificate["noise"] == {"kind": "none", "source": SOURCES["none"]}
    assert "NOT PRIVATE" in SOURCES["none"]
    assert certificate["budget"] == {} and certificate["epsilon"] == {}
    assert certificate["delta"] is None and certificate["epsilon_replace"] is None
    assert certificate["mechanisms"] == [] and certificate["releases"] == 0
    fitted.save(tmp_path / "run")
    assert (tmp_path / "run" / "NOT-PRIVATE.txt").read_text().startswith("NOT PRIVATE")
    assert "epsilon" not in (tmp_path / "run" / "config.toml").read_text()
    assert verify(tmp_path / "run") == [] and not claims_privacy(tmp_path / "run")


def test_it_stays_off_the_ledger_of_the_data(own_home: Path) -> None:
    DcGan(**SMALL).fit(records())
    ledgers = [path.name for path in (own_home / "ledgers").glob("*.sqlite")]
    assert ledgers == ["spots.NOT-PRIVATE.sqlite"]
    (found,) = Ledger(ledger_path("spots.NOT-PRIVATE")).standing().runs.values()
    assert found.state == "ended" and found.reserved == [] and found.spent == []


@pytest.mark.parametrize("name", ["epsilon", "delta", "accountant"])
def test_a_budget_is_refused(name: str) -> None:
    value = "certified" if name == "accountant" else 0.5
    with pytest.raises(DataLensError, match=f"{name} cannot be given to a method that is NOT"):
        DcGan(**SMALL, **{name: value})


PRIVATE = {"kind": "exact", "source": SOURCES["exact"]}
FIGURES = {"certified": 1.0, "paper": 1.0, "gaussian": 1.0}
BUDGET = {"epsilon": 1.0, "delta": 1e-5, "accountant": "certified"}


def claimed(noise: str) -> str:
    return statement(private=noise == "exact", epsilon=1.0, delta=1e-5, records=60, noise=noise)


EDITS: list[dict[str, Any]] = [
    {"private": True},
    {"private": None},
    {"noise": PRIVATE},
    {"noise": {"kind": "seeded", "source": SOURCES["seeded"]}},
    {"epsilon": {"certified": 1.0}},
    {"epsilon": {"certified": 0.0}},
    {"epsilon_replace": 1.0},
    {"epsilon_replace": 0.0},
    {"delta": 1e-5},
    {"budget": BUDGET},
    {"releases": 1},
    {"statement": claimed("exact")},
    {"statement": "Safe."},
    {"method": "dpgan"},
    {"facts": {"steps": 1, "teachers": None, "label_prior": "uniform"}},
    {"generator_sha256": "0" * 64},
    {"private": True, "noise": PRIVATE, "statement": claimed("exact")},
    {
        "private": True,
        "noise": PRIVATE,
        "statement": claimed("exact"),
        "budget": BUDGET,
        "delta": 1e-5,
        "epsilon": FIGURES,
        "epsilon_replace": 1.0,
    },
]


@pytest.mark.parametrize("edit", EDITS, ids=str)
def test_verify_sees_every_edit(edit: dict[str, Any], run: Path) -> None:
    original = json.loads((run / "certificate.json").read_text())
    (run / "certificate.json").write_text(json.dumps({**original, **edit}))
    assert verify(run)


@pytest.mark.parametrize("alone", [False, True])
def test_a_careful_forger_is_seen_too(run: Path, alone: bool) -> None:
    """Certificate, ledger extract and chain all agree that the run had exact noise, and cost 0."""
    extract = json.loads((run / "ledger.json").read_text())
    rows = extract["rows"]
    rows[0]["body"]["noise"] = "exact"
    head = hashlib.sha256(extract["format"].encode()).hexdigest()
    for row in rows:
        text = json.dumps(row["body"], sort_keys=True)
        digest = hashlib.sha256(json.dumps([row["run"], row["key"], text]).encode()).hexdigest()
        head = hashlib.sha256(json.dumps([head, digest]).encode()).hexdigest()
    free = statement(private=True, epsilon=0.0, delta=1e-5, records=60, noise="exact")
    forged = json.loads((run / "certificate.json").read_text()) | {
        "private": True,
        "noise": PRIVATE,
        "statement": free,
        "budget": BUDGET,
        "delta": 1e-5,
        "epsilon": dict.fromkeys(FIGURES, 0.0),
        "epsilon_replace": 0.0,
    }
    forged["ledger"]["head"] = head
    (run / "ledger.json").write_text(json.dumps(extract))
    (run / "certificate.json").write_text(json.dumps(forged))
    if alone:
        (run / "config.toml").unlink()  # a certificate may travel alone
    assert "The method dcgan cannot have noise of the kind exact." in verify(run)


class StopAfter(Silent):
    def __init__(self, steps: int) -> None:
        self.steps, self.done = steps, 0

    def progress(self, stage: str, done: int, total: int, *, spent: float | None = None) -> None:
        if spent is not None:
            raise AssertionError("nothing can be spent")
        self.done = done

    def stopping(self) -> bool:
        return self.done >= self.steps


def test_a_resumed_run_equals_an_uninterrupted_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(dcgan, "BLOCK", 3)
    monkeypatch.setattr("datalens.synthesizers.stepping.SHOWN", 1)
    whole = DcGan(**SMALL).fit(records(), seed=4)
    folder = tmp_path / "run" / "internal"
    session = Session.start(ledger="x", folder=folder, seed=4, private=False, observer=StopAfter(3))
    with pytest.raises(Stopped):
        DcGan(**SMALL).fit(records(), session=session)
    assert (folder / "checkpoint.safetensors").exists()
    seen = StopAfter(99)
    resumed = DcGan(**SMALL).fit(records(), session=Session.resume(folder=folder, observer=seen))
    for name, array in whole._arrays().items():
        assert np.array_equal(array, resumed._arrays()[name]), name
    assert not (folder / "checkpoint.safetensors").exists()


def test_a_damaged_checkpoint_is_one_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(dcgan, "BLOCK", 3)
    monkeypatch.setattr("datalens.synthesizers.stepping.SHOWN", 1)
    folder = tmp_path / "run" / "internal"
    session = Session.start(ledger="x", folder=folder, private=False, observer=StopAfter(3))
    with pytest.raises(Stopped):
        DcGan(**SMALL).fit(records(), session=session)
    (folder / "checkpoint.safetensors").write_bytes(b"nothing")
    with pytest.raises(DataLensError, match="cannot be read"):
        DcGan(**SMALL).fit(records(), session=Session.resume(folder=folder))
