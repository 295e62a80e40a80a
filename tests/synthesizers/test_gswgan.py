"""gswgan: who is drawn leaves no trace, a record reaches one critic, and runs can be resumed."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from scipy.stats import binomtest, chisquare
from torch import Tensor

from datalens import DataLensError, Records
from datalens.data import Shards
from datalens.ensemble.critics import Critics
from datalens.ensemble.streams import derive
from datalens.mechanism.drawn import DrawnCritic
from datalens.mechanism.events import SampledGaussianRelease
from datalens.mechanism.noise import Floats, SeededFloatNoise
from datalens.privacy.accountants import Charge, epsilon
from datalens.privacy.verify import verify
from datalens.synthesizers import gswgan, wasserstein
from datalens.synthesizers.gswgan import Gan, GsWgan
from datalens.synthesizers.session import Session, Silent, Stopped

N, STEPS, EVERY = 6, 12, 4
SMALL: dict[str, Any] = {"epsilon": 10.0, "n_teachers": N, "steps": STEPS, "batch_size": 3} | {
    "latent": 4,
    "width": 4,
    "warm_up": 2,
    "refresh_every": EVERY,
}


def records() -> Records:
    images = np.random.default_rng(0).integers(0, 256, (50, 1, 8, 8), dtype=np.uint8)
    return Records.from_arrays(images, np.arange(50) % 3, n_classes=3)


class Deaf(SeededFloatNoise):
    """Noise without what is beneath it: whatever critics say, history takes the same course."""

    def add(self, values: Floats, *, sigma: float, key: str) -> Floats:
        return super().add(np.zeros_like(values), sigma=sigma, key=key)


def trained(folder: Path, source: Records) -> Critics:
    """All critics after all steps of a run that nobody's gradients steer."""
    session = Session.start(ledger="x", folder=folder, seed=3)
    plan = GsWgan(**SMALL).resolve(source.public)
    gan = Gan(plan, source, session, torch.ones(3) / 3)
    gan._noise = Deaf(session.secret)
    for number in range(STEPS):
        if number % EVERY == 0:
            gan.refresh(number, False)
        gan.step(number)
    return gan.critics


def differing(a: Critics, b: Critics) -> set[int]:
    """Critics of which any bit differs."""
    one, two = a.state(), b.state()
    return {i for name in one for i in range(N) if not torch.equal(one[name][i], two[name][i])}


def other_draws(folder: Path, patch: pytest.MonkeyPatch) -> set[int]:
    """Critics that can tell whether it was always the first that was drawn, or always the last."""
    found = []
    for name, always in (("first", 0), ("last", N - 1)):
        patch.setattr(gswgan, "derive", lambda *words, always=always: always)
        found.append(trained(folder / name, records()))
    return differing(*found)


def test_a_critic_does_not_know_whether_it_was_drawn(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert other_draws(tmp_path, monkeypatch) == set()


def test_critics_that_learn_when_drawn_are_caught(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The mutant, and what the paper's code does: the drawn critic is updated, the others not."""
    own_ask = Critics.ask

    def ask(self: Critics, who: Sequence[int], images: Tensor, labels: Tensor) -> Tensor:
        self.state()["weights"][list(who)] *= 0.99
        return own_ask(self, who, images, labels)

    monkeypatch.setattr(Critics, "ask", ask)
    assert other_draws(tmp_path, monkeypatch) == {0, N - 1}


def reached(folder: Path) -> list[set[int]]:
    """Which critics each of some records changes."""
    before, found = trained(folder / "whole", records()), []
    for position in range(0, 50, 7):
        images = records().images.copy()
        images[position] = 0  # blanked
        changed = Records.from_arrays(images, records().labels, n_classes=3)
        found.append(differing(before, trained(folder / str(position), changed)))
    return found


def test_a_record_changes_one_critic(tmp_path: Path) -> None:
    found = reached(tmp_path)
    assert all(len(who) <= 1 for who in found)
    assert sum(len(who) for who in found) >= len(found) - 2  # two are left over


def test_shards_that_wrap_around_are_caught(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The mutant."""

    def wrapping(n_records: int, n_teachers: int, *, seed: bytes) -> Shards:
        order = np.arange(n_teachers * 8) % (n_records // 2)
        return Shards(positions=order.reshape(n_teachers, 8), left_over=0)

    monkeypatch.setattr(wasserstein, "deal", wrapping)
    assert max(len(who) for who in reached(tmp_path)) > 1


@pytest.mark.parametrize("stuck, fits", [(0.0, True), (0.1, False)])
def test_every_critic_is_drawn_equally_often(stuck: float, fits: bool) -> None:
    steps, images = range(1000), range(7)
    draws = np.array([derive(b"s" * 32, "drawn", s, image) % 7 for s in steps for image in images])
    draws[: int(stuck * len(draws))] = 3  # the control
    assert bool(chisquare(np.bincount(draws, minlength=7)).pvalue > 1e-3) is fits


@pytest.mark.parametrize("one_for_all, fits", [(False, True), (True, False)])
def test_two_images_of_a_step_have_critics_of_their_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, one_for_all: bool, fits: bool
) -> None:
    """As often the same as chance has it; the control is one draw for the whole batch."""
    asked: list[Sequence[int]] = []
    own_ask, own_derive = Critics.ask, gswgan.derive

    def ask(self: Critics, who: Sequence[int], images: Tensor, labels: Tensor) -> Tensor:
        asked.append(who)
        return own_ask(self, who, images, labels)

    monkeypatch.setattr(Critics, "ask", ask)
    if one_for_all:
        monkeypatch.setattr(gswgan, "derive", lambda *words: own_derive(*words[:3]))
    session = Session.start(ledger="x", folder=tmp_path / "run", seed=3)
    gan = Gan(GsWgan(**SMALL).resolve(records().public), records(), session, torch.ones(3) / 3)
    for number in range(200):
        gan.step(number)
    same = sum(who[0] == who[1] for who in asked)
    assert bool(binomtest(same, 200, 1 / N).pvalue > 1e-3) is fits


class StopAfter(Silent):
    """Stops after so many steps; before any, in the warm-up."""

    def __init__(self, steps: int) -> None:
        self.steps, self.seen = steps, 0

    def progress(self, stage: str, done: int, total: int, *, spent: float | None = None) -> None:
        self.seen = done if stage == "steps" else self.seen

    def stopping(self) -> bool:
        return self.seen == self.steps


def stopped(folder: Path, steps: int) -> Session:
    session = Session.start(ledger="x", folder=folder, seed=4, observer=StopAfter(steps))
    with pytest.raises(Stopped):
        GsWgan(**SMALL).fit(records(), session=session)
    charges = session.ledger.charges(session.run)
    assert sum(charge.count for charge in charges) == steps * SMALL["batch_size"]
    return session


@pytest.mark.parametrize("steps", [0, EVERY, 2 * EVERY])
@pytest.mark.parametrize("seconds", [0.0, 1e9])
def test_a_resumed_run_equals_an_uninterrupted_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, steps: int, seconds: float
) -> None:
    """From a checkpoint of the critics, and from nothing but the stored states."""
    monkeypatch.setattr("datalens.synthesizers.checkpoint.SECONDS_BETWEEN", seconds)
    monkeypatch.setattr(gswgan.Checkpoints, "_took", 0.0, raising=False)
    whole = GsWgan(**SMALL).fit(records(), seed=4)
    folder = tmp_path / "run" / "internal"
    session = stopped(folder, steps)
    resumed = GsWgan(**SMALL).fit(records(), session=Session.resume(folder=folder))
    for name, array in whole._arrays().items():
        assert np.array_equal(array, resumed._arrays()[name]), name
    assert not session.checkpoint.exists()
    assert len(list((folder / "releases").iterdir())) == 1  # the last state


def test_a_lost_block_is_passed_over_and_stays_charged(tmp_path: Path) -> None:
    folder = tmp_path / "run" / "internal"
    stopped(folder, 2 * EVERY)
    (folder / "releases" / f"steps-{EVERY}.safetensors").unlink()
    resumed = GsWgan(**SMALL).fit(records(), session=Session.resume(folder=folder))
    assert resumed.certificate["releases"] == STEPS * SMALL["batch_size"]
    resumed.save(tmp_path / "out")
    assert not verify(tmp_path / "out")


def test_finished_steps_ask_no_critic(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A run whose steps are all paid for is read from what is stored, and trains nobody."""
    folder = tmp_path / "run" / "internal"
    session = Session.start(ledger="x", folder=folder, seed=4)
    first = GsWgan(**SMALL).fit(records(), session=session)
    monkeypatch.setattr(Critics, "train", None)
    again = GsWgan(**SMALL).fit(records(), session=Session.resume(folder=folder))
    for name, array in first._arrays().items():
        assert np.array_equal(array, again._arrays()[name])


def test_little_noise_is_refused() -> None:
    with pytest.raises(DataLensError, match="more than 2000 generators; raise refresh_every"):
        GsWgan(epsilon=1.0, steps=4_002, refresh_every=2).resolve(records().public)
    with pytest.raises(DataLensError, match="too little for 12 steps"):
        GsWgan(**SMALL, noise_multiplier=0.1).resolve(records().public)


def test_a_plan_resolved_from_its_own_settings_is_the_same() -> None:
    plan = GsWgan(epsilon=3.0, steps=40).resolve(records().public)
    again = GsWgan(**plan.settings.model_dump()).resolve(records().public)
    assert again == plan and plan.settings.n_teachers == 1


def test_what_the_paper_s_setting_costs() -> None:
    """docs/methods/gswgan.md: noise of 1.07 in units of 2 C, with a draw for each image or not."""
    own = DrawnCritic(n_teachers=1000, clip=1.0, noise_multiplier=1.07).event
    for_all = replace(own, noise_multiplier=1.07 / 32**0.5)
    assert epsilon([Charge(event=own, count=20_000 * 32)], 1e-5) == pytest.approx(10.05, abs=0.01)
    assert epsilon([Charge(event=for_all, count=20_000)], 1e-5) == pytest.approx(683, abs=1)


class Cheaper(DrawnCritic):
    """Priced as if one in N were enough."""

    @property
    def event(self) -> SampledGaussianRelease:
        return replace(super().event, sampling_probability=1 / self.n_teachers)


@pytest.mark.parametrize("kind, sound", [(DrawnCritic, True), (Cheaper, False)])
def test_the_verifier_wants_twice_the_probability_of_being_drawn(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: type[DrawnCritic], sound: bool
) -> None:
    monkeypatch.setattr(gswgan, "DrawnCritic", kind)
    GsWgan(**SMALL).fit(records()).save(tmp_path)
    assert (not verify(tmp_path)) is sound
