"""What every private classifier keeps: budget, certificate, seeds, resumption."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

from datalens import DataLensError, Records
from datalens.privacy.accountants import Charge, epsilon
from datalens.privacy.ledger import Ledger
from datalens.privacy.verify import verify
from datalens.synthesizers import private_classifier
from datalens.synthesizers.private_classifier import CLASSIFIERS, PrivateClassifier
from datalens.synthesizers.session import Session, Silent, Stopped

SMALL: dict[str, Any] = {
    "epsilon": 10.0,
    "steps": 12,
    "batch_size": 6,
    "at_once": 4,
    "noise_multiplier": 0.62,  # to look for the least takes a while
    "accountant": "certified",  # and so do losses
}


def records(seed: int = 0, n: int = 60) -> Records:
    chance = np.random.default_rng(seed)
    labels = np.arange(n) % 3
    images = chance.integers(0, 100, (n, 1, 8, 8), dtype=np.uint8)
    for index, label in enumerate(labels):
        images[index, 0, 2 * label : 2 * label + 2] += 150
    return Records.from_arrays(images, labels, n_classes=3, name="stripes")


@pytest.fixture(params=sorted(CLASSIFIERS))
def method(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def make(method: str, **changes: Any) -> PrivateClassifier:
    return CLASSIFIERS[method](**{**SMALL, **changes})


def same(one: PrivateClassifier, other: PrivateClassifier) -> bool:
    return all(np.array_equal(array, other._arrays()[n]) for n, array in one._arrays().items())


def test_fit_predict_save_load(method: str, tmp_path: Path) -> None:
    fitted = make(method).fit(records())
    labels, probabilities = fitted.predict(records().images)
    assert labels.shape == (60,) and probabilities.shape == (60, 3)
    assert probabilities.sum(axis=1) == pytest.approx(np.ones(60), abs=1e-5)
    assert (labels == probabilities.argmax(axis=1)).all()
    fitted.save(tmp_path / "run")
    assert {path.name for path in (tmp_path / "run").iterdir()} == {
        "config.toml",
        "ledger.json",
        "certificate.json",
        "certificate.sig",
        "classifier.safetensors",
    }
    loaded = CLASSIFIERS[method].load(tmp_path / "run")
    assert loaded.certificate == fitted.certificate
    assert (loaded.predict(records().images).probabilities == probabilities).all()
    assert not verify(tmp_path / "run")


def test_it_learns(method: str) -> None:
    """With next to no noise; with far more than there is to learn from it does not."""
    rate = 9.0 if method == "scatter" else 1.0
    changes = {"steps": 80, "batch_size": 30, "learning_rate": rate, "epsilon": 9999.0}
    right = {}
    for noise in (0.1, 1000.0):
        fitted = make(method, **changes, noise_multiplier=noise).fit(records(), seed=1)
        right[noise] = (fitted.predict(records(1).images).labels == records(1).labels).mean()
    assert right[0.1] > 0.9 > 0.7 > right[1000.0]


@pytest.mark.parametrize("accountant", ["certified", "paper", "pld"])
def test_the_budget_is_used_and_never_exceeded(
    method: str, accountant: str, tmp_path: Path
) -> None:
    sized = make(method, accountant=accountant, noise_multiplier=None)
    certificate = sized.fit(records()).certificate
    spent = certificate["epsilon"][accountant]
    assert 9.9 < spent <= 10.0
    charges = [
        Charge.from_json({k: v for k, v in m.items() if k != "parameters"})
        for m in certificate["mechanisms"]
    ]
    assert epsilon(charges, 1e-5, accountant) == pytest.approx(spent)  # type: ignore[arg-type]
    assert certificate["private"] and certificate["noise"]["kind"] == "float-secure"
    assert "mitigated, not proven" in certificate["statement"]
    assert certificate["releases"] == 12
    sized.save(tmp_path / "run")
    assert not verify(tmp_path / "run")
    found = {name: certificate["epsilon"][name] - 0.1 for name in (accountant,)}
    certificate["epsilon"] = {**certificate["epsilon"], **found}
    (tmp_path / "run" / "certificate.json").write_text(json.dumps(certificate))
    assert verify(tmp_path / "run")


def test_a_seed_reproduces_and_is_marked(method: str, tmp_path: Path) -> None:
    first, again, other = (make(method).fit(records(), seed=seed) for seed in (5, 5, 6))
    assert same(first, again) and not same(first, other)
    assert not first.certificate["private"] and "NOT PRIVATE" in first.certificate["statement"]
    first.save(tmp_path / "run")
    assert (tmp_path / "run" / "NOT-PRIVATE.txt").exists()
    assert not verify(tmp_path / "run")


def test_private_runs_differ(method: str) -> None:
    assert not same(*(make(method).fit(records()) for _ in range(2)))


def test_the_stored_states_are_all_that_leaves(method: str, tmp_path: Path) -> None:
    """On other data with the same states replayed the classifier is the same, else another."""
    session = Session.start(ledger="a", folder=tmp_path / "a" / "internal", seed=1)
    first = make(method).fit(records(0), session=session)
    shutil.copytree(session.folder, tmp_path / "b" / "internal")
    replay = Session.resume(folder=tmp_path / "b" / "internal")
    seal = records(99).seal(replay.secret)  # other records than it was started on are refused
    (replay.folder / "records").write_text(seal.tobytes().hex())
    assert same(first, make(method).fit(records(99), session=replay))
    assert not same(first, make(method).fit(records(99), seed=1))


class StopAfter(Silent):
    def __init__(self, steps: int) -> None:
        self.steps, self.done = steps, 0

    def progress(self, stage: str, done: int, total: int, *, spent: float | None = None) -> None:
        self.done = done

    def stopping(self) -> bool:
        return self.done >= self.steps


def test_a_resumed_run_equals_an_uninterrupted_one(
    method: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(private_classifier, "BLOCK", 4)
    whole = make(method).fit(records(), seed=4)
    folder = tmp_path / "run" / "internal"
    session = Session.start(ledger="x", folder=folder, seed=4, observer=StopAfter(8))
    with pytest.raises(Stopped):
        make(method).fit(records(), session=session)
    assert sum(charge.count for charge in session.ledger.charges(session.run)) == 8
    resumed = make(method).fit(records(), session=Session.resume(folder=folder))
    assert same(whole, resumed)
    assert resumed.certificate["epsilon"] == whole.certificate["epsilon"]


def test_a_lost_block_is_passed_over_and_stays_charged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(private_classifier, "BLOCK", 4)
    folder = tmp_path / "run" / "internal"
    session = Session.start(ledger="x", folder=folder, seed=4, observer=StopAfter(8))
    with pytest.raises(Stopped):
        make("dpsgd").fit(records(), session=session)
    (folder / "releases" / "steps-4.safetensors").unlink()  # as if a crash had come before it
    resumed = make("dpsgd").fit(records(), session=Session.resume(folder=folder))
    assert resumed.certificate["releases"] == 12
    assert not same(resumed, make("dpsgd").fit(records(), seed=4))


def test_topagg_that_keeps_all_is_dpsgd_bit_for_bit() -> None:
    plain = make("dpsgd").fit(records(), seed=3)
    assert same(plain, make("topagg", keep=1.0).fit(records(), seed=3))
    assert not same(plain, make("topagg", keep=0.8).fit(records(), seed=3))


def test_a_plan_is_the_same_from_its_own_configuration(method: str) -> None:
    free = {"steps": None, "noise_multiplier": None}
    for changes in ({}, free, {**free, "epochs": 3.0}):
        plan = make(method, **changes).resolve(records().public)
        again = CLASSIFIERS[method](**plan.settings.model_dump()).resolve(records().public)
        assert again.sha256 == plan.sha256 and again.event == plan.event
    assert plan.effort.steps == 30  # three times through 60 records in batches of 6


@pytest.mark.parametrize(
    "changes, sentence",
    [
        ({"batch_size": 61}, "only 60 records"),
        ({"noise_multiplier": 0.1}, "too little for 12 steps"),
        ({"epochs": 2.0}, "steps or epochs, not both"),
        ({"accountant": "pld", "delta": 1e-12}, "at least 1e-10"),
        ({"keep": 0.0}, "keep"),
        ({"keep": float("nan")}, "keep"),
        ({"epsilon": 0}, "epsilon"),
        ({"label_prior": "bought"}, "label_prior is no setting"),
        ({"max_grad_norm": -1}, "max_grad_norm"),
        ({"max_grad_norm": 1e-15, "learning_rate": 1.0}, "noise must lie between"),
        ({"max_grad_norm": 1e-8}, "learning_rate"),  # that the rule would choose is beyond limits
        ({"steps": None, "epochs": 900_000.0}, "steps"),
    ],
)
def test_impossible_plans_cost_nothing(
    changes: dict[str, Any], sentence: str, own_home: Path
) -> None:
    with pytest.raises(DataLensError, match=sentence):
        make("topagg", **changes).fit(records())
    assert not own_home.exists()


@pytest.mark.parametrize("shape", [(1, 8, 8), (3, 13, 9), (3, 64, 64)])
def test_any_image_size(method: str, shape: tuple[int, int, int]) -> None:
    images = np.random.default_rng(0).integers(0, 256, (12, *shape), dtype=np.uint8)
    r = Records.from_arrays(images, np.arange(12) % 2, n_classes=2)
    assert len(make(method, steps=1).fit(r, seed=0).predict(images).labels) == 12


def test_images_of_another_shape_are_refused() -> None:
    fitted = make("scatter").fit(records(), seed=0)
    for shape in ((2, 1, 9, 9), (2, 3, 8, 8), (0, 1, 8, 8)):
        with pytest.raises(DataLensError, match="trained on"):
            fitted.predict(np.zeros(shape, dtype=np.uint8))


@pytest.mark.parametrize(
    "damage",
    [
        lambda arrays: {name: array * np.nan for name, array in arrays.items()},
        lambda arrays: {name: array[:-1] for name, array in arrays.items()},
        lambda arrays: {**arrays, "more": np.zeros(3, np.float32)},
        lambda arrays: {name: array.astype(np.float64) for name, array in arrays.items()},
    ],
)
def test_weights_that_do_not_fit_are_refused(damage: Callable[..., Any], tmp_path: Path) -> None:
    make("scatter").fit(records(), seed=0).save(tmp_path / "run")
    file = tmp_path / "run" / "classifier.safetensors"
    save_file(damage(load_file(file)), file)
    with pytest.raises(DataLensError, match="weights"):
        CLASSIFIERS["scatter"].load(tmp_path / "run")


# What a forger would change: in the certificate, in the configuration, or in both.


def in_mechanism(**changes: Any) -> Callable[[dict[str, Any]], dict[str, Any]]:
    def edit(certificate: dict[str, Any]) -> dict[str, Any]:
        (mechanism,) = certificate["mechanisms"]
        return {"mechanisms": [{**mechanism, **changes}]}

    return edit


FORGERIES: dict[str, Callable[[dict[str, Any]], dict[str, Any]]] = {
    "noise multiplier": in_mechanism(noise_multiplier=9.0),
    "sampling rate": in_mechanism(sampling_probability=0.05),
    "number of steps": in_mechanism(count=11),
    "number of steps, twice": lambda c: {**in_mechanism(count=11)(c), "releases": 11},
    "steps in the facts": lambda c: {"facts": {**c["facts"], "steps": 11}},
    "keep": in_mechanism(parameters={"keep": 0.5, "max_grad_norm": 1.0, "bound": 0.5**0.5}),
    "clip": in_mechanism(parameters={"keep": 0.8, "max_grad_norm": 2.0, "bound": 2 * 0.8**0.5}),
    "bound": in_mechanism(parameters={"keep": 0.8, "max_grad_norm": 1.0, "bound": 0.8}),
    "another step": in_mechanism(what="dp-sgd", parameters={}),
    "no parameters": in_mechanism(parameters={}),
    "words for numbers": in_mechanism(parameters={"keep": "a", "max_grad_norm": 1, "bound": 1}),
    "epsilon": lambda c: {"epsilon": {**c["epsilon"], "certified": 1.0}},
    "kind of noise": lambda c: {"noise": {**c["noise"], "kind": "exact"}},
    "limitation": lambda c: {"noise": {**c["noise"], "source": "the best"}},
    "classifier": lambda c: {"classifier_sha256": "0" * 64},
    "method": lambda c: {"method": "dpsgd"},
    "a method of images": lambda c: {"method": "dpgan", "generator_sha256": "0" * 64},
}


@pytest.fixture(scope="module")
def honest(tmp_path_factory: pytest.TempPathFactory) -> Path:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("DATALENS_HOME", str(tmp_path_factory.mktemp("home")))
        run = tmp_path_factory.mktemp("honest") / "run"
        make("topagg", max_grad_norm=1.0).fit(records()).save(run)
        return run


@pytest.mark.parametrize("forgery", FORGERIES)
def test_verify_refuses_a_forged_certificate(honest: Path, forgery: str, tmp_path: Path) -> None:
    assert not verify(honest)
    run = shutil.copytree(honest, tmp_path / "run")
    certificate = json.loads((run / "certificate.json").read_text())
    changed = {**certificate, **FORGERIES[forgery](certificate)}
    assert changed != certificate
    (run / "certificate.json").write_text(json.dumps(changed))
    assert verify(run)


@pytest.mark.parametrize(
    "old, new",
    [
        ("keep = 0.8", "keep = 0.5"),
        ("steps = 12", "steps = 11"),
        ("batch_size = 6", "batch_size = 3"),
        ("max_grad_norm = 1.0", "max_grad_norm = 2.0"),
    ],
)
def test_verify_refuses_a_changed_configuration(
    honest: Path, old: str, new: str, tmp_path: Path
) -> None:
    run = shutil.copytree(honest, tmp_path / "run")
    text = (run / "config.toml").read_text()
    assert old in text
    (run / "config.toml").write_text(text.replace(old, new))
    assert verify(run)


def test_a_run_is_in_the_ledger_of_its_data(method: str, own_home: Path) -> None:
    make(method).fit(records(), ledger="mine")
    make(method).fit(records(), ledger="mine")
    standing = Ledger(own_home / "ledgers" / "mine.sqlite").standing()
    assert [run.state for run in standing.runs.values()] == ["ended", "ended"]
    assert sum(c.count for run in standing.runs.values() for c in run.committed) == 24
