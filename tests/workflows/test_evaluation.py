"""`datalens evaluate`: which figures there are, and that each is what its own test has checked."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image
from safetensors.torch import save_file

from datalens.classifiers.simple import subset
from datalens.data import Records, load
from datalens.utility.accuracy import judged_accuracy
from datalens.utility.domain import DomainClassifier
from datalens.utility.inception import Inception
from datalens.utility.inception_score import inception_score
from datalens.utility.measures import measured
from datalens.utility.membership import attacked
from datalens.utility.nearest import nearest
from datalens.workflows import cache, evaluation
from datalens.workflows.cache import Cache
from datalens.workflows.runs import load_run

from ..utility.test_inception import weights

OLD = {"accuracy", "accuracy_spread", "accuracy_best_on_test", "per_class", "seeds", "per_seed"}
OLD |= {"synthetic", "on", "synthetic_images", "test_images"}
NEW = {"classifiers", "inception_score", "fid", "prdc", "nearest", "membership", "internal"}


@pytest.fixture
def half(tmp_path: Path) -> Path:
    """Copies of half of the digits: as good as real, and as bad for privacy."""
    digits = load("digits")
    np.savez(tmp_path / "half.npz", images=digits.images[:700], labels=digits.labels[:700])
    return tmp_path / "half.npz"


def test_every_figure_is_there_and_is_that_of_its_own_file(run: Any, half: Path) -> None:
    found = run("evaluate", half, "--on", "digits", "--seeds", 2, "--json").json
    assert found.keys() >= OLD | NEW and found["internal"] is True and found["notes"] == []
    train, test = load("digits"), load("digits", split="test")
    images, labels = train.images[:700], train.labels[:700]
    assert list(found["classifiers"]) == ["cnn", "logistic-regression"]
    for name, by in found["classifiers"].items():
        own = judged_accuracy(images, labels, test, classifier=name, seeds=range(2))
        assert by["synthetic"] == json.loads(json.dumps(own.to_json()))
        counted = np.array(by["synthetic"]["confusion"])
        seeds = [0, 1] if name == "cnn" else [0]  # all images were learned from
        assert by["synthetic"]["seeds"] == seeds
        assert counted.sum() == len(seeds) * len(test.labels)
        assert counted.trace() / counted.sum() == pytest.approx(by["synthetic"]["accuracy"])
    assert found["accuracy"] == found["classifiers"]["cnn"]["synthetic"]["accuracy"]
    domain = DomainClassifier.learn(train)
    own = measured(images, test.images, domain)
    assert found["fid"] == pytest.approx(own.fid, rel=1e-6)
    assert found["inception_score"] == pytest.approx(own.inception_score)
    assert found["prdc"] == pytest.approx(own.prdc.to_json())
    assert found["domain"]["accuracy"] == domain.tested(test).accuracy
    near = nearest(synthetic=images, held_out=test.images, train=train.images)
    assert found["nearest"] == json.loads(json.dumps(near.to_json()))
    assert found["nearest"]["copies"] == 700
    attacks = attacked(images, train.images, test.images)
    assert [a["auc"] for a in found["membership"]] == [a.auc for a in attacks]
    assert found["membership"][0]["auc_interval"][0] > 0.6


def test_distances_are_taken_in_features_from_a_file(
    run: Any, half: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Inception-v3 with weights by chance: the distance found again, in as few dimensions as there
    are images."""
    monkeypatch.setattr(evaluation, "QUICK", evaluation.Effort(judged=60, measured=10))
    save_file(weights(), tmp_path / "weights.safetensors")
    words = ("evaluate", half, "--on", "digits", "--seeds", 1, "--quick", "--json")
    found = run(*words, "--features", tmp_path / "weights.safetensors").json
    kept = found["measures"]
    assert (kept["features"], kept["dimensions"]) == ("Inception-v3", 2048)
    assert (kept["fid_images"], kept["fid_infinite"]) == (10, None)
    judged = load("digits").images[:700][subset(700, 60, 0)]
    drawn = judged[subset(60, 10, 0)], load("digits", split="test").images
    drawn = drawn[0], drawn[1][subset(len(drawn[1]), 10, 0)]
    ours, theirs = (Inception(weights()).features(images) for images in drawn)
    one, other = ((each - each.mean(0)) / 9**0.5 for each in (ours, theirs))
    apart = np.square(ours.mean(0) - theirs.mean(0)).sum()
    apart += np.square(one).sum() + np.square(other).sum()
    expected = apart - 2 * np.linalg.svd(one @ other.T, compute_uv=False).sum()
    assert found["fid"] == pytest.approx(expected, rel=1e-4)
    score = inception_score(Cache().domain(load("digits")).probabilities(drawn[0]))
    assert found["inception_score"] == pytest.approx(score)  # of the domain classifier, as ever


def test_the_domain_classifier_is_the_judge_on_real_data(run: Any, half: Path) -> None:
    found = run("evaluate", half, "--on", "digits", "--quick", "--json").json
    train, test = load("digits"), load("digits", split="test")
    own = judged_accuracy(train.images, train.labels, test)
    by_real = found["classifiers"]["cnn"]["real"]
    assert by_real["accuracy"] == own.accuracy == found["domain"]["accuracy"]
    assert by_real["confusion"] == [list(row) for row in own.confusion]
    assert found["classifiers"]["logistic-regression"]["real"] is None


def test_all_adds_classifiers_and_baselines_which_are_kept(
    run: Any, half: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = run("evaluate", half, "--on", "digits", "--all", "--json").json
    assert list(first["classifiers"]) == [
        *("cnn", "logistic-regression", "random-forest", "residual")
    ]
    for by in first["classifiers"].values():
        assert by["real"]["training_images"] == 1400
        assert by["synthetic"]["training_images"] == 700
        assert by["real"]["accuracy"] > 0.7

    def again(*given: Any, **named: Any) -> None:
        raise AssertionError("learned from real records a second time")

    monkeypatch.setattr(cache, "judged_accuracy", again)
    monkeypatch.setattr(cache.DomainClassifier, "learn", again)
    second = run("evaluate", half, "--on", "digits", "--all", "--json").json
    assert second == first


def test_each_stage_is_named_as_it_begins(run: Any, half: Path) -> None:
    """Without a terminal, where there are no bars: who waits sees that it goes on."""
    told = run("evaluate", half, "--on", "digits", "--quick", "--json")
    stages = ("real records", "synthetic images", "domain classifier", "cnn")
    stages += ("logistic-regression", "measures", "training records")
    assert told.err == "".join(f"{stage} ...\n" for stage in stages)


@pytest.mark.parametrize(
    "side, usual, quick",
    [(8, 50_000, 10_000), (28, 50_000, 10_000), (32, 42_958, 10_000), (64, 8_632, 2_877)],
)
def test_of_larger_images_fewer_are_learned_from(side: int, usual: int, quick: int) -> None:
    """So that the default ends in minutes at any size; --all leaves none out."""
    for shape in ((1, side, side), (3, side, side)):
        assert evaluation.USUAL.learned(50_000, shape) == usual
        assert evaluation.QUICK.learned(10_000, shape) == quick
        assert evaluation.EVERYTHING.learned(50_000, shape) == 50_000
        assert evaluation.USUAL.learned(700, shape) == 700


def test_no_network_learns_from_more_than_its_share(
    run: Any, half: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither from real images nor from synthetic ones; an image of 8x8 is one place."""
    monkeypatch.setattr(evaluation, "QUICK", evaluation.Effort(work=300, measured=100))
    found = run("evaluate", half, "--on", "digits", "--quick", "--json").json
    assert found["classifiers"]["cnn"]["synthetic"]["training_images"] == 300
    assert found["classifiers"]["cnn"]["real"]["training_images"] == 300
    assert found["domain"]["training_images"] == 300


def test_the_terminal_says_what_is_internal(run: Any, half: Path) -> None:
    shown = run("evaluate", half, "--on", "digits", "--quick")
    assert shown.code == 0
    for word in ("accuracy 0.", "Inception Score", "FID", "coverage", "700 are copies", "density"):
        assert word in shown.out, word
    assert shown.out.rstrip().endswith(
        "Internal: these figures were computed on real records without noise. Do not publish them."
    )


def test_data_without_a_test_split_have_no_training_records(run: Any, half: Path) -> None:
    found = run("evaluate", half, "--on", half, "--classes", 10, "--json").json
    assert found["nearest"] is None and found["membership"] is None
    assert "no test split" in found["notes"][0]
    assert found["domain"]["training_images"] == 583 and found["domain"]["test_images"] == 117
    assert found["classifiers"]["cnn"]["real"] is None
    assert found["fid"] is not None


def test_it_is_said_when_a_run_is_tested_on_what_it_has_learned_from(
    run: Any, half: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(evaluation, "QUICK", evaluation.Effort(judged=300, measured=100))
    own = ("--on", half, "--classes", 10)
    few = ("--steps", 2, "--batch", 5, "--set", "noise_multiplier=9.0")
    for command, how in (("fit", ("class-gaussian",)), ("classify", ("scatter", *few))):
        words = (command, half, "--classes", 10, "--epsilon", 8, "--out", command)
        assert run(*words, "--method", *how).code == 0
        quick = ("--quick",) if command == "fit" else ()
        said, words = f"those that {command} has learned from", ("evaluate", command, *own, *quick)
        assert said in run(*words, "--json").json["notes"][-1] and said in run(*words).out
    assert run("evaluate", "classify", "--on", "digits", "--json").json["notes"] == []


def test_pictures_are_taken_in_the_colour_of_the_run(run: Any, tmp_path: Path) -> None:
    """One test picture is in colour; the run, and what it is judged by, is grey, as was said."""
    digits = load("digits")
    for number in range(240):
        split = "train" if number < 160 else "test"
        folder = tmp_path / "own" / split / str(digits.labels[number] % 2)
        folder.mkdir(parents=True, exist_ok=True)
        shade = Image.fromarray(digits.images[number, 0])
        shade.convert("RGB" if number == 239 else "L").save(folder / f"{number}.png")
    fit = ("fit", "own", "--image-size", 8, "--epsilon", 9, "--method", "class-gaussian")
    assert run(*fit, "--grey", "--out", "r").code == 0
    found = run("evaluate", "r", "--on", "own", "--quick", "--json")
    assert found.code == 0 and found.json["test_images"] == 80
    assert run(*fit, "--out", "c").code == 0
    assert load_run(tmp_path / "c").shape == (3, 8, 8)


def test_pictures_are_compared_in_the_colour_of_real_ones(
    run: Any, half: Path, tmp_path: Path
) -> None:
    """Grey digits, saved as files of either kind, on digits and on the same files."""
    digits, real = load("digits"), load("digits").public
    for number in range(40):
        folder = tmp_path / "drawn" / str(digits.labels[number])
        folder.mkdir(parents=True, exist_ok=True)
        shade = Image.fromarray(digits.images[number, 0])
        shade.convert("RGB" if number % 2 else "L").save(folder / f"{number}.png")
    images, _ = evaluation.samples_of(tmp_path / "drawn", real, at_most=50)
    assert images.shape == (40, 1, 8, 8)
    images, _ = evaluation.samples_of(
        tmp_path / "drawn", replace(real, shape=(3, 8, 8)), at_most=50
    )
    assert images.shape == (40, 3, 8, 8)


def test_pictures_from_files_are_resized_as_real_ones_are(run: Any, tmp_path: Path) -> None:
    digits = load("digits", split="test")
    for number, image in enumerate(digits.images[:60, 0]):
        folder = tmp_path / "drawn" / str(number % 10)
        folder.mkdir(parents=True, exist_ok=True)
        side = 8 + number % 3
        Image.fromarray(image).resize((side, side)).save(folder / f"{number}.png")
    assert "--image-size" in run("evaluate", "drawn", "--on", "digits", "--quick").err
    words = ("evaluate", "drawn", "--on", "digits", "--image-size", 8, "--quick", "--json")
    assert run(*words).json["synthetic_images"] == 60


def test_another_number_of_classes_is_said_plainly(run: Any, tmp_path: Path) -> None:
    for name in ("1", "2", "3"):
        folder = tmp_path / "three" / name
        folder.mkdir(parents=True)
        Image.new("L", (8, 8)).save(folder / "a.png")
    refused = run("evaluate", "three", "--on", "digits")
    assert refused.code == 2 and "three has 3 classes and digits has 10" in refused.err


def test_splits_of_different_shapes_are_refused(run: Any, tmp_path: Path) -> None:
    arrays = {"images": np.zeros((40, 8, 8), np.uint8), "labels": np.arange(40) % 2}
    test = {"test_images": np.zeros((40, 12, 12), np.uint8), "test_labels": np.arange(40) % 2}
    np.savez(tmp_path / "two.npz", **arrays, **test)
    np.savez(tmp_path / "drawn.npz", images=test["test_images"], labels=test["test_labels"])
    refused = run("evaluate", "drawn.npz", "--on", "two.npz", "--classes", 2, "--quick")
    assert refused.code == 2 and "(1, 8, 8) and test images of (1, 12, 12)" in refused.err


def test_a_run_on_other_data_is_not_attacked(
    run: Any, half: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(evaluation, "QUICK", evaluation.Effort(judged=300, measured=100))
    run("fit", half, "--classes", 10, "--epsilon", 10, "--method", "class-gaussian", "--out", "r")
    found = run("evaluate", "r", "--on", "digits", "--quick", "--json").json
    assert found["nearest"] is None and found["membership"] is None
    assert "was not trained on digits" in found["notes"][0]
    assert json.loads((tmp_path / "r/internal/evaluation.json").read_text()) == found


def split_npz(file: Path, **more: Any) -> Path:
    """Digits with a test split, as somebody's own data."""
    train, test = load("digits"), load("digits", split="test")
    arrays = {"images": train.images, "labels": train.labels}
    arrays |= {"test_images": test.images, "test_labels": test.labels}
    np.savez(file, **arrays, **more)
    return file


def test_other_records_of_the_same_number_and_shape_are_not_taken_for_its_own(
    run: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(evaluation, "QUICK", evaluation.Effort(judged=300, measured=100))
    assert (
        run("fit", "digits", "--epsilon", 10, "--method", "class-gaussian", "--out", "r").code == 0
    )
    (tmp_path / "named").mkdir()
    other = split_npz(tmp_path / "other.npz", class_names=load("digits").public.class_names)
    renamed = split_npz(tmp_path / "named" / "digits.npz", class_names=[*"abcdefghij"])
    for source in (other, renamed):
        found = run("evaluate", "r", "--on", source, "--quick", "--json").json
        assert found["nearest"] is None and found["membership"] is None
        assert "r was not trained on" in found["notes"][0]
    own = run("evaluate", "r", "--on", "digits", "--quick", "--json").json
    assert own["nearest"]["training_images"] == 1400 and own["membership"] and own["notes"] == []


def test_classes_in_another_order_are_refused(run: Any, half: Path, tmp_path: Path) -> None:
    names = load("digits").public.class_names
    turned = split_npz(tmp_path / "turned.npz", class_names=names[::-1])
    digits = load("digits")
    arrays = {"images": digits.images[:300], "labels": digits.labels[:300]}
    np.savez(tmp_path / "some.npz", **arrays, class_names=names[::-1])
    assert (
        run("fit", "digits", "--epsilon", 10, "--method", "class-gaussian", "--out", "r").code == 0
    )
    few = ("--method", "scatter", "--steps", 2, "--batch", 5, "--set", "noise_multiplier=9.0")
    assert run("classify", "digits", "--epsilon", 8, *few, "--out", "c").code == 0
    bought = ("--private-validation", 1, "--out", "v")
    for words in (("r", "--on", turned), ("some.npz", "--on", "digits"), ("c", "--on", turned)):
        for more in ((), bought):
            refused = run("evaluate", *words, *more)
            assert refused.code == 2 and "bring the classes into one order" in refused.err
            assert "Class 0 is" in refused.err and not (tmp_path / "v").exists()
    np.savez(tmp_path / "named.npz", **arrays, class_names=[*"abcdefghij"])  # other names: fine
    assert run("evaluate", "named.npz", "--on", "digits", "--quick").code == 0


def test_a_folder_that_is_called_like_a_data_set_is_a_folder(run: Any, tmp_path: Path) -> None:
    (tmp_path / "digits").mkdir()
    for more in ((), ("--private-validation", 1, "--out", "v")):
        refused = run("evaluate", "digits", "--on", "digits", *more)
        assert refused.code == 2 and "digits has no images" in refused.err
    assert not (tmp_path / "v").exists()


def test_what_these_data_are_too_few_for_is_left_out(run: Any, tmp_path: Path) -> None:
    digits = load("digits")
    np.savez(tmp_path / "few.npz", images=digits.images[:5], labels=digits.labels[:5])
    found = run("evaluate", "few.npz", "--on", "digits", "--json").json
    assert (found["fid"], found["prdc"], found["inception_score"]) == (None, None, None)
    assert found["membership"] is None and found["nearest"]["synthetic_images"] == 5
    assert len(found["notes"]) == 2 and "8 images" in found["notes"][0]
    assert run("evaluate", "few.npz", "--on", "digits").code == 0


def test_one_record_is_too_few(run: Any, half: Path, tmp_path: Path) -> None:
    one = load("digits")
    np.savez(tmp_path / "one.npz", images=one.images[:1, 0], labels=one.labels[:1])
    found = run("evaluate", half, "--on", tmp_path / "one.npz", "--classes", 10)
    assert found.code == 2 and "has one record, and evaluate needs two at least" in found.err


def test_large_files_are_judged_in_part(half: Path) -> None:
    real = load("digits").public
    images, labels = evaluation.samples_of(half, real, at_most=50)
    again, _ = evaluation.samples_of(half, real, at_most=50)
    assert images.shape == (50, 1, 8, 8) and len(np.unique(labels)) > 5
    assert np.array_equal(images, again)


@pytest.mark.parametrize(
    "words, said",
    [
        (["--quick", "--all"], "exclude each other"),
        (["--seeds", "0"], "--seeds must be at least 1"),
        (["--features", "gone.safetensors"], "gone.safetensors is missing"),
        (["--features", "weights.pth"], "weights.pth: weights of Inception-v3 are read from"),
    ],
)
def test_what_cannot_be_done_is_refused(
    run: Any, half: Path, words: list[str], said: str, tmp_path: Path
) -> None:
    refused = run("evaluate", half, "--on", "digits", *words)
    assert refused.code == 2 and said in refused.err


def test_the_cache_is_nobody_elses_and_a_damaged_file_is_made_anew(
    own_home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    digits = load("digits", keep=lambda public: np.arange(100))
    first = Cache().domain(digits)
    assert (own_home / "cache").stat().st_mode & 0o077 == 0
    (file,) = (own_home / "cache").glob("domain-*.safetensors")
    file.write_bytes(file.read_bytes()[:100])
    second = Cache().domain(digits)
    images = digits.images
    assert np.array_equal(first.features(images), second.features(images))
    learned = []
    monkeypatch.setattr(cache.DomainClassifier, "learn", lambda *a, **n: learned.append(a))
    assert np.array_equal(Cache().domain(digits).features(images), first.features(images))
    assert not learned


def test_classes_that_were_renamed_are_called_by_their_new_names(own_home: Path) -> None:
    digits, found = load("digits"), []
    for names in (("a", "b"), ("b", "a")):
        few = np.flatnonzero(digits.labels < 2)
        public = replace(digits.public, n_records=len(few), class_names=names)
        own = Records(images=digits.images[few], labels=digits.labels[few], public=public)
        found.append(Cache().baseline("logistic-regression", own, own, seeds=range(1)))
    assert [list(each["per_class"]) for each in found] == [["a", "b"], ["b", "a"]]


def test_other_records_have_another_classifier(own_home: Path) -> None:
    for count in (60, 61):
        Cache().domain(load("digits", keep=lambda public, count=count: np.arange(count)))
    assert len(list((own_home / "cache").glob("domain-*.safetensors"))) == 2
