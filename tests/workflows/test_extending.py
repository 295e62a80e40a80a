"""docs/extending.md, followed to the letter: the package in it is built, installed and used."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

PAGE = Path(__file__).parents[2] / "docs" / "extending.md"
MOST_LINES = 60


def block(language: str) -> str:
    (found,) = re.findall(rf"```{language}\n(.*?)```", PAGE.read_text(), re.DOTALL)
    return str(found)


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    package, site = tmp_path_factory.mktemp("package"), tmp_path_factory.mktemp("site")
    (package / "class_means.py").write_text(block("python"))
    (package / "pyproject.toml").write_text(block("toml"))
    flags = ["--no-deps", "--no-index", "--no-build-isolation", "--target", str(site)]
    subprocess.run(
        [sys.executable, "-m", "pip", "install", "--quiet", *flags, str(package)],
        check=True,
        capture_output=True,
    )
    return site


def datalens(*words: str, site: Path) -> Any:
    done = subprocess.run(
        [sys.executable, "-m", "datalens", *words],
        env=os.environ | {"PYTHONPATH": os.pathsep.join([str(site), *sys.path])},
        capture_output=True,
        text=True,
    )
    return done if done.returncode else json.loads(done.stdout)


def test_it_is_short() -> None:
    assert len(block("python").strip().splitlines()) <= MOST_LINES


def test_a_method_from_another_package(installed: Path, tmp_path: Path) -> None:
    methods = datalens("methods", "--json", site=installed)["methods"]
    assert methods[-1]["name"] == "class-means" and methods[-1]["about"]
    images = np.full((40, 8, 8), 50, dtype=np.uint8)
    images[::2] = 200
    np.savez(tmp_path / "own.npz", images=images, labels=np.arange(40) % 2)
    own, run = str(tmp_path / "own.npz"), str(tmp_path / "run")
    fit = ["fit", own, "--classes", "2", "--method", "class-means", "--epsilon", "50"]
    fitted = datalens(*fit, "--out", run, "--json", site=installed)
    assert fitted["private"] and 49 < fitted["epsilon"]["certified"] <= 50
    found = json.loads(datalens("verify", run, "--json", site=installed).stdout)
    assert not found["holds"] and not found["private"]
    assert len(found["wrong"]) == 1 and "class-means is not one of DataLens" in found["wrong"][0]
    out = str(tmp_path / "drawn.npz")
    datalens("sample", run, "--count", "20", "--out", out, "--json", site=installed)
    with np.load(out) as drawn:
        bright = [drawn["images"][drawn["labels"] == label].mean() for label in (0, 1)]
    assert bright[0] > bright[1] + 50


def test_a_package_that_is_broken_is_named_and_harms_no_other(installed: Path) -> None:
    code = (installed / "class_means.py").read_text()
    try:
        (installed / "class_means.py").write_text("import nothing_of_that_name\n")
        refused = datalens(
            "fit", "digits", "--method", "class-means", "--epsilon", "1", site=installed
        )
        assert refused.returncode == 2 and "class-means" in refused.stderr
        assert "Traceback" not in refused.stderr
        fine = datalens(
            "fit", "none.npz", "--method", "class-gaussian", "--epsilon", "1", site=installed
        )
        assert "none.npz" in fine.stderr
    finally:
        (installed / "class_means.py").write_text(code)


def test_without_the_package_its_figures_are_compared(installed: Path, tmp_path: Path) -> None:
    images = np.zeros((20, 8, 8), dtype=np.uint8)
    np.savez(tmp_path / "own.npz", images=images, labels=np.arange(20) % 2)
    own, run = str(tmp_path / "own.npz"), str(tmp_path / "run")
    fit = ["fit", own, "--classes", "2", "--method", "class-means", "--epsilon", "5"]
    datalens(*fit, "--out", run, "--json", site=installed)
    found = json.loads(datalens("verify", run, "--json", site=tmp_path).stdout)
    assert not found["holds"] and len(found["wrong"]) == 1
    refused = datalens("sample", run, "--count", "5", "--out", "x.npz", site=tmp_path)
    assert refused.returncode == 2 and "unknown method, 'class-means'" in refused.stderr
