"""The page that may be published: each figure on it, computed another way."""

import base64
import html
import io
import json
import math
import re
import shutil
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from datalens.privacy import recompute
from datalens.privacy.rounding import rounded_up
from datalens.workflows.report.charts import HEIGHT, WIDTH, chart, nice_steps
from datalens.workflows.report.page import bound, decimal, figure, odds
from datalens.workflows.report.public import write_report
from datalens.workflows.report.words import (
    ACCOUNTANTS,
    RELEASES,
    _factor,
    _often,
    right_at_most,
)
from datalens.workflows.runs import load_run

from .conftest import CLASSES

PRIVATE = ("votes", "plain", "sampled", "model", "kept", "counts")
ALL = (*PRIVATE, "seeded", "bare")


def page_of(run: Path) -> str:
    return (run / "report.html").read_text()


def charges_of(run: Path) -> list[dict[str, Any]]:
    """As the ledger's extract has them, without our reader."""
    rows = json.loads((run / "ledger.json").read_text())["rows"]
    bodies = [row["body"] for row in rows if "body" in row]
    return [body["charge"] for body in bodies if body["kind"] == "spend"]


def certificate_of(run: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((run / "certificate.json").read_text())
    return found


def text_of(page: str) -> str:
    """What is read, in one line."""
    return " ".join(html.unescape(re.sub(r"<[^>]*>", " ", page)).split())


def drawn_curves(page: str) -> dict[str, list[tuple[float, float]]]:
    """Points as they are drawn, in the units of the ticks beside them."""
    ticks = re.findall(r'<text x="-8" y="([\d.]+)" text-anchor="end">([\d.]+)</text>', page)
    (low_y, low), (high_y, high) = ((float(y) - 4, float(v)) for y, v in (ticks[0], ticks[-1]))
    across = re.findall(r'<text x="([\d.]+)" y="260" text-anchor="middle">([\d.,]+)</text>', page)
    far_x, far = float(across[-1][0]), float(across[-1][1].replace(",", ""))
    found = {}
    for name, text in re.findall(r'<polyline class="curve (\w+)" points="([^"]+)"', page):
        pairs = [tuple(map(float, pair.split(","))) for pair in text.split()]
        found[name] = [
            (x * far / far_x, low + (y - low_y) * (high - low) / (high_y - low_y)) for x, y in pairs
        ]
    return found


@pytest.mark.parametrize("name", ["votes", "plain"])
def test_the_drawn_curves_are_those_of_closed_forms(made: Path, name: str) -> None:
    charges = charges_of(made / name)
    one_by_one = [{**charge, "count": 1} for charge in charges for _ in range(charge["count"])]
    delta = certificate_of(made / name)["delta"]
    curves = drawn_curves(page_of(made / name))
    assert set(curves) == {"certified", "paper", "gaussian"}
    for accountant, points in curves.items():
        assert points[0] == pytest.approx((0, 0), abs=1e-9)
        assert round(points[-1][0]) == len(one_by_one)
        for place, drawn in points[1:]:
            bought = one_by_one[: round(place)]
            cost = recompute.curve(bought)
            right = {
                "certified": lambda: recompute.certified(cost, delta),  # noqa: B023
                "paper": lambda: recompute.paper(cost, delta),  # noqa: B023
                "gaussian": lambda: recompute.gaussian(
                    recompute.rho(bought, "squared_sensitivity"),  # noqa: B023
                    delta,
                ),
            }[accountant]()
            assert drawn == pytest.approx(right, rel=1e-3, abs=0.02)  # a tenth of a pixel


@pytest.mark.parametrize("name", ["sampled", "model"])
def test_curves_of_sampled_steps_end_where_the_certificate_does(made: Path, name: str) -> None:
    certificate = certificate_of(made / name)
    curves = drawn_curves(page_of(made / name))
    assert set(curves) == set(certificate["epsilon"]) and "gaussian" not in curves
    for accountant, points in curves.items():
        assert points[-1][0] == pytest.approx(certificate["releases"])
        assert points[-1][1] == pytest.approx(certificate["epsilon"][accountant], abs=0.05)


def test_shares_and_counts_are_those_of_the_ledger(made: Path) -> None:
    charges = charges_of(made / "votes")
    costs: dict[str, float] = {}
    counts: dict[str, int] = {}
    for charge in charges:
        cost = charge["count"] * charge["squared_sensitivity"] / (2 * charge["sigma"] ** 2)
        costs[charge["what"]] = costs.get(charge["what"], 0) + cost
        counts[charge["what"]] = counts.get(charge["what"], 0) + charge["count"]
    assert len(costs) == 5
    text = text_of(page_of(made / "votes"))
    widths = re.findall(r'<rect width="([\d.]+)"', page_of(made / "votes"))
    for (what, cost), width in zip(costs.items(), widths, strict=True):
        share = cost / sum(costs.values())
        times = "1 time" if counts[what] == 1 else f"{counts[what]} times"
        assert f"{what} {100 * share:.1f} % {RELEASES[what]}; {times}" in text
        assert float(width) == pytest.approx(100 * share, abs=0.01)
    assert f"releases {sum(counts.values())} each charged" in text
    assert sum(counts.values()) == 1 + 2 + 2 + 4 * 3


@pytest.mark.parametrize("name", ["votes", "plain", "sampled", "model"])
def test_the_legend_says_what_each_accountant_has_in_the_end(made: Path, name: str) -> None:
    """By the closed forms of the verifier's own code, or, of sampled steps, as it certifies."""
    charges, certificate = charges_of(made / name), certificate_of(made / name)
    told = re.findall(r"<b>([\d.]+)</b> (epsilon[^<]*)</li>", page_of(made / name))
    shown = {html.unescape(words): float(number) for number, words in told}
    right = dict(certificate["epsilon"])
    if name in ("votes", "plain"):
        cost, delta = recompute.curve(charges), certificate["delta"]
        rho = recompute.rho(charges, "squared_sensitivity")
        closed = {"certified": recompute.certified, "paper": recompute.paper}
        right = {n: of(cost, delta) for n, of in closed.items()}
        right["gaussian"] = recompute.gaussian(rho, delta)
    assert {ACCOUNTANTS[each] for each in right} == set(shown)
    for accountant, epsilon in right.items():
        assert epsilon * (1 - 1e-6) <= shown[ACCOUNTANTS[accountant]] <= epsilon * 1.01


def rows_of_releases(run: Path) -> dict[str, list[str]]:
    """Of the table: name, then times, how far a record can move it, and noise."""
    table = page_of(run).split("How far one record can move it")[1].split("</table>")[0]
    rows = [re.findall(r"<t[hd][^>]*>(.*?)</t[hd]>", row) for row in table.split("<tr>")[1:]]
    assert all(len(row) == 4 for row in rows)
    return {what: [text_of(cell) for cell in rest] for what, *rest in rows}


def number(text: str) -> float:
    return float(text.replace(",", ""))


@pytest.mark.parametrize("name", PRIVATE)
def test_the_table_of_releases_is_that_of_the_ledger(made: Path, name: str) -> None:
    """How far a record moves a release is rounded up, and noise is rounded down."""
    rows, charges = rows_of_releases(made / name), charges_of(made / name)
    by_name = {charge["what"]: charge for charge in charges}
    assert set(rows) == set(by_name)
    for what, charge in by_name.items():
        times, moved, noise = rows[what]
        assert number(times) == sum(each["count"] for each in charges if each["what"] == what)
        kind, told = re.fullmatch(r"(\w+, \w+) ([\d.,]+)", noise, re.DOTALL).groups()  # type: ignore[union-attr]
        if charge["event"] == "gaussian":
            right, moves = ("Gaussian, sigma", charge["sigma"]), charge["squared_sensitivity"]
            said = re.fullmatch(r"([\d.,]+), squared", moved)
        elif charge["event"] == "laplace":
            right, moves = ("Laplace, scale", charge["scale"]), charge["sensitivity"]
            said = re.fullmatch(r"([\d.,]+)", moved)
        else:
            right, moves = ("Gaussian, sigma", charge["noise_multiplier"]), 1.0
            said = re.match(r"([\d.,]+),", moved)
            if what == "topagg-sgd":  # half of a squared norm of 1 is kept, as the fixture asks
                moves = math.sqrt(0.5)
                assert "of which 0.5 of a squared norm of at most 1 2 are kept" in moved
            else:
                assert "in the largest norm of a record's part" in moved
            share = re.search(r"with probability ([\d.]+)", moved)
            assert share and float(share[1]) == pytest.approx(
                charge["sampling_probability"], rel=1e-3
            )
        assert said and 0 <= number(said[1]) / moves - 1 <= 0.01
        assert kind == right[0] and 0 <= 1 - number(told) / right[1] <= 0.01


def test_every_kind_of_release_has_a_run_above(made: Path) -> None:
    charges = [charge for name in PRIVATE for charge in charges_of(made / name)]
    assert {charge["event"] for charge in charges} == {"gaussian", "laplace", "sampled-gaussian"}
    assert {"dp-sgd", "topagg-sgd"} <= {charge["what"] for charge in charges}


@pytest.mark.parametrize("name", PRIVATE)
def test_what_is_learnt_from_is_what_was_given(made: Path, name: str) -> None:
    """Sixty records of three classes, as the fixture makes them; delta is as usual."""
    text = text_of(page_of(made / name))
    assert "Learnt from 60 private images by" in text and "records 60 each protected" in text
    assert "that it has 60 records in 3 classes, and the names of those" in text
    assert "delta 0.00001 1 in 100,000 records" in text


def test_steps_teachers_and_the_budget_are_those_that_were_asked_for(made: Path) -> None:
    """As the fixture asks."""
    votes, sampled = (text_of(page_of(made / name)) for name in ("votes", "sampled"))
    assert "4 steps of 6 teachers are among them. The budget was 3, and nothing" in votes
    assert "8 steps are among them. The budget was 9, and nothing" in sampled
    assert "steps" not in text_of(page_of(made / "plain")).split("The budget was 1, and nothing")[0]


@pytest.mark.parametrize("name", PRIVATE)
def test_it_is_cited_with_its_bound(made: Path, name: str) -> None:
    certificate, text = certificate_of(made / name), text_of(page_of(made / name))
    cited = re.search(r"at epsilon ([\d.]+), delta ([\d.]+) \(run (\w+)\)", text)
    assert cited and cited[3] == certificate["run"]
    epsilon = certificate["epsilon"][certificate["budget"]["accountant"]]
    assert 0 <= float(cited[1]) - epsilon < 0.0101 and float(cited[2]) == certificate["delta"]


@pytest.mark.parametrize("name", ["votes", "plain", "sampled"])
def test_pictures_are_the_generators(made: Path, name: str) -> None:
    """Every pixel of every class, drawn again from what is published."""
    page = page_of(made / name)
    pictures = re.findall(r'src="data:image/png;base64,([^"]+)" width="(\d+)" height="(\d+)"', page)
    labels = [label for label in range(3) for _ in range(12)]
    images = load_run(made / name).sample(36, labels, seed=0).images[:, 0]
    assert len(pictures) == 3
    for row, (text, width, height) in enumerate(pictures):
        with Image.open(io.BytesIO(base64.b64decode(text))) as picture:
            pixels = np.asarray(picture.convert("LA"))
        assert pixels.shape == (int(height), int(width), 2) == (17, 53, 2)
        for index in range(12):
            top, left = index // 6 * 9, index % 6 * 9
            tile = pixels[top : top + 8, left : left + 8]
            assert (tile[..., 0] == images[12 * row + index]).all() and (tile[..., 1] == 255).all()
        assert (pixels[8, :, 1] == 0).all() and (pixels[:, 8, 1] == 0).all()


@pytest.mark.parametrize("name", PRIVATE)
def test_the_words_say_what_the_certificate_says(made: Path, name: str) -> None:
    certificate, text = certificate_of(made / name), text_of(page_of(made / name))
    epsilon = certificate["epsilon"][certificate["budget"]["accountant"]]
    (factor,) = re.findall(r"at most ([\d,.]+) times as likely", text)
    assert float(factor.replace(",", "")) == pytest.approx(math.e**epsilon, rel=0.01)
    how = "by its" if certificate["budget"]["accountant"] == "pld" else "certified"
    assert f"epsilon {rounded_up(epsilon, 3)} {how}" in text
    assert "a remainder of 1 in 100,000, which is delta" in text
    assert "Each of the 60 records" in text
    assert f"as left blank, epsilon is {rounded_up(certificate['epsilon_replace'], 3)}." in text
    assert "images are of 8 by 8 pixels, grey" in text
    often = re.findall(r"be right at most ([\d.]+) % of the time", text)
    for told, e in zip(often, (math.exp(epsilon), math.e), strict=True):  # its own, and of 1
        # a thousandth more than the closed form, which it rounds up
        assert 0 <= float(told) / 100 - (e + 1e-5) / (e + 1) < 1e-3
    for digest in ("configuration_sha256", "generator_sha256", "classifier_sha256"):
        assert digest not in certificate or certificate[digest] in text
    assert certificate["ledger"]["head"] not in text  # which follows from this page among others


@pytest.mark.parametrize("epsilon", [0.0, 0.1, 1.0, 5.0, 30.0])
def test_the_best_guess_is_that_of_the_worst_mechanism(epsilon: float) -> None:
    """The mechanism that reaches (epsilon, delta): its two worlds, and who guesses best."""
    delta, e = 1e-3, math.exp(epsilon)
    one = np.array([delta, (1 - delta) * e / (1 + e), (1 - delta) / (1 + e), 0])
    other = one[::-1]
    best = np.maximum(one, other).sum() / 2
    assert right_at_most(epsilon, delta) == pytest.approx(best)


@pytest.mark.parametrize(
    "epsilon, said",
    [
        (0.0, "at most 50.1 % of the time"),
        (1.0, "at most 73.2 % of the time"),
        (8.0, "at most 99.97 % of the time"),
        (10.0, "at most 99.996 % of the time"),
        (14.0, "at most 1,202,617 times in 1,202,618"),
        (100.0, "as good as always"),
        (10_000.0, "as good as always"),
    ],
)
def test_how_often_is_a_number_that_is_not_too_small(epsilon: float, said: str) -> None:
    assert _often(epsilon, 1e-5) == said
    for step in range(250):
        at = epsilon + step / 10
        numbers = [float(n.replace(",", "")) for n in re.findall(r"[\d,.]+", _often(at, 1e-5))]
        if numbers:
            shown = numbers[0] / (numbers[1] if len(numbers) == 2 else 100)
            assert right_at_most(at, 1e-5) <= shown + 4e-16 and shown < 1  # floats end there
        else:
            assert at > 27


def test_a_factor_can_be_read_however_large() -> None:
    assert [_factor(n) for n in (0.0, 1.0, 10.0)] == ["1", "2.72", "22,027"]
    assert _factor(10_000.0) == "10 to the power of 4,343"  # 10000 / ln 10 = 4342.9
    assert right_at_most(10_000.0, 1e-5) == 1


@pytest.mark.parametrize("name", ALL)
def test_a_page_needs_nothing_else(made: Path, name: str) -> None:
    page = page_of(made / name)
    assert not re.search(r"(src|href)=\"(?!data:image/png;base64,|data:,|#main)", page)
    assert "url(" not in page and "@import" not in page and "http:" not in page
    assert "default-src &#39;none&#39;" in page


@pytest.mark.parametrize("name", ["votes", "plain"])
def test_names_are_text(made: Path, name: str) -> None:
    page = page_of(made / name)
    assert "<script>alert" not in page and page.count("<script") == 1
    for each in CLASSES:
        assert html.unescape(page).count(f"12 synthetic images of the class {each}") == 1


def test_what_protects_nobody_says_so(made: Path) -> None:
    for name, why in (("seeded", "came from a seed"), ("bare", "Nothing was protected")):
        text = text_of(page_of(made / name))
        assert text.count("NOT PRIVATE") >= 3 and why in text
        assert "may be published" not in text and "was paid for" not in text
        assert "Do not publish it" in text
    assert "epsilon, certified" not in text_of(page_of(made / "bare"))


@pytest.mark.parametrize("name", ["votes", "plain", "sampled"])
def test_pictures_are_said_to_be_what_they_are(made: Path, name: str) -> None:
    """A certificate bounds what they can show of a record; it does not say that they show none."""
    text = text_of(page_of(made / name))
    assert "generator, which has seen records only through what was paid for." in text
    assert "real record" not in text


def test_other_entries_of_the_ledger_are_counted(made: Path) -> None:
    """votes came first; model, which came later, saw the rows of those before."""
    assert "held no entry of any other run" in text_of(page_of(made / "votes"))
    rows = json.loads((made / "model" / "ledger.json").read_text())["rows"]
    others = sum("digest" in row for row in rows)
    assert others > 0 and f"held {others} entries of other runs" in text_of(page_of(made / "model"))


@pytest.mark.parametrize("name", ALL)
def test_it_follows_from_what_is_published(made: Path, name: str, tmp_path: Path) -> None:
    """Without the folder internal, the log, or the learner that made it: the same page."""
    before = page_of(made / name)
    shutil.copytree(made / name, tmp_path / name, ignore=shutil.ignore_patterns("internal", "log*"))
    assert write_report(tmp_path / name).read_text() == before


@pytest.mark.parametrize("most", [0.003, 0.9, 1, 2.999, 7, 10.8, 306, 4999, 1e6])
def test_ticks_are_round_and_reach(most: float) -> None:
    steps = nice_steps(most)
    assert steps[0] == 0 and steps[-2] < most <= steps[-1] * (1 + 1e-9)
    assert 3 <= len(steps) <= 8
    assert len({round(b - a, 9) for a, b in pairwise(steps)}) == 1


def test_a_chart_of_nothing_is_none() -> None:
    for curves in ({}, {"a": ([0], [0.0])}, {"a": ([0, 1], [0.0, 0.0])}):
        assert chart(curves, {}) is None
    found = chart({"a": ([0, 10], [0.0, 5.0])}, {"a": "it"})
    assert found is not None and found.lines[0].points == f"0.0,{HEIGHT:.1f} {WIDTH:.1f},0.0"
    assert (found.lines[0].label, found.lines[0].last) == ("it", 5.0)


def test_numbers_as_people_write_them() -> None:
    assert [figure(n) for n in (0.98765, 12345.6, 3.0, 66)] == ["0.988", "12,346", "3", "66"]
    assert [decimal(n) for n in (1e-5, 0.25, 1e-9)] == ["0.00001", "0.25", "1e-09"]
    assert [odds(n) for n in (1e-5, 1e-310)] == ["1 in 100,000", "1e-310"]


@pytest.mark.parametrize("releases, told", [(1, "0 1"), (2, "0 1 2"), (86, "0 20 40 60 80")])
def test_releases_are_counted_in_whole_numbers(releases: int, told: str) -> None:
    found = chart({"certified": (range(releases + 1), [1.0] * (releases + 1))}, {})
    assert found is not None and " ".join(tick.label for tick in found.across) == told


def test_bounds_are_rounded_up() -> None:
    """Figures that the nearest would understate: 0.984, 12,345, 0.00003333, 1 in 60,002."""
    assert [bound(n) for n in (0.98401, 12345.1, 3.0, 1e6)] == ["0.985", "12,346", "3", "1,000,000"]
    assert decimal(1 / 30_000) == "0.000033334" and odds(1 / 60_001.6) == "1 in 60,001"
    for epsilon in (0.001, 0.31, 1.0, 2.5, 6.99, 7.01, 20.0, 29.9):
        assert float(_factor(epsilon).replace(",", "")) >= math.exp(epsilon)
