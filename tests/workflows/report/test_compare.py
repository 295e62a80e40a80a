"""Runs side by side: what their certificates say, and nothing private unless asked for."""

import json
import re
import shutil
from pathlib import Path

import pytest

from datalens.errors import DataLensError
from datalens.privacy.rounding import rounded_up
from datalens.workflows.report.compare import write_comparison

from .test_public import certificate_of, text_of

NAMES = ("votes", "plain", "sampled", "model")


def cells(page: str) -> dict[str, list[str]]:
    rows = re.findall(r"<tr><th scope=\"row\">(.*?)</th>(.*?)</tr>", page)
    return {text_of(name): re.findall(r"<td>(.*?)</td>", rest) for name, rest in rows}


def test_figures_are_those_of_the_certificates(made: Path, tmp_path: Path) -> None:
    page = write_comparison([made / n for n in NAMES], tmp_path / "new" / "all.html").read_text()
    told = [certificate_of(made / name) for name in NAMES]
    found = cells(page)
    assert found["method"] == [c["method"] for c in told]
    assert found["records"] == ["60"] * 4 and found["delta"] == ["0.00001"] * 4
    assert found["releases"] == [str(sum(m["count"] for m in c["mechanisms"])) for c in told]
    assert found["epsilon, certified"] == [rounded_up(c["epsilon"]["certified"], 3) for c in told]
    others = {
        "pld": "epsilon, by privacy loss",
        "paper": "epsilon, by the paper's theorem",
        "gaussian": "epsilon, Gaussian (no bound)",
    }
    for accountant, words in others.items():
        of_each = [c["epsilon"].get(accountant) for c in told]
        assert found[words] == ["" if e is None else rounded_up(e, 3) for e in of_each]
        assert any(found[words])
    assert found["epsilon, a record replaced"] == [
        rounded_up(c["epsilon_replace"], 3) for c in told
    ]
    assert found["steps"] == ["4", "", "8", "4"] and found["teachers"] == ["6", "", "", ""]
    assert found["noise"] == ["exact", "exact", "float-secure", "float-secure"]
    assert page.count("data:image/png") == 3 * 3  # classes of the three runs that have images
    assert "NOT PRIVATE" not in page and "may be published" in page


def test_private_figures_only_if_asked_for(made: Path, tmp_path: Path) -> None:
    for name in ("votes", "plain"):
        shutil.copytree(made / name, tmp_path / name)
    (tmp_path / "votes/internal/evaluation.json").write_text(
        json.dumps({"accuracy": 0.8123, "accuracy_spread": 0.0456})
    )
    runs = [tmp_path / "votes", tmp_path / "plain"]
    page = write_comparison(runs, tmp_path / "all.html").read_text()
    assert "accuracy" not in page and "seconds" not in page and "INTERNAL" not in page
    page = write_comparison(runs, tmp_path / "all.html", internal=True).read_text()
    assert page.count("INTERNAL") >= 4
    assert cells(page)["accuracy on real images INTERNAL"] == ["81.2 % ± 4.6 %", ""]
    took = [json.loads((run / "internal/timings.json").read_text())["seconds"] for run in runs]
    assert cells(page)["seconds to fit INTERNAL"] == [f"{seconds:.3g}" for seconds in took]


def test_runs_of_one_name_are_told_apart(made: Path, tmp_path: Path) -> None:
    runs = []
    for name in ("votes", "plain"):
        runs.append(shutil.copytree(made / name, tmp_path / name / "run"))
    page = write_comparison(runs, tmp_path / "all.html").read_text()
    for run in runs:
        assert page.count(f"run ({certificate_of(run)['run']})") > 3


def test_one_that_protects_nobody_is_marked(made: Path, tmp_path: Path) -> None:
    page = write_comparison([made / "plain", made / "bare"], tmp_path / "all.html").read_text()
    assert cells(page)["private"] == ["yes", "NOT PRIVATE"]
    assert "Do not publish this page" in page and "may be published" not in page


def test_what_makes_no_comparison_is_refused(made: Path, tmp_path: Path) -> None:
    with pytest.raises(DataLensError, match="named twice"):
        write_comparison([made / "plain", made / "." / "plain"], tmp_path / "x.html")
    with pytest.raises(DataLensError, match="room for 12"):
        write_comparison([made / str(n) for n in range(13)], tmp_path / "x.html")
    shutil.copytree(made / "plain", tmp_path / "run")
    runs = [tmp_path / "run", made / "votes"]
    before = (tmp_path / "run/report.html").read_bytes()
    with pytest.raises(DataLensError, match="run is a run, whose files may be published"):
        write_comparison(runs, tmp_path / "run/report.html", internal=True)
    assert (tmp_path / "run/report.html").read_bytes() == before
    write_comparison(runs, tmp_path / "run/internal/all.html", internal=True)
    with pytest.raises(DataLensError, match="cannot be written"):
        (tmp_path / "file").touch()
        write_comparison([made / "plain", made / "votes"], tmp_path / "file" / "x.html")
