"""PATE-GAN: what public implementations get wrong, and that a run can be cut in two."""

import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from datalens import Records
from datalens.data import PublicFacts, deal
from datalens.ensemble import Teachers
from datalens.errors import DataLensError
from datalens.mechanism.real_votes import RealVotes
from datalens.privacy.accountants import epsilon
from datalens.student.adversary import Adversary
from datalens.student.student import Proposal
from datalens.synthesizers import pategan
from datalens.synthesizers.pategan import PateGan
from datalens.synthesizers.session import Session, Silent, Stopped

N = 60
SMALL: dict[str, Any] = {
    "epsilon": 10.0,
    "n_teachers": 6,
    "steps": 4,
    "batch_size": 5,
    "latent": 4,
    "student_updates": 2,
    "generator_updates": 1,
    "remembered": 2,
    "teacher_learning_rate": 0.02,
}
FACTS = PublicFacts(name="own", n_records=N, shape=(1, 8, 8), class_names=("a", "b"))


def records(change: int | None = None) -> Records:
    images = np.random.default_rng(0).integers(0, 256, (N, 1, 8, 8), dtype=np.uint8)
    labels = np.arange(N) % 2
    if change is not None:
        images[change], labels[change] = 255 - images[change], 1 - labels[change]
    return Records.from_arrays(images, labels, n_classes=2, name="own")


def heard(data: Records, tmp: Path, monkeypatch: pytest.MonkeyPatch, told: list | None) -> list:
    """The logits behind every vote of a run, which hears the counts of another, if told them."""
    logits: list[Tensor] = []
    own_count = RealVotes.count

    def count(self: RealVotes, seen: Tensor) -> np.ndarray:
        logits.append(seen.clone())
        if told is not None:
            seen = told[len(logits) - 1]
        return own_count(self, seen)

    with monkeypatch.context() as patch:
        patch.setattr(RealVotes, "count", count)
        session = Session.start(ledger="x", folder=tmp / "internal", seed=1)
        PateGan(**SMALL).fit(data, session=session)
    return logits


def teachers_touched(tmp: Path, monkeypatch: pytest.MonkeyPatch) -> set[int]:
    """Whose logits differ, in any step, when one record does; all else being told alike."""
    first = heard(records(), tmp / "a", monkeypatch, None)
    second = heard(records(change=17), tmp / "b", monkeypatch, first)
    return {
        teacher
        for one, other in zip(first, second, strict=True)
        for teacher in range(6)
        if not torch.equal(one[teacher], other[teacher])
    }


def test_a_record_moves_the_votes_of_one_teacher_all_run_long(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert len(teachers_touched(tmp_path, monkeypatch)) == 1


def test_each_record_is_shown_to_one_teacher(monkeypatch: pytest.MonkeyPatch) -> None:
    """All of them, where the test above tries one: 60 records, no two alike, for 6 teachers."""
    shown: list[Tensor] = []

    def hire(*, images: Tensor, **given: Any) -> Teachers:
        shown.append(images)
        return Teachers(images=images, **given)

    monkeypatch.setattr(pategan, "Teachers", hire)
    PateGan(**SMALL).fit(records(), seed=0)
    assert [images.shape[:2] for images in shown] == [(6, N // 6)]
    assert len(shown[0].flatten(0, 1).flatten(1).unique(dim=0)) == N


def test_one_partition_for_all_teachers_is_caught(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def same(plan: Any, secret: bytes) -> Any:
        shards = deal(N, 6, seed=secret)
        shards.positions[:] = np.arange(10, 20)
        return shards

    monkeypatch.setattr(pategan, "_shards", same)
    assert len(teachers_touched(tmp_path, monkeypatch)) == 6


def test_partitions_drawn_anew_at_each_step_are_caught(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    own_train = Teachers.train

    def train(self: Teachers, *given: Any, step: int, **more: Any) -> None:
        self.images = self.images.roll(1, 0)
        self.labels = self.labels.roll(1, 0)
        own_train(self, *given, step=step, **more)

    monkeypatch.setattr(Teachers, "train", train)
    assert len(teachers_touched(tmp_path, monkeypatch)) > 1


def test_the_student_is_shown_generated_images_only(monkeypatch: pytest.MonkeyPatch) -> None:
    """Those that the generator proposed, and nothing else; records are bytes, 60 of them."""
    proposed: list[Tensor] = []
    learned: list[Tensor] = []
    own_propose, own_learn = Adversary.propose, Adversary.learn

    def propose(self: Adversary, labels: Tensor, *, step: int) -> Proposal:
        found = own_propose(self, labels, step=step)
        proposed.append(found.images)
        return found

    def learn(self: Adversary, images: Tensor, *given: Any, **more: Any) -> None:
        learned.append(images)
        own_learn(self, images, *given, **more)

    monkeypatch.setattr(Adversary, "propose", propose)
    monkeypatch.setattr(Adversary, "learn", learn)
    PateGan(**SMALL).fit(records(), seed=0)
    assert len(learned) == 4
    assert all(torch.equal(a, b) for a, b in zip(proposed, learned, strict=True))


@pytest.mark.parametrize(
    "n_records, teachers",
    [(10, 2), (300, 15), (5_000, 250), (10_000, 500), (60_000, 2_000), (10**6, 2_000)],
)
def test_there_are_as_many_teachers_as_small_shards_allow(n_records: int, teachers: int) -> None:
    public = replace(records().public, n_records=n_records)
    chosen = PateGan(epsilon=10.0).resolve(public)
    assert chosen.votes.n_teachers == teachers


@pytest.mark.parametrize("noise", ["gaussian", "laplace"])
@pytest.mark.parametrize("prior", ["uniform", "bought"])
@pytest.mark.parametrize("goal", [0.3, 10.0, 10_000.0])
def test_the_steps_are_fixed_by_the_budget_and_one_more_would_not_fit(
    noise: str, prior: str, goal: float
) -> None:
    asked = {**SMALL, "epsilon": goal, "noise": noise, "label_prior": prior}
    first = PateGan(**asked).resolve(FACTS)
    assert goal * 0.99 < first.spent() <= goal
    again = PateGan(**first.settings.model_dump()).resolve(FACTS)
    assert again == first and again.to_toml() == first.to_toml()
    by_scale = {**asked, "scale": first.votes.scale, "steps": None}
    assert PateGan(**by_scale).resolve(FACTS).steps == 4
    assert epsilon(first.charges_after(5), 1e-5) > goal
    with pytest.raises(DataLensError, match="does not pay for 5 steps"):
        PateGan(**{**by_scale, "steps": 5}).resolve(FACTS)


def test_noise_that_buys_nothing_is_refused() -> None:
    with pytest.raises(DataLensError, match="does not pay for 1 steps"):
        PateGan(**{**SMALL, "steps": None, "scale": 0.01}).resolve(FACTS)


def test_reference_teachers_need_two_images() -> None:
    with pytest.raises(DataLensError, match="raise batch_size"):
        PateGan(**{**SMALL, "discriminator": "reference", "batch_size": 1}).resolve(FACTS)
    fitted = PateGan(**{**SMALL, "discriminator": "reference", "steps": 1}).fit(records(), seed=0)
    assert fitted.sample(3).images.shape == (3, 1, 8, 8)


def test_a_memory_that_no_machine_has_is_refused() -> None:
    with pytest.raises(DataLensError, match="lower remembered"):
        PateGan(**{**SMALL, "remembered": 1000, "batch_size": 10_000}).resolve(FACTS)


def test_majority_and_share_buy_the_same_and_learn_differently() -> None:
    one, other = (PateGan(**SMALL, verdict=v).fit(records(), seed=0) for v in ("share", "majority"))
    assert one.certificate["mechanisms"] == other.certificate["mechanisms"]
    assert any(not np.array_equal(a, other._arrays()[n]) for n, a in one._arrays().items())


class StopAfter(Silent):
    def __init__(self, votes: int) -> None:
        self.votes, self.seen = votes, ("", 0)

    def progress(self, stage: str, done: int, total: int, *, spent: float | None = None) -> None:
        self.seen = stage, done

    def stopping(self) -> bool:
        return self.seen == ("votes", self.votes)


@pytest.mark.parametrize("keep_checkpoint", [True, False])
@pytest.mark.parametrize("noise", ["gaussian", "laplace"])
def test_a_resumed_run_equals_an_uninterrupted_one(
    tmp_path: Path, keep_checkpoint: bool, noise: str
) -> None:
    """From the checkpoint, and from nothing but the stored releases."""
    whole = PateGan(**SMALL, noise=noise).fit(records(), seed=4)
    session = Session.start(ledger="x", folder=tmp_path / "internal", seed=4, observer=StopAfter(3))
    with pytest.raises(Stopped):
        PateGan(**SMALL, noise=noise).fit(records(), session=session)
    assert sum(charge.count for charge in session.ledger.charges(session.run)) == 3 * 5
    if not keep_checkpoint:
        shutil.rmtree(session.checkpoint)
    resumed = PateGan(**SMALL, noise=noise).fit(
        records(), session=Session.resume(folder=tmp_path / "internal")
    )
    for name, array in whole._arrays().items():
        assert np.array_equal(array, resumed._arrays()[name]), name
    assert resumed.certificate["epsilon"] == whole.certificate["epsilon"]


def test_a_lost_release_is_passed_over_and_stays_charged(tmp_path: Path) -> None:
    folder = tmp_path / "internal"
    session = Session.start(ledger="x", folder=folder, observer=StopAfter(2))
    with pytest.raises(Stopped):
        PateGan(**SMALL).fit(records(), session=session)
    (folder / "releases" / "votes-1.npy").unlink()
    shutil.rmtree(session.checkpoint)
    resumed = PateGan(**SMALL).fit(records(), session=Session.resume(folder=folder))
    assert resumed.certificate["releases"] == 4 * 5
    assert not (folder / "releases" / "votes-1.npy").exists()


def test_a_certificate_with_laplace_noise_has_no_gaussian_epsilon_and_says_laplace() -> None:
    certificate = PateGan(**SMALL, noise="laplace").fit(records()).certificate
    assert set(certificate["epsilon"]) == {"certified", "paper"}
    assert "exact discrete Laplace on integers" in certificate["statement"]
    assert "records: whether it was there or blank" in certificate["statement"]
    both = PateGan(**SMALL, noise="laplace", label_prior="bought").fit(records()).certificate
    assert "exact discrete Gaussian and Laplace on integers" in both["statement"]
    plain = PateGan(**SMALL).fit(records()).certificate
    assert "Laplace" not in plain["statement"] and "gaussian" in plain["epsilon"]
