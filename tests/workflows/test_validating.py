"""`datalens evaluate --private-validation`: what is bought, from whom, and what is refused."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image
from safetensors.numpy import load_file

from datalens.classifiers.judge import taught
from datalens.data import load
from datalens.privacy.ledger import Ledger, ledger_path
from datalens.utility.accuracy import judged_accuracy
from datalens.workflows.evaluation import Effort

ON = ["--on", "digits"]


@pytest.fixture
def some(tmp_path: Path) -> Path:
    digits = load("digits")
    np.savez(tmp_path / "some.npz", images=digits.images[:300], labels=digits.labels[:300])
    return tmp_path / "some.npz"


def test_one_figure_is_bought_and_charged_to_the_held_out_records(run: Any, some: Path) -> None:
    words = ("evaluate", some, "--on", "digits", "--private-validation", 5, "--out", "v")
    found = run(*words, "--json").json
    assert found["internal"] is False and found["private"] is True
    assert found["ledger"] == "digits-test" and not ledger_path("digits").exists()
    digits, test = load("digits"), load("digits", split="test")
    truth = judged_accuracy(digits.images[:300], digits.labels[:300], test).accuracy
    assert abs(found["accuracy"] - truth) < 15 / 397  # 15 at scale 0.2: never
    (charge,) = Ledger(ledger_path("digits-test")).standing().spent
    assert charge.event.what == "right-answers" and charge.event.scale == pytest.approx(0.2)
    assert run("verify", "v", "--ledger", "digits-test").code == 0
    assert not {"per_class", "classifiers", "fid", "confusion"} & found.keys()
    assert "digits-test: 1 runs" in run("ledger").out
    again = run(*words)
    assert again.code == 2 and "v exists already" in again.err
    assert len(Ledger(ledger_path("digits-test")).standing().spent) == 1


def test_of_a_run_it_lies_beside_it_and_is_not_exported(
    run: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("datalens.workflows.validating.JUDGED_IMAGES", 200)
    np.savez(tmp_path / "own.npz", images=load("digits").images, labels=load("digits").labels)
    fit = ("fit", "digits", "--epsilon", 10, "--method", "class-gaussian", "--out", "r")
    assert run(*fit).code == 0
    words = ("evaluate", "r", "--on", "own.npz", "--classes", 10, "--private-validation", 1)
    refused = run(*words)
    assert refused.code == 2 and "used with the ledger digits" in refused.err
    shown = run(*words, "--ledger", "own")
    assert (
        shown.code == 0
        and "spent, charged to the ledger" in shown.out
        and "Internal" not in shown.out
    )
    assert json.loads((tmp_path / "r/validation/certificate.json").read_text())["method"] == (
        "validation"
    )
    assert len(Ledger(ledger_path("own")).standing().spent) == 1  # held out as a whole
    assert run("verify", "r/validation").code == 0
    for other in (("export", "--out", "p"), ("sample", "--count", 5, "--out", "p"), ("report",)):
        refused = run(other[0], "r/validation", *other[1:])
        assert refused.code == 2 and "holds one accuracy, not a run" in refused.err
    run("export", "r", "--out", "public")
    assert not (tmp_path / "public/validation").exists()


def test_over_the_cap_nothing_is_left_behind(run: Any, some: Path, tmp_path: Path) -> None:
    run("ledger", "digits-test", "--cap", 1)
    words = ("evaluate", some, "--on", "digits", "--private-validation", 3, "--out", "v")
    refused = run(*words)
    assert refused.code == 2 and "cap of epsilon 1" in refused.err
    assert not (tmp_path / "v").exists()
    assert Ledger(ledger_path("digits-test")).standing().spent == []


def test_what_knows_the_records_is_not_taken_for_public(
    run: Any, some: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("datalens.workflows.validating.JUDGED_IMAGES", 200)
    own = ("--on", some, "--classes", 10, "--private-validation", 1)
    itself = run("evaluate", some, *own, "--out", "v")
    assert itself.code == 2 and "holds the very records of" in itself.err
    np.savez(tmp_path / "copy.npz", **np.load(some))
    assert "the very records" in run("evaluate", "copy.npz", *own, "--out", "v").err
    words = ("--method", "class-gaussian", "--seed", 1, "--not-private", "--out", "seeded")
    assert run("fit", "digits", "--epsilon", 5, *words).code == 0
    seeded = run("evaluate", "seeded", *own)
    assert seeded.code == 2 and "seeded is NOT PRIVATE" in seeded.err
    assert not (tmp_path / "v").exists() and not (tmp_path / "seeded/validation").exists()
    assert not ledger_path("some").exists()


@pytest.mark.parametrize("command", ["fit", "classify"])
def test_records_that_were_learned_from_are_not_held_out(
    run: Any, some: Path, tmp_path: Path, command: str
) -> None:
    few = ("--method", "class-gaussian")
    if command == "classify":
        few = ("--method", "scatter", "--steps", 2, "--batch", 5, "--set", "noise_multiplier=9.0")
    assert run(command, some, "--classes", 10, "--epsilon", 8, *few, "--out", "r").code == 0
    spent = Ledger(ledger_path("some")).standing()
    on = ("--on", some, "--classes", 10)
    refused = run("evaluate", "r", *on, "--private-validation", 1)
    assert refused.code == 2 and "those that r has learned from" in refused.err
    assert not (tmp_path / "r/validation").exists()
    assert Ledger(ledger_path("some")).standing() == spent
    other = tmp_path / "other.npz"
    other.write_bytes(some.read_bytes())
    renamed = ("evaluate", "r", "--on", other, "--classes", 10, "--private-validation", 1)
    refused = run(*renamed)
    assert refused.code == 2 and "used with the ledger some" in refused.err
    assert run(*renamed, "--ledger", "other").code == 0  # by its owner's word


def test_as_many_images_are_learned_from_as_by_the_internal_figures(
    run: Any, some: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An image of 8x8 is one place: 120 of 300."""
    learned = []

    def counted(images: np.ndarray, *given: Any, **named: Any) -> Any:
        learned.append(len(images))
        return taught(images, *given, **named)

    monkeypatch.setattr("datalens.workflows.validating.USUAL", Effort(work=120))
    monkeypatch.setattr("datalens.workflows.validating.taught", counted)
    words = ("evaluate", some, "--on", "digits", "--private-validation", 5, "--out", "v")
    assert run(*words).code == 0 and learned == [120]


def test_the_test_split_is_not_taken_for_public(
    run: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither as it is, nor in another form, order or number."""
    monkeypatch.setattr("datalens.workflows.validating.JUDGED_IMAGES", 200)
    digits = load("digits", split="test")
    for number, (image, label) in enumerate(zip(digits.images, digits.labels, strict=True)):
        split = "train" if number < 100 else "test"
        folder = tmp_path / "own" / split / str(label)
        folder.mkdir(parents=True, exist_ok=True)
        Image.fromarray(image[0]).save(folder / f"{number}.png")
    np.savez(tmp_path / "turned.npz", images=digits.images[:99:-1], labels=digits.labels[:99:-1])
    np.savez(tmp_path / "part.npz", images=digits.images[150:], labels=digits.labels[150:])
    np.savez(tmp_path / "others.npz", images=digits.images[:100], labels=digits.labels[:100])
    bought = ("--on", "own", "--image-size", 8, "--grey", "--private-validation", 1, "--out", "v")
    for known in ("own/test", "own", "turned.npz", "part.npz"):
        refused = run("evaluate", known, *bought)
        assert refused.code == 2 and f"{known} holds the very records" in refused.err, refused.err
        assert not (tmp_path / "v").exists() and not ledger_path("own-test").exists()
    assert run("evaluate", "others.npz", *bought).code == 0  # those of other people


def test_of_a_file_the_judge_is_not_kept(
    run: Any, some: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("datalens.workflows.validating.JUDGED_IMAGES", 200)
    bought = ("--private-validation", 5)
    assert run("evaluate", some, *ON, *bought, "--out", "v").code == 0
    assert not load_file(tmp_path / "v/judge.safetensors")
    facts = json.loads((tmp_path / "v/certificate.json").read_text())["facts"]
    assert facts["covers"].startswith("the number of right answers")
    assert run("verify", "v").code == 0
    fit = ("fit", "digits", "--epsilon", 10, "--method", "class-gaussian", "--out", "r")
    assert run(*fit).code == 0 and run("evaluate", "r", *ON, *bought).code == 0
    assert load_file(tmp_path / "r/validation/judge.safetensors")


def test_a_private_classifier_is_validated_as_it_is(run: Any, tmp_path: Path) -> None:
    few = ("--method", "scatter", "--steps", 2, "--batch", 5, "--set", "noise_multiplier=9.0")
    assert run("classify", "digits", "--epsilon", 8, *few, "--out", "c").code == 0
    words = ("evaluate", "c", "--on", "digits", "--private-validation", 2)
    found = run(*words, "--json").json
    inside = run("evaluate", "c", "--on", "digits", "--json").json
    assert abs(found["accuracy"] - inside["accuracy"]) < 30 / 397
    assert inside["internal"] is True
    assert (tmp_path / "c/validation/judge.safetensors").is_file()


@pytest.mark.parametrize(
    "words, said",
    [
        (["--private-validation", "1"], "--out"),
        (["--private-validation", "0", "--out", "v"], "epsilon"),
        (["--private-validation", "nan", "--out", "v"], "epsilon"),
        (["--private-validation", "1", "--out", "v", "--seeds", "2"], "leave out --seeds"),
        (["--private-validation", "1", "--out", "v", "--ledger", "a/b"], "no name for a ledger"),
        (["--out", "v"], "--private-validation alone"),
        (["gone", *ON, "--private-validation", "1", "--out", "v"], "gone"),
    ],
)
def test_what_cannot_be_bought_is_refused(
    run: Any, some: Path, words: list[str], said: str, tmp_path: Path
) -> None:
    refused = run("evaluate", *words) if "gone" in words else run("evaluate", some, *ON, *words)
    assert refused.code == 2 and said in refused.err, refused.err
    assert not (tmp_path / "v").exists() and not ledger_path("digits-test").exists()


def test_who_pays_from_another_ledger_is_told(run: Any, some: Path) -> None:
    words = ("evaluate", some, *ON, "--private-validation", 1)
    first = run(*words, "--out", "v1")
    assert "Careful" not in first.err
    other = run(*words, "--out", "v2", "--ledger", "foo")
    assert other.code == 0 and "used with the ledger digits-test too" in other.err
    assert "Warning" not in other.err


def test_a_ledger_of_other_data_is_spoken_of_in_a_sentence(run: Any, some: Path) -> None:
    words = ("--private-validation", 1, "--ledger", "mixed")
    run("evaluate", some, *ON, *words, "--out", "v1")
    digits = load("digits")
    np.savez("more.npz", images=digits.images[300:500], labels=digits.labels[300:500])
    on = ("--on", "more.npz", "--classes", 10)
    told = run("evaluate", some, *on, *words, "--out", "v2")
    assert told.code == 0 and "no run is known that charged the ledger mixed" in told.err
    assert "Warning" not in told.err and ".py:" not in told.err
