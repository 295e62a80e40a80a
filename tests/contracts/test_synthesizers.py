"""What every synthesizer keeps: budget, certificate, seeds, isolation, resumption."""

import json
import shutil
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import save_file

from datalens import DataLensError, DataLensWarning, Records
from datalens.privacy.accountants import Charge, epsilon
from datalens.privacy.ledger import Ledger
from datalens.privacy.releases import Releases
from datalens.privacy.verify import verify
from datalens.synthesizers import METHODS, Synthesizer
from datalens.synthesizers.session import Session, Silent, Stopped

LAPLACE = "pategan under Laplace noise"
BEFORE_VOTES = 2 + 3 + 1 + 2
"""Moments, rounds of clusters, their spread, gradients."""
WITHOUT_VOTES = {"epsilon": 10.0, "clusters": 2, "label_steps": 2}
SMALL: dict[str, dict[str, Any]] = {
    "datalens": {
        "epsilon": 10.0,
        "n_teachers": 6,
        "steps": 4,
        "batch_size": 5,
        "latent": 8,
        "teacher_warm_up": 1,
        "clusters": 2,
        "label_steps": 2,
    },
    "class-gaussian": {"epsilon": 10.0},
    "dp-merf": {"epsilon": 10.0, "waves": 20, "updates": 3, "batch_size": 6, "latent": 8},
    "gpate": {
        "epsilon": 10.0,
        "n_teachers": 6,
        "steps": 4,
        "batch_size": 5,
        "latent": 8,
        "width": 4,
        "warm_up": 20,
        "critic_learning_rate": 0.02,
        "projected": 1,
    },
    "pategan": {"epsilon": 10.0, "n_teachers": 6, "steps": 4, "batch_size": 5, "latent": 8}
    | {"teacher_warm_up": 1, "student_updates": 2, "generator_updates": 1, "remembered": 2}
    | {"teacher_learning_rate": 1e-3},
    "dpgan": {"epsilon": 10.0, "steps": 12, "batch_size": 6, "latent": 4, "width": 2},
    "dcgan": {"steps": 6, "batch_size": 6, "latent": 4, "width": 2},
    "gswgan": {"epsilon": 10.0, "steps": 12, "n_teachers": 6, "batch_size": 3, "latent": 4}
    | {"width": 4, "warm_up": 2, "refresh_every": 5},
}
VARIANTS: dict[str, dict[str, Any]] = {
    "datalens without votes": WITHOUT_VOTES,
    "datalens with d2pfed": {**SMALL["datalens"], "compressor": "d2pfed"},
    "datalens with fetchsgd": {**SMALL["datalens"], "compressor": "fetchsgd"},
    LAPLACE: {**SMALL["pategan"], "noise": "laplace"},
}


def records(seed: int = 0, n: int = 60) -> Records:
    chance = np.random.default_rng(seed)
    labels = np.arange(n) % 3
    images = chance.integers(0, 100, (n, 1, 8, 8), dtype=np.uint8)
    for index, label in enumerate(labels):
        images[index, 0, 2 * label : 2 * label + 2] += 150
    return Records.from_arrays(images, labels, n_classes=3, name="stripes")


@pytest.fixture(params=[*sorted(METHODS), *VARIANTS])
def method(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def private(method: str) -> str:
    """A method that protects somebody. What one that does not must keep is in its own tests."""
    if not kind(method).private:
        pytest.skip(f"{method} protects nobody: it has no budget and no releases")
    return method


def make(method: str, **changes: Any) -> Synthesizer:
    return kind(method)(**{**(SMALL | VARIANTS)[method], **changes})


def kind(method: str) -> type[Synthesizer]:
    return METHODS[method.split()[0]]


def test_small_covers_every_method() -> None:
    assert set(SMALL) == set(METHODS)


def test_fit_sample_save_load(method: str, tmp_path: Path) -> None:
    fitted = make(method).fit(records())
    images, labels = fitted.sample(7)
    assert images.shape == (7, 1, 8, 8) and images.dtype == np.uint8
    assert labels.shape == (7,) and set(labels) <= {0, 1, 2}
    if "labeller.weights" not in fitted._arrays():  # who else could say that it shows another
        assert set(labels) == {0, 1, 2}
    fitted.save(tmp_path / "run")
    loaded = kind(method).load(tmp_path / "run")
    assert loaded.certificate == fitted.certificate
    same = loaded.sample(40, [0, 2], seed=3)
    assert (same.images == fitted.sample(40, [0, 2], seed=3).images).all()
    assert set(same.labels) == {0, 2}
    assert not verify(tmp_path / "run")
    grain = fitted._grain()
    assert (grain is None) is (kind(method).method not in ("datalens", "class-gaussian"))
    if grain is None:
        with pytest.raises(DataLensError, match="has no grain; leave grain at 0"):
            fitted.sample(1, grain=0.5)
    else:
        grained = fitted.sample(40, [0, 2], seed=3, grain=1.0)
        assert bool((grained.images != same.images).any()) is (grain.deviation > 0)


def test_a_number_of_images_is_a_whole_one() -> None:
    fitted = make("class-gaussian").fit(records())
    for count in (2.5, 2.0, "2", True, None, 0, -1, np.float64(3)):
        with pytest.raises(DataLensError, match="count must be a whole number of at least 1, got"):
            fitted.sample(count)
    for grain in ("1", None, 1.5, float("nan")):
        with pytest.raises(DataLensError, match="grain must lie between 0 and 1"):
            fitted.sample(3, grain=grain)
    assert len(fitted.sample(np.int64(3), grain=np.float64(0.5)).labels) == 3


def test_a_folder_may_be_a_word_or_a_path(tmp_path: Path) -> None:
    fitted = make("class-gaussian").fit(records())
    fitted.save(str(tmp_path / "run"))
    for place in (tmp_path / "run", str(tmp_path / "run")):
        assert kind("class-gaussian").load(place).certificate == fitted.certificate


def test_arrays_in(method: str) -> None:
    r = records()
    fitted = make(method).fit(r.images[:, 0].astype(np.float32) / 255, r.labels, n_classes=3)
    assert fitted.certificate["data"]["shape"] == [1, 8, 8]
    with pytest.raises(DataLensError, match="labels"):
        make(method).fit(r.images)


def test_classes_may_be_as_unequal_as_they_are(method: str) -> None:
    """52, 7, one record and none: each is counted once, and no class is made up to another."""
    even = records()
    labels = np.repeat([0, 1, 2], [52, 7, 1])
    fitted = make(method).fit(even.images, labels, n_classes=4, seed=0)
    assert fitted.certificate["data"]["n_records"] == 60
    drawn = fitted.sample(80, seed=0)
    assert drawn.images.shape == (80, 1, 8, 8) and set(drawn.labels) <= {0, 1, 2, 3}
    other = make(method).fit(even.images, np.arange(60) % 4, n_classes=4, seed=0, ledger="even")
    assert (drawn.images != other.sample(80, seed=0).images).any()  # labels had their part


@pytest.mark.parametrize("accountant", ["certified", "paper"])
@pytest.mark.parametrize("prior", ["uniform", "bought"])
def test_the_budget_is_used_and_never_exceeded(private: str, accountant: str, prior: str) -> None:
    certificate = make(private, accountant=accountant, label_prior=prior).fit(records()).certificate
    spent = certificate["epsilon"][accountant]
    assert 9.9 < spent <= 10.0
    charges = [
        Charge.from_json({k: v for k, v in m.items() if k != "parameters"})
        for m in certificate["mechanisms"]
    ]
    assert epsilon(charges, 1e-5, accountant) == pytest.approx(spent)  # type: ignore[arg-type]
    assert certificate["epsilon_replace"] >= certificate["epsilon"]["certified"]
    noise = make(private).resolve(records().public).noise
    assert certificate["private"] and certificate["noise"]["kind"] == noise


def test_a_seed_reproduces_and_is_marked(method: str, tmp_path: Path) -> None:
    first = make(method).fit(records(), seed=5)
    again = make(method).fit(records(), seed=5)
    other = make(method).fit(records(), seed=6)
    for name, array in first._arrays().items():
        assert np.array_equal(array, again._arrays()[name])
    assert any(not np.array_equal(a, other._arrays()[n]) for n, a in first._arrays().items())
    assert not first.certificate["private"]
    assert "NOT PRIVATE" in first.certificate["statement"]
    first.save(tmp_path / "run")
    assert (tmp_path / "run" / "NOT-PRIVATE.txt").exists()


def test_private_runs_differ_and_are_not_marked(private: str, tmp_path: Path) -> None:
    first, again = (make(private).fit(records()) for _ in range(2))
    assert any(not np.array_equal(a, again._arrays()[n]) for n, a in first._arrays().items())
    first.save(tmp_path / "run")
    assert not (tmp_path / "run" / "NOT-PRIVATE.txt").exists()


def test_the_releases_are_all_that_leaves(private: str, tmp_path: Path) -> None:
    """On other data with the same releases replayed, the published generator is the same."""
    session = Session.start(ledger="a", folder=tmp_path / "a" / "internal", seed=1)
    first = make(private).fit(records(0), session=session)
    shutil.copytree(session.folder, tmp_path / "b" / "internal")
    replay = Session.resume(folder=tmp_path / "b" / "internal")
    seal = records(99).seal(replay.secret)  # other records than it was started on are refused
    (replay.folder / "records").write_text(seal.tobytes().hex())
    second = make(private).fit(records(99), session=replay)
    for name, array in first._arrays().items():
        assert np.array_equal(array, second._arrays()[name]), name


def test_without_replay_other_data_gives_another_generator(method: str) -> None:
    """The control of the test above: the records do matter."""
    first, second = (make(method).fit(records(s), seed=1, ledger=str(s)) for s in (0, 99))
    assert any(not np.array_equal(a, second._arrays()[n]) for n, a in first._arrays().items())


def test_other_data_on_a_ledger_get_a_warning(private: str) -> None:
    with warnings.catch_warnings():
        warnings.filterwarnings("error", message=".* ledger")
        for _ in range(2):
            make(private).fit(records(0), ledger="one")
        make(private).fit(records(99), ledger="another")
    with pytest.warns(DataLensWarning) as found:
        make(private).fit(records(99), ledger="one")
    said = [str(each.message) for each in found if "ledger" in str(each.message)]
    assert len(said) == 2 and "used with the ledger another too" in said[0]
    assert "no run is known that charged the ledger one" in said[1]


def test_a_fit_that_breaks_off_keeps_its_charges_and_frees_the_rest(
    private: str, own_home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*words: object, **more: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(Releases, "_recall", broken)
    with pytest.raises(KeyboardInterrupt):
        make(private).fit(records(), ledger="mine")
    (run,) = Ledger(own_home / "ledgers" / "mine.sqlite").standing().runs.values()
    assert run.state == "ended" and run.committed == []


class StopAfter(Silent):
    """Stops after so many votes; 0 is during the warm start, before the last gradient."""

    def __init__(self, votes: int) -> None:
        self.votes, self.seen = votes, ("", 0)

    def progress(self, stage: str, done: int, total: int, *, spent: float | None = None) -> None:
        self.seen = stage, done

    def stopping(self) -> bool:
        return self.seen == (("votes", self.votes) if self.votes else ("warm-start", 3))


@pytest.mark.parametrize(
    "name, keep_checkpoint, votes",
    [
        ("datalens", True, 2),
        ("datalens", False, 2),
        ("datalens", False, 0),
        ("datalens with d2pfed", False, 2),
        ("datalens with fetchsgd", False, 2),
    ],
)
def test_a_resumed_run_equals_an_uninterrupted_one(
    tmp_path: Path, name: str, keep_checkpoint: bool, votes: int
) -> None:
    """From the checkpoint, and from nothing but the stored releases."""
    whole = make(name).fit(records(), seed=4)
    folder = tmp_path / "run" / "internal"
    session = Session.start(ledger="x", folder=folder, seed=4, observer=StopAfter(votes))
    with pytest.raises(Stopped):
        make(name).fit(records(), session=session)
    charged = len(session.ledger.charges(session.run))
    assert charged == (BEFORE_VOTES + votes if votes else BEFORE_VOTES - 1)
    assert session.checkpoint.exists() is (votes > 0)
    if not keep_checkpoint:
        shutil.rmtree(session.checkpoint, ignore_errors=True)
    resumed = make(name).fit(records(), session=Session.resume(folder=folder))
    for part, array in whole._arrays().items():
        assert np.array_equal(array, resumed._arrays()[part]), part
    assert resumed.certificate["epsilon"] == whole.certificate["epsilon"]
    assert not session.checkpoint.exists()


def test_a_lost_release_is_passed_over_and_stays_charged(tmp_path: Path) -> None:
    folder = tmp_path / "run" / "internal"
    session = Session.start(ledger="x", folder=folder, observer=StopAfter(2))
    with pytest.raises(Stopped):
        make("datalens").fit(records(), session=session)
    (folder / "releases" / "votes-1.npy").unlink()  # as if the crash came before it was stored
    shutil.rmtree(session.checkpoint)
    resumed = make("datalens").fit(records(), session=Session.resume(folder=folder))
    assert resumed.certificate["releases"] == BEFORE_VOTES + 4 * 5
    assert not (folder / "releases" / "votes-1.npy").exists()


def test_a_run_is_not_resumed_on_another_ledger(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its charges would be forgotten, and the certificate would understate epsilon."""
    folder = tmp_path / "run" / "internal"
    session = Session.start(ledger="x", folder=folder, observer=StopAfter(3))
    with pytest.raises(Stopped):
        make("datalens").fit(records(), session=session)
    with pytest.raises(DataLensError, match="another configuration"):
        make("datalens", step_size=0.2).fit(records(), session=Session.resume(folder=folder))
    monkeypatch.setenv("DATALENS_HOME", str(tmp_path / "elsewhere"))
    with pytest.raises(DataLensError, match="is missing"):
        Session.resume(folder=folder)
    Ledger(tmp_path / "elsewhere" / "ledgers" / "x.sqlite")
    with pytest.raises(DataLensError, match="rows that are no longer the same"):
        make("datalens").fit(records(), session=Session.resume(folder=folder))


@pytest.mark.parametrize("change", ["moved", "replaced", "relabelled"])
def test_a_run_does_not_go_on_with_other_records(
    private: str, change: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Teachers that have learned from a record would be joined by others that learn from it."""
    folder = tmp_path / "run" / "internal"
    session = Session.start(ledger="x", folder=folder)

    def stopped(self: Synthesizer, own: Records, plan: Any, run: Any) -> None:
        raise Stopped

    with monkeypatch.context() as patch, pytest.raises(Stopped):
        patch.setattr(kind(private), "_train", stopped)
        make(private).fit(records(), session=session)
    first = records()
    images, labels = first.images.copy(), first.labels.copy()
    if change == "moved":
        images, labels = np.roll(images, 1, axis=0), np.roll(labels, 1)
    elif change == "replaced":
        images[7, 0, 0, 0] ^= 1
    else:
        labels[7] = (labels[7] + 1) % 3
    other = Records.from_arrays(images, labels, n_classes=3, name="stripes")
    for _ in range(2):  # what was refused once is refused again
        with pytest.raises(DataLensError, match="other records than these"):
            make(private).fit(other, session=Session.resume(folder=folder))
    make(private).fit(records(), session=Session.resume(folder=folder))


def test_a_run_killed_before_it_reserved_goes_on(private: str, tmp_path: Path) -> None:
    folder = tmp_path / "run" / "internal"
    Session.start(ledger="x", folder=folder)
    fitted = make(private).fit(records(), session=Session.resume(folder=folder))
    assert fitted.certificate["epsilon"]["certified"] > 9


def test_a_private_run_keeps_off_the_ledgers_of_seeded_ones(private: str, own_home: Path) -> None:
    for name in ("mine.NOT-PRIVATE", "mine.not-private"):
        with pytest.raises(DataLensError, match="seeded runs"):
            make(private).fit(records(), ledger=name)
    assert not own_home.exists()


def test_ablations_follow_their_own_price() -> None:
    base = {**SMALL["datalens"], "top_k": 8, "warm_start": False}
    del base["clusters"], base["label_steps"]
    prices = {}
    for name, change in {
        "plain": {},
        "no-top-k": {"keep_all": True},
        "no-quantisation": {"quantise": False},
        "no-threshold": {"threshold": False},
    }.items():
        fitted = METHODS["datalens"](**{**base, **change}).fit(records())
        (vote,) = fitted.certificate["mechanisms"]
        prices[name] = vote["squared_sensitivity"]
        assert 9.9 < fitted.certificate["epsilon"]["certified"] <= 10
    assert prices == {
        "plain": 4 * 8,
        "no-top-k": 4 * 64,
        "no-quantisation": 4 * 8 * 64**2,
        "no-threshold": 4 * 8,
    }


@pytest.mark.parametrize("shape", [(1, 8, 8), (3, 13, 9), (3, 64, 64)])
def test_any_image_size(method: str, shape: tuple[int, int, int]) -> None:
    chance = np.random.default_rng(0)
    images = chance.integers(0, 256, (12, *shape), dtype=np.uint8)
    r = Records.from_arrays(images, np.arange(12) % 2, n_classes=2)
    voting = "n_teachers" in (SMALL | VARIANTS)[method]
    changes = {"steps": 1, "n_teachers": 3} if voting else {}
    drawn = make(method, **changes).fit(r, seed=0).sample(4)
    assert drawn.images.shape == (4, *shape)


def test_faces_under_exact_noise(tmp_path: Path) -> None:
    """64x64 in colour from end to end: teachers, ballots, exact noise, student, certificate."""
    chance = np.random.default_rng(0)
    images = chance.integers(0, 256, (12, 3, 64, 64), dtype=np.uint8)
    r = Records.from_arrays(images, np.arange(12) % 2, n_classes=2, name="faces")
    votes = {"n_teachers": 3, "steps": 2, "batch_size": 2, "latent": 8, "top_k": 700}
    fitted = METHODS["datalens"](epsilon=10.0, warm_start=False, **votes).fit(r)
    fitted.save(tmp_path / "run")
    certificate = json.loads((tmp_path / "run" / "certificate.json").read_text())
    assert certificate["private"] and certificate["noise"]["kind"] == "exact"
    assert certificate["releases"] == 4 and certificate["data"]["shape"] == [3, 64, 64]
    assert not verify(tmp_path / "run")
    assert fitted.sample(4).images.shape == (4, 3, 64, 64)


@pytest.mark.parametrize(
    "changes, sentence",
    [
        ({"epsilon": 0}, "epsilon"),
        ({"epsilon": float("nan")}, "epsilon"),
        ({"delta": 1.0}, "delta"),
        ({"accountant": "gaussian"}, "accountant"),
        ({"colour": 3}, "colour is no setting"),
        ({"label_prior": "known"}, "label_prior"),
    ],
)
def test_bad_settings_are_one_sentence(method: str, changes: dict[str, Any], sentence: str) -> None:
    with pytest.raises(DataLensError, match=sentence):
        make(method, **changes)


@pytest.mark.parametrize(
    "changes, sentence",
    [
        ({"n_teachers": 61}, "61 teachers"),
        ({"sigma": 1e-3, "steps": None}, "pays for 0 steps"),
        ({"sigma": 500.0, "steps": 50_000}, "pays for"),
        ({"top_k": 65}, "only 64 values"),
    ],
)
def test_impossible_plans_cost_nothing(
    changes: dict[str, Any], sentence: str, own_home: Path
) -> None:
    with pytest.raises(DataLensError, match=sentence):
        make("datalens", **changes).fit(records())
    assert not own_home.exists()


NOISES = {"gaussian": "sigma", "laplace": "scale", "sampled-gaussian": "noise_multiplier"}


def louder(mechanism: dict[str, Any]) -> dict[str, Any]:
    """The same, as if it had had more noise than it had."""
    noise = NOISES[mechanism["event"]]
    return {**mechanism, noise: mechanism[noise] * 2}


def test_verify_sees_every_edit(private: str, tmp_path: Path) -> None:
    make(private).fit(records()).save(tmp_path / "run")
    original = json.loads((tmp_path / "run" / "certificate.json").read_text())
    edits: list[dict[str, Any]] = [
        {"statement": original["statement"].replace("60 records", "10 records")},
        {"data": {**original["data"], "n_records": 61}},
        {"data": {**original["data"], "name": "others"}},
        {"facts": {**original["facts"], "steps": 99}},
        {"method": "magic"},
        {"format": "datalens-certificate-0"},
        {"neighbouring": "none"},
        {"budget": {**original["budget"], "accountant": "gaussian"}},
        {"budget": {**original["budget"], "epsilon": float("inf")}},
        {"budget": {**original["budget"], "epsilon": float("nan")}},
        {"generator_sha256": "0" * 64},
        {"epsilon": {**original["epsilon"], "certified": 1.0}},
        {"epsilon": {**original["epsilon"], "paper": 1.0}},
        {"epsilon": {**original["epsilon"], "gaussian": 1.0}},
        {"epsilon": {"certified": original["epsilon"]["certified"]}},
        {"epsilon_replace": 1.0},
        {"delta": 1e-9},
        {"releases": 1000},
        {"run": "another"},
        {"configuration_sha256": "0" * 64},
        {"private": False},
        {"mechanisms": original["mechanisms"][:-1]},
        {"mechanisms": [louder(m) for m in original["mechanisms"]]},
        {"noise": {"kind": "seeded", "source": ""}},
        {"budget": {**original["budget"], "epsilon": 5.0}},
        {"ledger": {**original["ledger"], "rows": 1}},
    ]
    for edit in edits:
        (tmp_path / "run" / "certificate.json").write_text(json.dumps({**original, **edit}))
        assert verify(tmp_path / "run"), edit
    (tmp_path / "run" / "certificate.json").write_text(json.dumps(original))
    assert not verify(tmp_path / "run")
    rows = json.loads((tmp_path / "run" / "ledger.json").read_text())["rows"]
    for cut in ([], rows[:-1], [rows[0], *rows[2:]], rows[::-1]):
        (tmp_path / "run" / "ledger.json").write_text(json.dumps({"rows": cut}))
        assert verify(tmp_path / "run")
    rows[1]["body"]["charge"]["count"] = 0
    (tmp_path / "run" / "ledger.json").write_text(json.dumps({"rows": rows}))
    assert verify(tmp_path / "run")


def test_parts_that_a_configuration_does_not_have_are_refused(tmp_path: Path) -> None:
    whole = make("datalens").fit(records(), seed=1)
    bare = make("datalens without votes", clusters=1, label_steps=None, label_share=0.0)
    bare.fit(records(), seed=1)
    arrays = {**whole._arrays(), "prior": whole._class_prior()}
    for name, damage in (
        ("student", {k: v for k, v in arrays.items() if not k.startswith("labeller")}),
        ("labeller", {k: v for k, v in arrays.items() if not k.startswith("student")}),
        ("model", {"prior": arrays["prior"]}),
    ):
        bare.save(tmp_path / name)
        save_file(damage, tmp_path / name / "generator.safetensors")
        with pytest.raises(DataLensError, match=name):
            METHODS["datalens"].load(tmp_path / name)


def test_what_a_lost_model_would_be_followed_by_is_not_bought(tmp_path: Path) -> None:
    """Nothing can come of it where there are no votes to go on with."""
    folder = tmp_path / "run" / "internal"
    session = Session.start(ledger="x", folder=folder, observer=StopAfter(0))
    with pytest.raises(Stopped):
        make("datalens without votes").fit(records(), session=session)
    for file in (folder / "releases").iterdir():
        file.unlink()
    before = len(session.ledger.charges(session.run))
    with pytest.raises(DataLensError, match="--end"):
        make("datalens without votes").fit(records(), session=Session.resume(folder=folder))
    assert len(session.ledger.charges(session.run)) == before
