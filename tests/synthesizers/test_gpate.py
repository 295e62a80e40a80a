"""G-PATE: what is reserved and charged, who a record reaches, what the student is shown."""

import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from datalens import DataLensError, Records
from datalens.ensemble import stream
from datalens.ensemble.critics import Critics
from datalens.mechanism.bins import BinnedVotes, BinRule, random_projections
from datalens.mechanism.events import GaussianRelease
from datalens.privacy.accountants import Charge
from datalens.privacy.releases import Releases
from datalens.privacy.verify import verify
from datalens.synthesizers import gpate, wasserstein
from datalens.synthesizers.gpate import GPate
from datalens.synthesizers.gpate_plan import GPatePlan, GPateSettings
from datalens.synthesizers.session import Session, Silent, Stopped
from datalens.synthesizers.wasserstein import hire

from ..ensemble.threads import threads

SECRET = b"s" * 32
SMALL = {"epsilon": 10.0, "n_teachers": 6, "batch_size": 3, "steps": 4, "latent": 8}
SMALL |= {"width": 4, "warm_up": 1, "refresh_every": 2, "projected": 5, "bins": 4}
SMALL["threshold"] = 0.5


def records(changed: int | None = None) -> Records:
    images = np.random.default_rng(0).integers(0, 256, (38, 1, 8, 8), dtype=np.uint8)
    if changed is not None:
        images[changed] = 0  # blanked
    return Records.from_arrays(images, np.arange(38) % 3, n_classes=3)


def plan(**changes: Any) -> GPatePlan:
    return GPatePlan.resolve(GPateSettings(**{**SMALL, **changes}), records().public)


# The plan.


def test_checks_and_histograms_are_both_paid_for_every_image() -> None:
    checks, votes = plan().charges
    assert (checks.event.what, votes.event.what) == ("vote-checks", "binned-votes")
    assert checks.count == votes.count == 4 * 3
    assert 9.99 < plan().spent() <= 10.0


def test_where_nothing_is_checked_no_check_is_paid_for(tmp_path: Path) -> None:
    (votes,) = plan(threshold=0).charges
    assert (votes.event.what, votes.count) == ("binned-votes", 4 * 3)
    assert votes.event.sigma < plan().votes.sigma
    GPate(**{**SMALL, "threshold": 0}).fit(records()).save(tmp_path / "run")
    assert not verify(tmp_path / "run")


@pytest.mark.parametrize("given", [{}, {"sigma": 200.0, "steps": None}, {"steps": None}])
@pytest.mark.parametrize("budget", [0.1, 1.0, 10.0, 10_000.0])
def test_every_budget_has_a_plan_that_its_own_file_repeats(
    given: dict[str, Any], budget: float
) -> None:
    first = plan(**given, epsilon=budget)
    again = GPatePlan.resolve(first.settings, records().public)
    assert again == first and again.sha256 == first.sha256
    assert 0 < first.spent() <= budget


@pytest.mark.parametrize(
    "changes, sentence",
    [
        ({"sigma": 1e-3, "steps": None}, "pays for 0 steps"),
        ({"sigma": 5.0, "steps": 40_000}, "lower batch-size"),
        ({"batch_size": 10_000, "projected": 1000}, "do not fit in memory"),
        ({"n_teachers": 39}, "39 teachers"),
    ],
)
def test_impossible_plans_are_one_sentence(changes: dict[str, Any], sentence: str) -> None:
    with pytest.raises(DataLensError, match=sentence):
        plan(**changes)


# Mutants that charge too little: both are caught by those who check a run without its records.


def fitted(folder: Path) -> Path:
    GPate(**SMALL).fit(records()).save(folder)
    return folder


def cheap_histograms(self: BinnedVotes) -> GaussianRelease:
    """A histogram taken to move by 1."""
    squared = self.projected
    return GaussianRelease(
        what="binned-votes",
        squared_sensitivity=squared,
        squared_sensitivity_replace=squared,
        sigma=self.sigma,
    )


def test_histograms_that_are_charged_as_if_they_moved_by_one_are_caught(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert not verify(fitted(tmp_path / "true"))
    monkeypatch.setattr(BinnedVotes, "event", property(cheap_histograms))
    wrong = verify(fitted(tmp_path / "cheap"))
    assert any("sensitivity of binned-votes" in sentence for sentence in wrong)


def test_checks_that_are_not_charged_are_caught(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither reserved nor bought: the largest counts are looked at for nothing."""
    charges_after, obtain = GPatePlan.charges_after, Releases.obtain

    def without_checks(self: GPatePlan, steps: int) -> list[Charge]:
        return [c for c in charges_after(self, steps) if c.event.what != "vote-checks"]

    def unpaid(self: Releases, key: str, mechanism: Any, query: Any, **more: Any) -> Any:
        if key.startswith("vote-checks/"):
            value = query()
            return value + mechanism.draw(value.shape, noise=self.noise, key=key)
        return obtain(self, key, mechanism, query, **more)

    monkeypatch.setattr(Releases, "obtain", unpaid)
    with monkeypatch.context() as patch:  # reserved, and not bought
        patch.setattr(GPatePlan, "parameters", {"binned-votes": {"projected": 5}})
        wrong = verify(fitted(tmp_path / "reserved"))
        assert any("fewer vote-checks" in sentence for sentence in wrong)
    monkeypatch.setattr(GPatePlan, "charges_after", without_checks)
    wrong = verify(fitted(tmp_path / "run"))
    assert any("does not follow from config.toml" in sentence for sentence in wrong)


# Teachers and what is counted of them.


def trained(source: Records) -> tuple[Critics, NDArray[np.int64]]:
    """Teachers after two updates against fixed images, and their tally."""
    own, chance = plan(), torch.Generator().manual_seed(0)
    images, labels = torch.rand(3, 1, 8, 8, generator=chance), torch.arange(3)
    teachers = hire(source, own, SECRET)
    for update in range(2):
        teachers.train(images, labels, update=update)
    chance = stream(SECRET, "projection", 0)
    projection = random_projections(images, 5, smooth=1.0, weigh_room=True, chance=chance)
    return teachers, gpate._count(teachers, images, labels, own.rule, projection)


def touched(one: Critics, two: Critics) -> set[int]:
    """Teachers that differ in any bit of their weights."""
    a, b = one.state()["weights"], two.state()["weights"]
    return {teacher for teacher in range(len(a)) if not torch.equal(a[teacher], b[teacher])}


def test_ballots_are_computed_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a gradient is projected on is a product of its teacher's too."""
    true_vote, seen = BinRule.vote, set()

    def vote(self: BinRule, *given: torch.Tensor) -> torch.Tensor:
        seen.add(torch.get_num_threads())
        return true_vote(self, *given)

    monkeypatch.setattr(BinRule, "vote", vote)
    with threads(4):
        trained(records())
    assert seen == {1}


def test_one_record_changes_one_teacher_and_moves_both_releases_within_bounds() -> None:
    own, (teachers, tally) = plan(), trained(records())
    assert (tally.sum(axis=2) == 6).all()  # one ballot each
    reached = []
    for position in range(0, 38, 5):
        others, moved = trained(records(changed=position))
        reached.append(len(touched(teachers, others)))
        maxima = (tally.max(axis=2) - moved.max(axis=2)) ** 2
        assert maxima.sum(axis=1).max() <= own.checks.event.squared_sensitivity
        assert ((tally - moved) ** 2).sum(axis=(1, 2)).max() <= own.votes.event.squared_sensitivity
    assert max(reached) == 1 and sum(reached) >= len(reached) - 2  # two records reach nobody


def test_a_record_that_reaches_two_teachers_would_be_caught(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The mutant: dealing that hands some records out twice."""

    def wrapping(n_records: int, n_teachers: int, *, seed: bytes) -> object:
        size = n_records // n_teachers + 2
        positions = (np.arange(n_teachers * size) % n_records).reshape(n_teachers, size)
        return type("Shards", (), {"positions": positions, "shard_size": size})()

    monkeypatch.setattr(wasserstein, "deal", wrapping)
    assert len(touched(trained(records())[0], trained(records(changed=0))[0])) > 1


# The student.


class Stored:
    """A door behind which the releases of one step are known."""

    def __init__(self, counts: Any, histograms: Any) -> None:
        self.known = {"vote-checks/0": counts, "binned-votes/0": histograms}

    @property
    def releases(self) -> "Stored":
        return self

    secret = SECRET

    def obtain(self, key: str, *more: Any, shape: tuple[int, ...]) -> Any:
        assert self.known[key] is None or self.known[key].shape == shape
        return self.known[key]


def direction(counts: Any, histograms: Any) -> torch.Tensor | None:
    images = torch.full((2, 1, 8, 8), 0.5)
    door: Any = Stored(counts, histograms)
    nobody: Any = None
    return gpate._direction(nobody, images, torch.arange(2), plan(), door, 0)


def test_the_student_follows_the_winners_of_what_passes_and_sees_nothing_else() -> None:
    chance = np.random.default_rng(0)
    histograms = chance.integers(0, 9, (2, 5, 4))
    histograms[:, :, 1] += 20
    enough, too_few = np.full((2, 5), 99), np.full((2, 5), -99)
    followed = direction(enough, histograms)
    assert followed is not None and followed.shape == (2, 1, 8, 8)
    other = chance.integers(0, 9, (2, 5, 4))
    other[:, :, 1] += 1000  # other counts, the same winners
    assert torch.equal(followed, direction(enough * 7, other))  # type: ignore[arg-type]
    assert not torch.equal(followed, direction(enough, histograms[:, :, ::-1]))  # type: ignore[arg-type]
    unanswered = direction(too_few, histograms)
    assert unanswered is not None and not unanswered.any()
    one_image = direction(np.stack([enough[0], too_few[0]]), histograms)
    assert one_image is not None and one_image[0].any() and not one_image[1].any()


def test_a_step_that_lost_either_release_is_passed_over() -> None:
    counts, histograms = np.full((2, 5), 99), np.ones((2, 5, 4), dtype=np.int64)
    assert direction(None, histograms) is None
    assert direction(counts, None) is None


class StopAfter(Silent):
    def __init__(self, votes: int) -> None:
        self.votes, self.seen = votes, ("", 0)

    def progress(self, stage: str, done: int, total: int, *, spent: float | None = None) -> None:
        self.seen = stage, done

    def stopping(self) -> bool:
        return self.seen == ("votes", self.votes)


@pytest.mark.parametrize("keep_checkpoint", [True, False])
def test_a_resumed_run_equals_an_uninterrupted_one(tmp_path: Path, keep_checkpoint: bool) -> None:
    """From the checkpoint, and from nothing but the stored releases."""
    whole = GPate(**SMALL).fit(records(), seed=4)
    folder = tmp_path / "run" / "internal"
    session = Session.start(ledger="x", folder=folder, seed=4, observer=StopAfter(2))
    with pytest.raises(Stopped):
        GPate(**SMALL).fit(records(), session=session)
    assert len(session.ledger.charges(session.run)) == 2 * 2
    if not keep_checkpoint:
        shutil.rmtree(session.checkpoint)
    resumed = GPate(**SMALL).fit(records(), session=Session.resume(folder=folder))
    for name, array in whole._arrays().items():
        assert np.array_equal(array, resumed._arrays()[name]), name
    assert resumed.certificate["epsilon"] == whole.certificate["epsilon"]


def test_a_large_generator_is_read_back(tmp_path: Path) -> None:
    """Its optimiser has moments by then, which one that has not begun has not."""
    settings = SMALL | {"latent": 128, "n_teachers": 3}
    colour = np.zeros((30, 3, 32, 32), dtype=np.uint8)
    large = Records.from_arrays(colour, np.arange(30) % 3, n_classes=3)
    folder = tmp_path / "run" / "internal"
    session = Session.start(ledger="x", folder=folder, seed=4, observer=StopAfter(2))
    with pytest.raises(Stopped):
        GPate(**settings).fit(large, session=session)
    shutil.rmtree(folder / "releases")  # which it would otherwise be rebuilt from
    resumed = GPate(**settings).fit(large, session=Session.resume(folder=folder))
    assert resumed.certificate["private"] is False


@pytest.mark.parametrize("lost", ["vote-checks-1.npy", "binned-votes-1.npy"])
def test_a_lost_release_stays_charged_and_the_run_goes_on(tmp_path: Path, lost: str) -> None:
    folder = tmp_path / "run" / "internal"
    session = Session.start(ledger="x", folder=folder, observer=StopAfter(2))
    with pytest.raises(Stopped):
        GPate(**SMALL).fit(records(), session=session)
    (folder / "releases" / lost).unlink()
    shutil.rmtree(session.checkpoint)
    resumed = GPate(**SMALL).fit(records(), session=Session.resume(folder=folder))
    assert resumed.certificate["releases"] == 2 * 4 * 3
    assert not (folder / "releases" / lost).exists()
    resumed.save(tmp_path / "saved")
    assert not verify(tmp_path / "saved")
