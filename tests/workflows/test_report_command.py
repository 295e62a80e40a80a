"""`datalens report`, and the whole way of a newcomer with a folder of images."""

import html
import json
import re
import shlex
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from datalens.synthesizers import ClassGaussian
from datalens.synthesizers.session import Stopped
from datalens.workflows import evaluation, validating
from datalens.workflows.source import Source


@pytest.fixture
def pets(tmp_path: Path) -> Path:
    chance = np.random.default_rng(0)
    for name in ("cat", "dog"):
        (tmp_path / "pets" / name).mkdir(parents=True)
        for number in range(20):
            pixels = chance.integers(0, 256, (8, 8, 3), dtype=np.uint8)
            Image.fromarray(pixels).save(tmp_path / "pets" / name / f"{number}.png")
    return tmp_path / "pets"


def test_a_newcomers_way(run: Any, pets: Path) -> None:
    """Each step works the first time, and says what to do next."""
    words = ("--set", "label_steps=2", "--image-size", 8)
    fitted = run("fit", "pets", "--epsilon", 8, "--out", "run", *words)
    assert fitted.code == 0 and "brought to" not in fitted.err, fitted.err
    assert "Next: datalens sample run --count 5000 --out synthetic" in fitted.out
    sampled = run("sample", "run", "--count", 50, "--out", "synthetic/")
    assert sampled.code == 0 and len(list(Path("synthetic").rglob("*.png"))) == 50
    assert "Next: datalens report run" in sampled.out
    reported = run("report", "run")
    assert reported.code == 0, reported.err
    assert "run/report.html" in reported.out and "Next: datalens export run" in reported.out
    assert "12 synthetic images of the class cat" in Path("run/report.html").read_text()
    inside = run("report", "run", "--internal", "--json").json
    assert inside == {"report": "run/internal/report.html", "internal": True, "runs": ["run"]}
    assert Path(inside["report"]).is_file()
    exported = run("export", "run", "--out", "public")
    assert exported.code == 0 and not list(Path("public").rglob("internal*"))
    assert run("report", "public").code == 0  # anyone can write it again
    refused = run("report", "public", "--internal")
    assert refused.code == 2 and "no folder internal" in refused.err

    both = run("report", "run", "public", "--out", "both.html")
    assert both.code == 0 and "2 runs side by side" in Path("both.html").read_text()
    for words in (("run", "--out", "x.png"), ("run", "run"), ("nowhere",), ("pets",)):
        refused = run("report", *words)
        assert refused.code == 2 and refused.err.count("\n") == 1, refused.err
    assert not Path("x.png").exists()
    _pages_have_their_places(run)


def _pages_have_their_places(run: Any) -> None:
    """Where no --out says so; and what is there already stays."""
    first = run("report", "run", "public")
    assert first.code == 0, first.err
    assert first.out.startswith("Report: comparison.html\nNext: open it in a browser; it may be")
    assert "2 runs side by side" in Path("comparison.html").read_text()
    Path("comparison.html").write_text("mine")
    assert run("report", "run", "public", "--json").json["report"] == "comparison-2.html"
    assert Path("comparison.html").read_text() == "mine"
    inside = run("report", "run", "public", "--internal", "--json").json
    assert inside["report"] == "comparison-INTERNAL.html" and inside["internal"]
    before = Path("run/report.html").read_text()
    Path("run/report.html").unlink()
    assert "Report: x.html" in run("report", "run", "--out", "x.html").out
    assert Path("x.html").read_text() == before and not Path("run/report.html").exists()
    none = run("report", "run", "--internal", "--out", "y.html")
    assert "nothing has been measured" in none.out and "come from real data" not in none.out
    assert "Next: datalens evaluate run --on DATA" in none.out
    assert "There are none yet" in Path("y.html").read_text()
    Path("run/internal/evaluation.json").write_text('{"accuracy": 0.5}')
    some = run("report", "run", "--internal", "--out", "y.html")
    assert "its figures come from real data" in some.out and "Next: open it" in some.out
    refused = run("report", "run", "--internal", "--out", "run/y.html")
    assert refused.code == 2 and "must lie elsewhere" in refused.err


def suggested(text: str, after: str) -> list[str]:
    """The words of a suggested command, as a shell takes them."""
    (line,) = (line for line in text.splitlines() if after in line)
    return shlex.split(line.split(after)[1].split("   (")[0])


def test_suggestions_can_be_typed(run: Any, pets: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever a folder is called: each is taken up as it stands."""
    odd = pets.rename(pets.with_name("my pets; $HOME's"))
    out = Path("a run & more")
    step = ClassGaussian._train

    def stopped(*given: Any, **named: Any) -> None:
        raise Stopped

    monkeypatch.setattr(ClassGaussian, "_train", stopped)
    words = ("--epsilon", 8, "--out", out, "--method", "class-gaussian", "--image-size", 8)
    halted = run("fit", odd, *words)
    monkeypatch.setattr(ClassGaussian, "_train", step)
    again = suggested(halted.err, "Go on with: ")
    told = ["datalens", "fit", str(odd), "--image-size", "8", "--out", str(out), "--resume"]
    assert again == told
    assert (out / "STOPPED").is_file()  # which `watch` tells of
    fitted = run(*again[1:])
    assert not (out / "STOPPED").exists()
    sample = suggested(fitted.out, "Next: ")
    assert sample[:3] == ["datalens", "sample", str(out)]
    report = suggested(run(*sample[1:3], "--count", 4, "--out", "new ones").out, "Next: ")
    assert report == ["datalens", "report", str(out)]
    export = suggested(run(*report[1:]).out, "Next: ")
    assert export == ["datalens", "export", str(out), "--out", "public"]
    verify = suggested(run(*export[1:-1], "for all").out, "can check it: ")
    assert verify == ["datalens", "verify", "for all"] and run(*verify[1:]).code == 0
    inside = suggested(run("report", out, "--internal").out, "Next: ")
    assert inside == ["datalens", "evaluate", str(out), "--on", "DATA"]
    page = html.unescape((out / "internal" / "report.html").read_text())
    shown = re.findall(r"<code>(datalens [^<]*)</code>", page)
    assert [shlex.split(each)[2] for each in shown] == [str(out), str(out)]


@pytest.fixture
def photos(tmp_path: Path) -> Path:
    """Colour photographs as people have them: JPEG files, no two of one size."""
    chance = np.random.default_rng(1)
    for split, each in (("train", 20), ("test", 8)):
        for name in ("cat", "dog"):
            folder = tmp_path / "photos" / split / name
            folder.mkdir(parents=True)
            for number in range(each):
                pixels = chance.integers(0, 256, (60 + number, 90 - number, 3), dtype=np.uint8)
                Image.fromarray(pixels).save(folder / f"{number}.jpg")
    return tmp_path / "photos"


def test_a_newcomers_way_with_photographs_of_many_sizes(run: Any, photos: Path) -> None:
    """As README has it, word for word, but for a smaller number of samples."""
    fitted = run("fit", photos, "--epsilon", 8, "--out", "run")
    assert fitted.code == 0, fitted.err
    assert "40 records of 3x64x64" in fitted.err
    assert (
        "Pictures are read in colour (--grey reads them in grey) and brought to 64x64 pixels"
        " (--image-size takes another)." in fitted.err
    )
    sampled = run("sample", "run", "--count", 6, "--out", "synthetic/")
    assert sampled.code == 0, sampled.err
    (first, *_) = sorted(Path("synthetic").rglob("*.png"))
    with Image.open(first) as picture:
        assert (picture.size, picture.mode) == ((64, 64), "RGB")
    assert run("report", "run").code == 0
    assert "12 synthetic images of the class cat" in Path("run/report.html").read_text()


def test_no_picture_decides_on_the_size(pets: Path) -> None:
    """Neither one that is odd among equal ones, nor all of them."""
    equal = Source(name=str(pets)).records().public
    Image.new("RGB", (11, 13)).save(pets / "cat" / "0.png")
    assert Source(name=str(pets)).records().public == equal
    assert equal.shape == (3, 64, 64)
    assert Source(name=str(pets), image_size=9).records().public.shape == (3, 9, 9)


def test_what_comes_after_takes_the_size_of_the_run(
    run: Any, photos: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(evaluation, "QUICK", evaluation.Effort(judged=60, measured=60))
    monkeypatch.setattr(validating, "JUDGED_IMAGES", 60)
    fit = ("fit", photos, "--epsilon", 8, "--method", "class-gaussian", "--out", "run")
    step = ClassGaussian._train

    def stopped(*given: Any, **named: Any) -> None:
        raise Stopped

    monkeypatch.setattr(ClassGaussian, "_train", stopped)
    halted = run(*fit, "--image-size", 12)
    assert halted.code == 130, halted.err
    monkeypatch.setattr(ClassGaussian, "_train", step)
    resumed = run("fit", photos, "--out", "run", "--resume")
    assert resumed.code == 0, resumed.err
    judged = run("evaluate", "run", "--on", photos, "--quick", "--json")
    assert judged.code == 0, judged.err
    assert judged.json["test_images"] == 16 and judged.json["nearest"]["training_images"] == 40
    assert run("evaluate", "run", "--on", photos, "--private-validation", 1).code == 0
    other = run("evaluate", "run", "--on", photos, "--quick", "--image-size", 16)
    assert other.code == 2 and "try --image-size 12" in other.err


def test_a_report_makes_one_folder_and_none_above(run: Any, pets: Path) -> None:
    words = ("--epsilon", 8, "--out", "run", "--method", "class-gaussian", "--image-size", 8)
    assert run("fit", "pets", *words).code == 0
    refused = run("report", "run", "--out", "nothere/deep/page.html")
    assert refused.code == 2 and "nothere is no folder" in refused.err
    assert not Path("nothere").exists()
    assert run("report", "run", "--out", "nothere/page.html").code == 0
    assert Path("nothere/page.html").is_file()


def test_a_certificate_that_does_not_hold_is_not_reported(run: Any, pets: Path) -> None:
    words = ("--epsilon", 8, "--out", "run", "--method", "class-gaussian", "--image-size", 8)
    assert run("fit", "pets", *words).code == 0
    before = Path("run/report.html").read_text()
    told = json.loads(Path("run/certificate.json").read_text())
    told["epsilon"]["certified"] /= 2
    Path("run/certificate.json").write_text(json.dumps(told))
    refused = run("report", "run")
    assert refused.code == 2 and "does not hold" in refused.err and "verify run" in refused.err
    assert Path("run/report.html").read_text() == before
    Path("run/certificate.json").unlink()
    said = "run is finished, but its certificate.json is missing: put it back from an export"
    again = "datalens fit pets --image-size 8 --out run --resume"
    commands = (("report",), ("sample", "--count", 3, "--out", "s.npz"), ("export", "--out", "x"))
    for command in commands:
        refused = run(command[0], "run", *command[1:])
        assert said in refused.err and f"or write it anew with {again}.\n" in refused.err
    shutil.copytree("run", "copy")
    assert run(*again.split()[1:]).code == 0
    assert run("verify", "run").code == 0
    shutil.rmtree("run")
    Path("copy").rename("run")
    Path("run/generator.safetensors").unlink()
    for command in commands:
        refused = run(command[0], "run", *command[1:])
        assert f"run is not finished; go on with {again}.\n" in refused.err
    Path("run/internal/source.json").unlink()
    assert "go on with datalens fit ... --out run --resume." in run("report", "run").err
    shutil.rmtree("run")
