"""`datalens report`, and the whole way of a newcomer with a folder of images."""

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image


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
    fitted = run("fit", "pets", "--epsilon", 8, "--out", "run", "--set", "label_steps=2")
    assert fitted.code == 0, fitted.err
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
    for words in (("run", "public"), ("run", "--out", "x.html"), ("nowhere",), ("pets",)):
        refused = run("report", *words)
        assert refused.code == 2 and refused.err.count("\n") == 1, refused.err
    assert not Path("x.html").exists()


def test_a_certificate_that_does_not_hold_is_not_reported(run: Any, pets: Path) -> None:
    words = ("--epsilon", 8, "--out", "run", "--method", "class-gaussian")
    assert run("fit", "pets", *words).code == 0
    before = Path("run/report.html").read_text()
    told = json.loads(Path("run/certificate.json").read_text())
    told["epsilon"]["certified"] /= 2
    Path("run/certificate.json").write_text(json.dumps(told))
    refused = run("report", "run")
    assert refused.code == 2 and "does not hold" in refused.err and "verify run" in refused.err
    assert Path("run/report.html").read_text() == before
    Path("run/certificate.json").unlink()
    assert "is not finished" in run("report", "run").err
    shutil.rmtree("run")
