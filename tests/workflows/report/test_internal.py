"""The page that may not be published: what is measured is there, and only there."""

import json
import re
import shutil
from pathlib import Path
from typing import Any

import pytest

from datalens.errors import DataLensError
from datalens.workflows.publishing import export
from datalens.workflows.report.internal import DEPENDENT, read_diagnosis, write_internal
from datalens.workflows.report.public import write_report

from .test_public import drawn_curves, text_of

CONFUSION = [[51, 2, 3], [4, 55, 6], [7, 8, 59]]
FIGURES: dict[str, Any] = {
    "on": "mnist",
    "accuracy": 0.7312,
    "accuracy_spread": 0.0123,
    "accuracy_best_on_test": 0.7512,
    "per_class": {"one": 0.911, "two": 0.622, "three": None},
    "seeds": [0, 1, 2],
    "per_seed": [0.7, 0.7, 0.8],
    "synthetic_images": 50_000,
    "test_images": 195,
    "classifiers": {
        "forest": {
            "synthetic": {"accuracy": 0.612, "accuracy_spread": 0.034, "confusion": CONFUSION},
            "real": {"accuracy": 0.987},
        }
    },
    "inception_score": 4.56,
    "fid": 78.9,
    "prdc": {"precision": 0.112, "recall": 0.223, "density": 0.334, "coverage": 0.445},
    "domain": {"accuracy": 0.9731, "test_images": 1_234},
    "measures": {
        "fid_images": 2_345,
        "fid_infinite": 71.2,
        "features": "Inception-v3",
        "dimensions": 2_048,
        "synthetic_images": 3_456,
        "real_images": 2_345,
    },
    "nearest": {
        "synthetic": {"1": 1.25, "50": 6.5},
        "held_out": {"1": 1.5, "50": 7.5},
        "nearer_than_held_out": 0.0234,
        "copies": 7,
        "synthetic_images": 1_999,
        "held_out_images": 195,
        "training_images": 60_001,
    },
    "membership": [
        {
            "attack": "nearest neighbour",
            "auc": 0.513,
            "auc_interval": [0.48, 0.55],
            "control_auc": 0.507,
            "hits_at_one_percent": 0.0156,
            "hits_interval": [0.0101, 0.0222],
        }
    ],
    "notes": ["No <b>sums</b>: too few.", "Another."],
}
SHOWN = {
    "accuracy": "accuracy 73.1 % ± 1.2 % over 3 seeds, last epoch",
    "accuracy_best_on_test": "best on test 75.1 %",
    "per_class": "one 91.1 % two 62.2 % three none tested",
    "synthetic_images": "learnt from 50,000 synthetic images",
    "test_images": "tested on 195 real images of mnist",
    "classifiers": "forest 61.2 % ± 3.4 % 98.7 %",
    "inception_score": "inception score 4.56",
    "fid": "FID 78.9",
    "prdc": "density 0.334",
    "domain": "by a classifier that is 97.3 % right on 1,234 real images",
    "measures": "from 2,345 images of each kind, 71.2 if followed to ever more",
    "nearest": "Percentile 1 50 synthetic 1.25 6.5 held-out 1.5 7.5",
    "membership": "nearest neighbour 0.513 0.480 to 0.550 0.507 1.6 % 1.0 % to 2.2 %",
    "notes": "To be read with the figures No <b>sums</b>: too few. Another.",
}
MORE = [
    "precision 0.112 synthetic",
    "recall 0.223 real",
    "coverage 0.445 real",
    "Features: Inception-v3, 2,048 dimensions. 3,456 synthetic images were compared with 2,345",
    "copies 7 of 1,999 synthetic images are a training record, pixel for pixel",
    "nearer than held-out records 2.3 % of them are nearer than the nearest 1 % of 195 held-out",
    "looked among 60,001 training records",
]


@pytest.fixture
def run(made: Path, tmp_path: Path) -> Path:
    shutil.copytree(made / "votes", tmp_path / "run")
    return tmp_path / "run"


def page_with(run: Path, figures: dict[str, Any]) -> str:
    (run / "internal" / "evaluation.json").write_text(json.dumps(figures))
    return write_internal(run).read_text()


def confusions(page: str) -> list[list[list[int]]]:
    """Each table, by rows."""
    row = r"<tr><th scope=\"row\">[^<]*</th>((?:<td[^>]*>\d+</td>){3})</tr>"
    tables = [re.findall(row, table) for table in page.split("Columns: what it was taken")[1:]]
    return [[[int(n) for n in re.findall(r">(\d+)<", each)] for each in rows] for rows in tables]


def test_all_that_was_measured_is_there(run: Path) -> None:
    page = page_with(run, FIGURES)
    text = text_of(page)
    assert text.count("INTERNAL") >= 4
    for words in [*SHOWN.values(), *MORE]:
        assert words in text
    assert confusions(page) == [CONFUSION]
    assert re.findall(r'class="right">(\d+)<', page) == ["51", "55", "59"]


def test_a_distance_that_cannot_be_followed_says_so(run: Path) -> None:
    measures = {**FIGURES["measures"], "fid_infinite": None}
    text = text_of(page_with(run, {**FIGURES, "measures": measures}))
    assert "from 2,345 images of each kind, too few to be followed to ever more" in text


@pytest.mark.parametrize("name", SHOWN)
def test_what_was_not_measured_is_left_out(run: Path, name: str) -> None:
    left = {key: value for key, value in FIGURES.items() if key != name}
    text = text_of(page_with(run, left))
    assert SHOWN[name] not in text
    if name != "accuracy":
        assert SHOWN["accuracy"] in text


def test_nothing_of_it_is_published(run: Path, tmp_path: Path) -> None:
    page_with(run, FIGURES)
    before = (run / "report.html").read_text()
    assert write_report(run).read_text() == before
    names = export(run, tmp_path / "public")
    assert "internal" not in " ".join(names)
    text = "".join(p.read_text(errors="replace") for p in (tmp_path / "public").iterdir())
    for words in ("INTERNAL", "0.7312", "73.1", "confusion"):
        assert words not in text


def test_it_is_not_written_among_what_is_published(run: Path, tmp_path: Path) -> None:
    """Nor in the place of a link that lies there, wherever that leads."""
    elsewhere = tmp_path / "elsewhere" / "report.html"
    elsewhere.parent.mkdir()
    (run / "report.html").replace(elsewhere)
    (run / "report.html").symlink_to(elsewhere)
    before = elsewhere.read_bytes()
    for out in (run / "report.html", run / "other.html", run / "internal" / ".." / "x.html"):
        with pytest.raises(DataLensError, match="whose files may be published"):
            write_internal(run, out=out)
    write_internal(run, out=tmp_path / "fine.html")
    assert elsewhere.read_bytes() == before and (run / "report.html").is_symlink()


def test_confusion_of_a_classifier_that_is_the_product(made: Path, tmp_path: Path) -> None:
    shutil.copytree(made / "model", tmp_path / "model")
    figures = {"on": "mnist", "accuracy": 0.5, "confusion": CONFUSION}
    page = page_with(tmp_path / "model", figures)
    assert confusions(page) == [CONFUSION] and "Confusion: this classifier" in page


def test_how_long_it_took_and_bars_by_class(run: Path) -> None:
    page = page_with(run, FIGURES)
    seconds = json.loads((run / "internal" / "timings.json").read_text())["seconds"]
    told = re.search(r", ([\d.,]+) s to fit", text_of(page))
    assert told and float(told[1].replace(",", "")) == pytest.approx(seconds, rel=6e-3)
    table = page.split('class="by-class"')[1].split("</table>")[0]
    assert re.findall(r'<rect width="([\d.]+)"', table) == ["91.10", "62.20"]


def test_without_any_figures_it_says_how_to_get_them(made: Path, tmp_path: Path) -> None:
    shutil.copytree(made / "plain", tmp_path / "plain")
    text = text_of(write_internal(tmp_path / "plain").read_text())
    assert "Nothing has been measured yet" in text and "datalens evaluate plain" in text


def test_a_run_without_its_private_half_is_refused(run: Path) -> None:
    shutil.rmtree(run / "internal")
    with pytest.raises(DataLensError, match="no folder internal"):
        write_internal(run)


@pytest.mark.parametrize(
    "figures",
    [
        {"accuracy": "much"},
        {"accuracy": 0.5, "per_class": [1]},
        {"classifiers": {"x": {"synthetic": {"confusion": [[1]]}}}},
        {"classifiers": {"x": {"synthetic": {"accuracy": 1, "confusion": [[1]] * 9}}}},
        {"membership": [{"attack": "x"}]},
        {"fid": "near"},
        {"nearest": [1]},
        {"nearest": {"synthetic": {"1": 1.0}, "copies": "many"}},
        {"fid": 1.0, "measures": {"fid_images": 9}},
        {"inception_score": 1.0, "domain": {"accuracy": "high"}},
        {"notes": 5},
        {"prdc": {"precision": "<b>"}},
    ],
)
def test_figures_of_another_kind_are_refused_in_a_sentence(run: Path, figures: Any) -> None:
    with pytest.raises(DataLensError, match=r"evaluation\.json"):
        page_with(run, figures)


def test_the_diagnosis_is_that_of_the_file(run: Path) -> None:
    lines = [
        json.loads(t) for t in (run / "internal/data_dependent.jsonl").read_text().splitlines()
    ]
    assert len(lines) == 4
    found = read_diagnosis(run / "internal" / "data_dependent.jsonl")
    assert found is not None and found.steps == 4
    means = [sum(line["agreement"]) / len(line["agreement"]) for line in lines]
    assert found.last_agreement == pytest.approx(means[-1]) and 0 < means[-1] <= 1
    page = write_internal(run).read_text()
    assert f"<b>{means[-1]:.3g}</b> of the teachers" in page
    assert lines[-1]["not_applicable"] in text_of(page)
    charts = page.split("<figure")
    (agreed,) = [c for c in charts if "curve agreement" in c]
    for (place, value), (step, mean) in zip(
        drawn_curves(agreed)["agreement"], enumerate(means, 1), strict=True
    ):
        assert (place, value) == pytest.approx((step, mean), abs=0.01)


def test_both_epsilons_of_the_diagnosis_are_drawn_and_said(run: Path) -> None:
    """A diagnosis as a run on agreeing teachers writes it, with one step that has none."""
    spent, dependent = [1.0, 1.5, 2.0, 2.444], [0.5, None, 0.9, 1.111]
    lines = [
        {"step": step, "epsilon": {"independent": one, "dependent": other}, "agreement": [0.5]}
        for step, (one, other) in enumerate(zip(spent, dependent, strict=True))
    ]
    file = run / "internal" / "data_dependent.jsonl"
    file.write_text("".join(json.dumps(line) + "\n" for line in lines))
    page = write_internal(run).read_text()
    text = text_of(page)
    (chart,) = [c for c in page.split("<figure") if "curve dependent" in c]
    drawn = drawn_curves(chart)
    for name, values in (("independent", spent), ("dependent", dependent)):
        right = [(step, each) for step, each in enumerate(values, 1) if each is not None]
        assert len(drawn[name]) == len(right)
        for found, point in zip(drawn[name], right, strict=True):
            assert found == pytest.approx(point, abs=0.01)
    told = re.findall(r"<b>([\d.]+)</b> ([^<]*)</li>", chart)
    right = [("2.45", DEPENDENT["independent"]), ("1.12", DEPENDENT["dependent"])]
    assert told == right  # bounds: rounded up
    assert "no epsilon that was spent: that is 2.45." in text
    assert "Not applicable" not in text


def test_a_broken_line_of_it_is_left_out(tmp_path: Path) -> None:
    file = tmp_path / "data_dependent.jsonl"
    assert read_diagnosis(file) is None
    whole = {"step": 0, "epsilon": {"independent": 2.0, "dependent": 1.5}, "agreement": [0.5, 1.0]}
    file.write_text(json.dumps(whole) + '\n{"step": 1, "epsi')
    found = read_diagnosis(file)
    assert found is not None
    assert (found.steps, found.dependent_epsilon, found.last_agreement) == (1, 1.5, 0.75)
    file.write_text("[1, 2]\n")
    with pytest.raises(DataLensError, match=r"data_dependent\.jsonl"):
        read_diagnosis(file)


def test_best_on_test_is_for_comparison_with_the_paper_alone(run: Path) -> None:
    page = page_with(run, {**FIGURES, "on": "own"})
    assert "best on test" not in text_of(page) and "What own tells about" in page


def test_the_heading_names_what_the_figures_come_from(run: Path) -> None:
    assert "What mnist tells about" in page_with(run, FIGURES)


def test_half_a_letter_does_not_stop_a_page(run: Path) -> None:
    """JSON can hold what no file of text can."""
    assert "A note: ?." in page_with(run, {**FIGURES, "notes": ["A note: \ud800."]})
