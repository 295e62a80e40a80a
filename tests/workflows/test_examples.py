"""The examples, on small data."""

import os
import subprocess
import sys
from pathlib import Path

import numpy as np

from datalens.privacy.verify import verify

EXAMPLES = Path(__file__).parents[2] / "examples"


def follow(name: str, *words: str, home: Path) -> str:
    done = subprocess.run(
        [sys.executable, str(EXAMPLES / name), "--data", "digits", *words],
        env=os.environ | {"PYTHONPATH": os.pathsep.join(sys.path), "OMP_NUM_THREADS": "1"},
        cwd=home,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_publish(tmp_path: Path) -> None:
    said = follow("publish.py", "--count", "50", "--out", "published", home=tmp_path)
    assert "planner" in said and "50 images" in said
    assert verify(tmp_path / "published") == []
    assert (tmp_path / "published" / "report.html").is_file()
    with np.load(tmp_path / "published" / "synthetic.npz") as drawn:
        assert drawn["images"].shape == (50, 1, 8, 8)


def test_compare(tmp_path: Path) -> None:
    words = ("--methods", "class-gaussian,datalens", "--records", "300", "--images", "200")
    lines = follow("compare.py", *words, "--epsilon", "100", home=tmp_path).splitlines()
    assert [line.split()[0] for line in lines[1:]] == ["class-gaussian", "datalens"]
    assert all(20 < float(line.split()[1].rstrip("%")) <= 100 for line in lines[1:])


def test_they_are_short() -> None:
    for example in EXAMPLES.glob("*.py"):
        assert len(example.read_text().splitlines()) < 60
