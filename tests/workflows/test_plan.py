"""`datalens plan`: same plans as `datalens fit`, no record read, nothing spent."""

import builtins
import re
import tomllib
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pytest

from datalens.data import Records, catalogue
from datalens.planning import planner
from datalens.workflows import forecast
from datalens.workflows.source import Source

DECLARED = ("--records", 2000, "--shape", "1x28x28", "--classes", 10)


def test_what_fit_does_is_what_was_planned(run: Any, tmp_path: Path) -> None:
    """fit's own configuration, from a real run, is that of the option it was told to take."""
    told = run("plan", "digits", "--epsilon", 3, "--no-calibrate", "--json").json
    found = planner.outlook(forecast.facts_of(Source(name="digits")), epsilon=3.0)
    words = [each["options"] for each in told["options"]]
    assert words == [each.words for each in found.options]
    for i, wanted in enumerate(("", "--method class-gaussian", "--no-warm-start --teachers 35")):
        chosen = found.options[words.index(wanted)]
        fitted = run("fit", "digits", "--epsilon", 3, "--out", f"r{i}", *wanted.split(), "--json")
        assert fitted.code == 0, fitted.err
        assert (tmp_path / f"r{i}" / "config.toml").read_text() == chosen.plan.to_toml()
        assert fitted.json["releases"] == chosen.releases
        assert fitted.json["epsilon"] == pytest.approx(chosen.epsilon)
    other = found.options[words.index("--vote-share 0.2")].plan
    assert tomllib.loads(other.to_toml()) != tomllib.loads(chosen.plan.to_toml())


def test_nothing_is_read_or_spent(
    run: Any, monkeypatch: pytest.MonkeyPatch, own_home: Path, tmp_path: Path
) -> None:
    """Every data set by name, with records that cannot be made and data files that cannot be
    opened."""

    def refuse(*_: object, **__: object) -> None:
        raise AssertionError("a record was read")

    opened = builtins.open

    def watched(file: Any, *rest: Any, **named: Any) -> Any:
        if str(file).endswith((".npz", ".gz", "ubyte", ".parquet")):
            refuse()
        return opened(file, *rest, **named)

    monkeypatch.setattr(Records, "__post_init__", refuse)
    monkeypatch.setattr(np, "load", refuse)
    monkeypatch.setattr(builtins, "open", watched)
    for known in catalogue():
        extra = () if known.n_records else ("--records", 100_000)
        found = run("plan", known.name, "--epsilon", 1, "--no-calibrate", "--json", *extra)
        assert found.code == 0, found.err
        assert found.json["records"] == (known.n_records or 100_000)
        assert found.json["classes"] == len(known.class_names)
    assert not own_home.exists() and not list(tmp_path.glob("*"))
    with pytest.raises(AssertionError):  # the guard works: fit does read
        run("fit", "digits", "--epsilon", 1)


def test_a_hopeless_budget_is_called_so(run: Any) -> None:
    found = run("plan", *DECLARED, "--epsilon", 0.1, "--no-calibrate")
    assert found.code == 0
    assert "No useful images will come out of this" in found.out
    assert "19,000 records at this epsilon or epsilon 1.1 with these records" in found.out


def test_a_good_budget_is_led_to_the_default(run: Any) -> None:
    found = run("plan", "mnist", "--epsilon", 1, "--no-calibrate")
    assert found.out.strip().endswith("Go on with: datalens fit mnist --epsilon 1 --delta 1e-05")
    assert "No useful" not in found.out
    for word in ("--vote-share 0.2", "class-gaussian", "by the paper", "missed", "teachers"):
        assert word in found.out
    costs = re.findall(r"│ (\d) │ ([\d.]+) +│ ([\d.]+) +│ ([\d.]+) +│", found.out)
    options = run("plan", "mnist", "--epsilon", 1, "--no-calibrate", "--json").json["options"]
    for i, (option, shown) in enumerate(zip(options, costs, strict=True), 1):
        exact = [option["epsilon"][name] for name in ("certified", "paper", "gaussian")]
        assert exact == pytest.approx([1, 1.2168, 0.915], abs=1e-3) and shown[0] == str(i)
        above = [float(figure) - epsilon for figure, epsilon in zip(shown[1:], exact, strict=True)]
        assert all(-1e-12 <= more < 1e-2 for more in above)  # rounded up
    assert max(len(line) for line in found.out.splitlines() if line[:1] in "┏┃┡│└") <= 80


@pytest.mark.parametrize(
    "words, said",
    [
        (("mnist", "--image-size", 16), "datalens fit mnist --image-size 16 --epsilon 3"),
        (
            ("--records", 60_000, "--shape", "1x32x32", "--classes", 10),
            "datalens fit DATA --image-size 32 --epsilon 3",
        ),
        (
            ("--records", 60_000, "--shape", "3x32x32", "--classes", 10),
            "datalens fit DATA --image-size 32 --epsilon 3",
        ),
        (
            ("--records", 60_000, "--shape", "1x24x32", "--classes", 10),
            "datalens fit DATA --epsilon 3",
        ),
    ],
)
def test_what_to_go_on_with_is_of_the_size_that_was_planned(
    run: Any, words: tuple[object, ...], said: str
) -> None:
    found = run("plan", *words, "--epsilon", 3, "--no-calibrate")
    assert f"Go on with: {said} " in found.out
    grey = "and --grey, if DATA is a folder" in found.out  # which would be read in colour
    assert grey is ("DATA" in said and "3x32x32" not in words)


@pytest.fixture
def faces(tmp_path: Path) -> Path:
    """A folder of 1,200 files that hold no picture, divided as `fit` knows it."""
    for split, each in (("train", 600), ("test", 5)):
        for name in ("men", "old women"):
            place = tmp_path / "my data" / "faces" / split / name
            place.mkdir(parents=True)
            for number in range(each):
                (place / f"{number}.jpg").touch()
            (place / "Thumbs.db").touch()
    return tmp_path / "my data" / "faces"


def test_a_folder_is_counted_and_no_picture_opened(
    run: Any, faces: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    words = ("--epsilon", 10, "--no-calibrate")
    found = run("plan", faces, *words, "--json").json
    assert (found["records"], found["shape"], found["classes"]) == (1200, [3, 64, 64], 2)
    assert run("plan", faces / "train", *words, "--json").json == found
    told = run("plan", faces, "--grey", "--image-size", 28, "--epsilon", 50, "--no-calibrate")
    assert "1,200 records of 1x28x28, 2 classes" in " ".join(told.out.split())
    fit = f"datalens fit '{faces}' --image-size 28 --grey --epsilon 50"
    assert f"Go on with: {fit} " in told.out, told.out
    told = run("plan", faces, *words)
    assert "Pictures are read in colour (--grey reads them in grey) and brought to 64" in told.out
    assert "The percentages only rank settings" in told.out
    (faces / "train" / "none").mkdir()
    refused = run("plan", faces, *words)
    assert refused.code == 2 and "none has no images" in refused.err


def test_an_archive_is_planned_by_its_headers(run: Any, tmp_path: Path) -> None:
    """Its content is not what its headers announce, which only a reader of it would see."""
    np.savez(
        tmp_path / "own.npz", images=np.zeros((900, 8, 9), np.uint8), labels=np.zeros(900, int)
    )
    content = (tmp_path / "own.npz").read_bytes()
    (tmp_path / "own.npz").write_bytes(content.replace(bytes(8 * 9 * 900), b"\1" * 8 * 9 * 900))
    words = ("plan", "own.npz", "--epsilon", 9, "--no-calibrate")
    refused = run(*words)
    assert refused.code == 2 and "must be declared with --classes" in refused.err
    found = run(*words, "--classes", 3, "--json").json
    assert (found["records"], found["shape"], found["classes"]) == (900, [1, 8, 9], 3)
    assert run("fit", "own.npz", "--classes", 3, "--epsilon", 9, "--out", "r").code == 2


def test_each_warning_is_said_once_with_the_options_it_is_about(run: Any) -> None:
    """3x64x64: votes drown in six of eight options, of which the first is none."""
    facts = ("--records", 8500, "--shape", "3x64x64", "--classes", 2, "--epsilon", 1)
    found = run("plan", *facts, "--no-calibrate").out
    told = run("plan", *facts, "--no-calibrate", "--json").json["options"]
    drowned = [i for i, each in enumerate(told, 1) if "unanimous" in " ".join(each["cautions"])]
    assert drowned == [3, 4, 5, 6, 7, 8]
    assert all((each["sigma"] or 0) * 2 > (each["teachers"] or 0) for each in told[2:])
    said = [line for line in found.splitlines() if line.startswith("Careful")]
    (noise,) = [line for line in said if "unanimous" in line]
    assert noise.startswith("Careful with 3 to 8: ") and "Of 3: 425 teachers" in noise
    (rank,) = [line for line in said if "only rank" in line]
    assert rank.startswith("Careful with 1 to 8: ")
    clear = run("plan", "mnist", "--epsilon", 1, "--no-calibrate").out
    assert "unanimous" not in clear and "only rank" not in clear


def test_a_part_of_a_named_data_set_can_be_planned(run: Any) -> None:
    part = ("plan", "celeba-gender", "--epsilon", 10, "--no-calibrate", "--records")
    found = run(*part, 8500, "--json").json
    assert (found["records"], found["shape"], found["classes"]) == (8500, [3, 64, 64], 2)
    # fit by that name would take all of them.
    assert "datalens fit DATA " in run(*part, 8500).out
    assert "datalens fit celeba-gender " in run(*part, 162_770).out


def test_times_come_from_a_calibration(run: Any) -> None:
    small = ("--records", 2000, "--shape", "1x8x8", "--classes", 3, "--epsilon", 5, "--json")
    for words, measured in [((), True), (("--no-calibrate",), False)]:
        found = run("plan", *small, *words).json["options"]
        assert all((each["seconds"] is not None) is measured for each in found)
        assert all(each["memory_bytes"] > 0 for each in found)


def test_the_plot_has_its_curves(run: Any, tmp_path: Path) -> None:
    assert run("plan", *DECLARED, "--epsilon", 2, "--no-calibrate", "--plot", "p.svg").code == 0
    drawn = ElementTree.parse(tmp_path / "p.svg").getroot()
    lines = [each for each in drawn.iter() if each.tag.endswith("polyline")]
    assert len(lines) == 2 + 3
    words = " ".join(each.text or "" for each in drawn.iter() if each.tag.endswith("text"))
    for word in ("votes alone", "certified", "paper", "gaussian", "steps", "epsilon"):
        assert word in words
    refused = run("plan", *DECLARED, "--epsilon", 2, "--no-calibrate", "--plot", "no/p.svg")
    assert refused.code == 2 and "--plot" in refused.err


@pytest.mark.parametrize(
    "words, sentence",
    [
        (("--epsilon", 1), "--records, --shape and --classes"),
        (("own.npz", "--epsilon", 1), "own.npz is neither a data set by name"),
        (("t.parquet", "--epsilon", 1), "as datalens plan --records N --shape CxHxW --classes N"),
        (("f", "--epsilon", 1, "--records", 9), "leave out --records and --shape"),
        (("mnist", "--epsilon", 1, "--records", 60_001), "60,000"),
        (("mnist", "--epsilon", 1, "--records", 0), "no records"),
        (("places365", "--epsilon", 1), "give --records"),
        (("mnist", "--epsilon", 1, "--classes", 5), "leave out --classes"),
        (("mnist", "--epsilon", 1, "--grey"), "leave out --grey/--colour"),
        ((*DECLARED, "--epsilon", 1, "--grey"), "leave out --grey"),
        (("mnist", "--epsilon", -1), "epsilon"),
        (("mnist", "--epsilon", "nan"), "epsilon"),
        (("mnist", "--epsilon", 1, "--delta", 2), "delta"),
        (("--records", 0, "--shape", "1x28x28", "--classes", 10, "--epsilon", 1), "no records"),
        (("--records", 9, "--shape", "28x28", "--classes", 10, "--epsilon", 1), "--shape"),
        (("--records", 9, "--shape", "2x28x28", "--classes", 10, "--epsilon", 1), "channels"),
        (("--records", 9, "--shape", "1x28x28", "--classes", 1, "--epsilon", 1), "classes"),
        (("mnist", "--epsilon", 1, "--image-size", 3), "size"),
    ],
)
def test_bad_input_is_one_sentence(
    run: Any, words: tuple[object, ...], sentence: str, tmp_path: Path
) -> None:
    (tmp_path / "t.parquet").touch()
    (tmp_path / "f").mkdir()
    refused = run("plan", *words, "--no-calibrate")
    assert refused.code == 2 and sentence in refused.err, refused.err
    assert refused.err.count("\n") == 1


def test_fit_repeats_what_plan_warns_of(run: Any) -> None:
    fitted = run(
        "fit", "digits", "--epsilon", 0.05, "--out", "r", "--delta", 0.01, "--allow-large-delta"
    )
    assert fitted.code == 0
    assert "Careful: 1,400 records at epsilon 0.05 are too few" in fitted.err
    assert "Careful: delta 0.01 is not below 1/n" in fitted.err
