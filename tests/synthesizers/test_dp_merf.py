"""dp-merf: one release, and everything else again from that."""

from pathlib import Path

import numpy as np
import pytest

from datalens import DataLensError, Records
from datalens.synthesizers.dp_merf import DPMerf
from datalens.synthesizers.session import Session, Silent, Stopped

SMALL = {"epsilon": 10.0, "waves": 20, "updates": 30, "batch_size": 6, "latent": 8}


def records() -> Records:
    images = np.random.default_rng(0).integers(0, 256, (30, 8, 8), dtype=np.uint8)
    return Records.from_arrays(images, np.arange(30) % 3, n_classes=3, name="own")


class StopHalfway(Silent):
    def __init__(self) -> None:
        self.done = 0

    def progress(self, stage: str, done: int, total: int, *, spent: float | None = None) -> None:
        self.done = done if stage == "generator" else 0

    def stopping(self) -> bool:
        return self.done == 20


def test_a_resumed_run_equals_an_uninterrupted_one_and_pays_once(tmp_path: Path) -> None:
    whole = DPMerf(**SMALL).fit(records(), seed=4)
    folder = tmp_path / "run" / "internal"
    session = Session.start(ledger="x", folder=folder, seed=4, observer=StopHalfway())
    with pytest.raises(Stopped):
        DPMerf(**SMALL).fit(records(), session=session)
    assert len(session.ledger.charges(session.run)) == 1
    resumed = DPMerf(**SMALL).fit(records(), session=Session.resume(folder=folder))
    for name, array in whole._arrays().items():
        assert np.array_equal(array, resumed._arrays()[name]), name
    assert resumed.certificate["releases"] == 1


def test_a_lost_release_ends_the_run_and_is_not_drawn_again(tmp_path: Path) -> None:
    folder = tmp_path / "run" / "internal"
    session = Session.start(ledger="x", folder=folder, observer=StopHalfway())
    with pytest.raises(Stopped):
        DPMerf(**SMALL).fit(records(), session=session)
    (folder / "releases" / "feature-sums.npy").unlink()
    with pytest.raises(DataLensError, match="start a new run"):
        DPMerf(**SMALL).fit(records(), session=Session.resume(folder=folder))
    assert len(session.ledger.charges(session.run)) == 1


def test_bought_counts_make_the_prior() -> None:
    r = records()
    labels = np.repeat([0, 1], [24, 6])
    few = Records.from_arrays(r.images, labels, n_classes=2, name="own")
    bought = DPMerf(**{**SMALL, "epsilon": 10_000.0, "label_prior": "bought"}).fit(few)
    assert bought._class_prior() == pytest.approx([0.8, 0.2], abs=0.05)
    assert DPMerf(**SMALL).fit(few)._class_prior() == pytest.approx([0.5, 0.5])


def test_noise_does_not_depend_on_how_many_waves_there_are() -> None:
    """The features have length one however many they are, so more of them cost nothing."""
    plans = [DPMerf(**{**SMALL, "waves": w}).resolve(records().public) for w in (20, 20_000)]
    assert plans[0].charges == plans[1].charges


def test_more_waves_than_memory_bears_are_refused_before_anything_is_spent(own_home: Path) -> None:
    images = np.zeros((4, 3, 64, 64), dtype=np.uint8)
    large = Records.from_arrays(images, np.arange(4) % 2, n_classes=2)
    with pytest.raises(DataLensError, match="at most 10922"):
        DPMerf(**{**SMALL, "waves": 10_923}).fit(large)
    assert not own_home.exists()
    DPMerf(**{**SMALL, "waves": 10_922}).resolve(large.public)
