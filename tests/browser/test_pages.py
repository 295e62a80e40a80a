"""Pages in a real browser: what people see, on a screen, on a phone, on paper, by keyboard."""

import json
import os
import threading
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from datalens.synthesizers import METHODS
from datalens.utility.nearest import PERCENTILES
from datalens.workflows.fitting import Source, fit_run
from datalens.workflows.progress import STOPPED
from datalens.workflows.report.internal import write_internal
from datalens.workflows.report.public import write_report
from datalens.workflows.watch.server import Server

from .chromium import Browser, Page, pages
from .conftest import CLASSES

PAGES = {
    "report": "votes/report.html",
    "no votes": "plain/report.html",
    "classifier": "model/report.html",
    "internal": "votes/internal/report.html",
    "comparison": "all.html",
}
SHOWN = "[...document.querySelectorAll('[data-class]')].filter(e => e.offsetParent).length"
SIZES = "[...document.images].map(i => i.complete ? i.naturalWidth * i.naturalHeight : 0)"
CONTRASTS = """(() => {
  const parts = (text) => text.match(/[\\d.]+/g).map(Number);
  const light = (rgb) => rgb.slice(0, 3).map(v => v / 255)
    .map(v => v <= .04045 ? v / 12.92 : ((v + .055) / 1.055) ** 2.4)
    .reduce((sum, v, i) => sum + v * [.2126, .7152, .0722][i], 0);
  const behind = (e) => {
    for (; e; e = e.parentElement) {
      const rgb = parts(getComputedStyle(e).backgroundColor);
      if (rgb.length < 4 || rgb[3] > 0) return rgb;
    }
    return [255, 255, 255];
  };
  const found = {};
  for (const e of document.body.querySelectorAll("*")) {
    const own = [...e.childNodes].some(n => n.nodeType === 3 && n.textContent.trim());
    if (!own || !e.checkVisibility() || e.tagName === "SCRIPT") continue;
    const style = getComputedStyle(e);
    const ink = parts(e.namespaceURI.includes("svg") ? style.fill : style.color);
    const [a, b] = [light(ink), light(behind(e))].sort((x, y) => y - x);
    found[e.textContent.trim().slice(0, 40)] = (a + .05) / (b + .05);
  }
  return found;
})()"""
"""Of every text, how much it stands out from what is behind it (WCAG 2)."""


def address(place: Path, name: str) -> str:
    return (place / PAGES[name]).as_uri()


def seen(page: Page, name: str) -> None:
    """Kept for people to look at, if they say where: SCREENSHOTS=FOLDER."""
    if folder := os.environ.get("SCREENSHOTS"):
        Path(folder).mkdir(parents=True, exist_ok=True)
        (Path(folder) / f"{name}.png").write_bytes(page.screenshot())


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
@pytest.mark.parametrize("name", PAGES)
def test_a_page_renders(chromium: Browser, place: Path, name: str, dark: bool) -> None:
    """No complaints, nothing fetched, every picture there, every text readable."""
    with chromium.page(address(place, name), dark=dark) as page:
        assert page.complaints() == []
        assert page.requests() == [address(place, name)]
        sizes = page.ask(SIZES)
        assert all(size > 0 for size in sizes)
        assert bool(sizes) is (name not in ("classifier", "internal"))
        contrasts = page.ask(CONTRASTS)
        assert len(contrasts) > 20
        assert {text: ratio for text, ratio in contrasts.items() if ratio < 4.5} == {}
        seen(page, f"{name}-{'dark' if dark else 'light'}")


@pytest.mark.parametrize("name", PAGES)
def test_a_page_is_in_order(chromium: Browser, place: Path, name: str) -> None:
    """Language, headings, alternative texts, names of tables' cells."""
    with chromium.page(address(place, name)) as page:
        assert page.ask("document.documentElement.lang") == "en"
        assert page.ask("document.title.length") > 5
        levels = page.ask("[...document.querySelectorAll('h1,h2,h3')].map(h => +h.tagName[1])")
        assert levels[0] == 1 and levels.count(1) == 1
        assert all(now <= before + 1 for before, now in pairwise(levels))
        assert page.ask("[...document.images].every(i => i.alt.length > 10)")
        assert page.ask(
            "[...document.querySelectorAll('svg')].every(s => s.ariaHidden || s.ariaLabel)"
        )
        assert page.ask("[...document.querySelectorAll('th')].every(t => t.scope)")


@pytest.mark.parametrize("name", PAGES)
def test_a_page_fits_a_phone(chromium: Browser, place: Path, name: str) -> None:
    with chromium.page(address(place, name), width=390, height=844) as page:
        assert page.ask("document.documentElement.scrollWidth") <= 390
        seen(page, f"{name}-phone")


@pytest.mark.parametrize("name", ["report", "no votes", "classifier"])
def test_on_paper_it_is_two_pages_at_most(chromium: Browser, place: Path, name: str) -> None:
    with chromium.page(address(place, name)) as page:
        pdf = page.printed()
        if folder := os.environ.get("SCREENSHOTS"):
            (Path(folder) / f"{name}.pdf").write_bytes(pdf)
        assert 1 <= pages(pdf) <= 2


def test_pages_are_counted(chromium: Browser, tmp_path: Path) -> None:
    """The control: a page that is three pages long."""
    breaks = "<p style='break-after: page'>x</p>" * 2 + "<p>x</p>"
    (tmp_path / "long.html").write_text(f"<!doctype html><title>x</title>{breaks}")
    with chromium.page((tmp_path / "long.html").as_uri()) as page:
        assert pages(page.printed()) == 3


@pytest.mark.parametrize("name", ["report", "comparison"])
def test_the_filter_shows_one_class(chromium: Browser, place: Path, name: str) -> None:
    """By keyboard alone: Tab to it, arrows through it."""
    with chromium.page(address(place, name)) as page:
        assert page.ask(SHOWN) == len(CLASSES)
        for _ in range(20):
            page.press("Tab", 9)
            if page.ask("document.activeElement.name") == "class":
                break
        mark = "getComputedStyle(document.activeElement.nextElementSibling).outlineStyle"
        assert page.ask(mark) == "solid"  # who uses the keyboard sees where they are
        for name_of_class in CLASSES:
            page.press("ArrowRight", 39)
            assert page.ask(SHOWN) == 1
            assert page.ask("document.querySelector('[data-said]').textContent") == (
                f"Shown: {name_of_class}."
            )
            shown = "[...document.querySelectorAll('[data-class]')].find(e => !e.hidden).innerText"
            assert page.ask(shown).startswith(name_of_class)
        page.press("ArrowRight", 39)  # around to the first: all
        assert page.ask(SHOWN) == len(CLASSES)
        assert page.complaints() == []


def test_on_paper_all_classes_are_there(chromium: Browser, place: Path) -> None:
    with chromium.page(address(place, "report")) as page:
        page.ask("document.querySelectorAll('[name=class]')[1].click()")
        assert page.ask(SHOWN) == 1
        page.call("Emulation.setEmulatedMedia", media="print")
        assert page.ask(SHOWN) == len(CLASSES)
        assert page.ask("document.querySelector('.details').offsetParent") is None


def test_without_script_all_is_shown(chromium: Browser, place: Path) -> None:
    with chromium.page(address(place, "report"), script=False) as page:
        assert page.ask(SHOWN) == len(CLASSES)
        assert page.ask("document.querySelector('[data-filter]').offsetParent") is None
        assert page.complaints() == []


def test_complaints_are_heard(chromium: Browser, tmp_path: Path, place: Path) -> None:
    """The control: a picture that is none, and a script that found its way into a report."""
    text = (place / PAGES["report"]).read_text()
    assert "data:image/png;base64,iVBOR" in text and "</main>" in text
    broken = text.replace("data:image/png;base64,iVBOR", "data:image/png;base64,xxxxx", 1)
    for number, page_text in enumerate(
        (broken, text.replace("</main>", "<script>document.title = 'mine'</script></main>"))
    ):
        file = tmp_path / f"{number}.html"
        file.write_text(page_text)
        with chromium.page(file.as_uri()) as page:
            assert (0 in page.ask(SIZES)) is (number == 0)
            assert bool(page.complaints()) is (number == 1)
            assert page.ask("document.title") != "mine"


@pytest.mark.parametrize("finished", [True, False])
def test_the_dashboard_follows_a_run(
    chromium: Browser, place: Path, tmp_path: Path, finished: bool
) -> None:
    run: Any = place / "votes"
    if not finished:
        run = tmp_path / "half"
        run.mkdir()
        (run / "config.toml").write_text((place / "votes" / "config.toml").read_text())
        (run / "log.jsonl").write_text(
            '{"stage": "votes", "done": 1, "total": 9, "epsilon": 1.5}\n'
        )
    with Server(run) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        with chromium.page(server.url) as page:
            page.wait("document.body.dataset.shown === 'yes'")
            if finished:
                page.wait("document.images[0].naturalWidth > 0")
            else:
                assert page.ask("document.getElementById('epsilon').textContent") == "1.5"
                assert page.ask("document.getElementById('done').textContent") == "1 of 9"
                with (run / "log.jsonl").open("a") as log:
                    log.write('{"stage": "votes", "done": 4, "total": 9, "epsilon": 2.5}\n')
                page.wait("document.getElementById('epsilon').textContent === '2.5'")
                assert page.ask("document.querySelector('progress').value") == 4
                page.wait("document.getElementById('left').textContent.endsWith(' s')")
                assert page.ask("document.getElementById('way').textContent") == "Run under way"
                (run / STOPPED).touch()
                page.wait("document.getElementById('way').textContent === 'Run stopped'")
                said = page.ask("document.getElementById('said').textContent")
                assert said.endswith(f"Go on with: datalens fit DATA --out {run} --resume")
                assert page.ask("document.getElementById('left').textContent") == "–"
                (run / STOPPED).unlink()
                page.wait("document.getElementById('way').textContent === 'Run under way'")
            assert page.complaints() == []
            assert all(url.startswith(server.url) for url in page.requests())
            way = "document.getElementById('way').textContent"
            assert page.ask(way) == ("Run finished" if finished else "Run under way")
            seen(page, f"dashboard-{'finished' if finished else 'under-way'}")
        server.shutdown()


@pytest.mark.parametrize("classes", [10, 20])
def test_with_many_classes_it_is_two_pages_at_most(
    chromium: Browser, tmp_path: Path, classes: int
) -> None:
    """As many as data sets have, and as many as a page shows."""
    images = np.random.default_rng(0).integers(0, 256, (60, 1, 28, 28), dtype=np.uint8)
    learner = METHODS["datalens"](epsilon=8.0, clusters=2, label_steps=2)
    learner.fit(images, np.arange(60) % classes, n_classes=classes)
    learner.save(tmp_path / "run")
    page_file = write_report(tmp_path / "run")
    with chromium.page(page_file.as_uri()) as page:
        assert page.ask(SHOWN) == classes
        pdf = page.printed()
        if folder := os.environ.get("SCREENSHOTS"):
            (Path(folder) / f"{classes}-classes.pdf").write_bytes(pdf)
        assert 1 <= pages(pdf) <= 2


def test_all_that_can_be_measured_is_two_pages_at_most(chromium: Browser, tmp_path: Path) -> None:
    """The internal report of ten classes, four classifiers and votes, with notes to it."""
    images = np.random.default_rng(0).integers(0, 256, (60, 1, 8, 8), dtype=np.uint8)
    names = ["t-shirt/top", "trouser", "pullover", "dress", "coat"]
    names += ["sandal", "shirt", "sneaker", "bag", "ankle boot"]
    np.savez(tmp_path / "own.npz", images=images, labels=np.arange(60) % 10, class_names=names)
    votes = {"n_teachers": 6, "steps": 4, "batch_size": 3, "latent": 4, "label_steps": 2}
    learner = METHODS["datalens"](epsilon=3.0, **votes)
    source = Source(name=str(tmp_path / "own.npz"), n_classes=10)
    fit_run(learner, source, tmp_path / "run", ledger=None, seed=None, quiet=True)
    judged = {"accuracy": 0.8, "accuracy_spread": 0.01, "confusion": [[1000] * 10] * 10}
    kinds = ("judge", "logistic regression", "random forest", "residual network")
    distances = {str(each): 12.34 for each in PERCENTILES}
    attack = {"auc": 0.51, "auc_interval": [0.4, 0.6], "control_auc": 0.5}
    attack |= {"hits_at_one_percent": 0.02, "hits_interval": [0.01, 0.03]}
    figures = {
        "on": "fashion-mnist",
        **{"accuracy": 0.83, "accuracy_spread": 0.01, "accuracy_best_on_test": 0.85},
        **{"seeds": [0, 1, 2], "synthetic_images": 50_000, "test_images": 10_000},
        "per_class": dict.fromkeys(names, 0.8),
        "classifiers": {kind: {"synthetic": judged, "real": judged} for kind in kinds},
        **{"inception_score": 4.5, "fid": 12.3},
        "prdc": {"precision": 0.1, "recall": 0.2, "density": 0.3, "coverage": 0.4},
        "domain": {"accuracy": 0.97, "test_images": 10_000},
        "measures": {
            **{"fid_images": 10_000, "fid_infinite": 11.2, "dimensions": 64},
            **{"features": "domain classifier"},
            **{"synthetic_images": 10_000, "real_images": 10_000},
        },
        "nearest": {
            **{"synthetic": distances, "held_out": distances},
            **{"copies": 0, "nearer_than_held_out": 0.01},
            **{"synthetic_images": 2000, "held_out_images": 2000, "training_images": 60_000},
        },
        "membership": [{"attack": name, **attack} for name in ("nearest neighbour", "density")],
        "notes": ["No sums: there are too few images."] * 3,
    }
    (tmp_path / "run" / "internal" / "evaluation.json").write_text(json.dumps(figures))
    with chromium.page(write_internal(tmp_path / "run").as_uri()) as page:
        assert page.ask("document.querySelectorAll('section').length") == 7
        pdf = page.printed()
        if folder := os.environ.get("SCREENSHOTS"):
            (Path(folder) / "everything.pdf").write_bytes(pdf)
        assert 1 <= pages(pdf) <= 2
