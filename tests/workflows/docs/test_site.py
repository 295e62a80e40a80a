"""The site builds without a warning, and no link is dead, in the site or on GitHub."""

import os
import re
import shutil
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

from .shown import PAGES, ROOT

LINK = re.compile(r"\]\((?![a-z]+:)([^)#\s]*)(#[^)\s]*)?\)")
needs_mkdocs = pytest.mark.skipif(
    find_spec("mkdocs") is None or find_spec("mkdocstrings") is None,
    reason="the site's tools are not installed: make docs does so, or pip install 'datalens[docs]'",
)


def dead_links(page: Path) -> list[str]:
    """Links to files and headings that are not there, as GitHub would follow them."""
    dead = []
    for name, heading in LINK.findall(
        re.sub(r"```.*?```|`[^`\n]*`", "", page.read_text(), flags=re.S)
    ):
        target = page.parent / name if name else page
        if not target.exists() or (heading and heading[1:] not in headings(target)):
            dead.append(name + heading)
    return dead


def headings(page: Path) -> set[str]:
    titles = re.findall(r"^#+ (.*)$", page.read_text(), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles}


@pytest.mark.parametrize("page", PAGES)
def test_links_hold_on_github(page: str) -> None:
    assert dead_links(PAGES[page]) == []


def test_a_dead_link_is_seen(tmp_path: Path) -> None:
    (tmp_path / "other.md").write_text("# A title\n")
    (tmp_path / "page.md").write_text("[a](other.md#a-title) [b](other.md#gone) [c](gone.md)\n")
    assert dead_links(tmp_path / "page.md") == ["other.md#gone", "gone.md"]


def build(project: Path, site: Path) -> subprocess.CompletedProcess[str]:
    command = [
        sys.executable,
        "-m",
        "mkdocs",
        "build",
        "--strict",
    ]  # --quiet would hush what strict counts
    return subprocess.run(
        [*command, "--config-file", str(project / "mkdocs.yml"), "--site-dir", str(site)],
        env=os.environ | {"NO_MKDOCS_2_WARNING": "1"},
        capture_output=True,
        text=True,
    )


@needs_mkdocs
def test_the_site_builds_without_warnings(tmp_path: Path) -> None:
    done = build(ROOT, tmp_path)
    assert done.returncode == 0 and "WARNING" not in done.stderr, done.stderr
    reference = (tmp_path / "reference" / "python.html").read_text()
    assert 'id="datalens.DataLens.fit"' in reference
    assert (
        'href="../src/datalens/mechanism/drawn.py"'
        in (tmp_path / "methods/gswgan.html").read_text()
    )
    assert (tmp_path / "src/datalens/mechanism/drawn.py").is_file()
    for page in tmp_path.rglob("*.html"):  # a reader's browser is sent nowhere else
        assert not re.search(r'<(script|link|img)[^>]*(src|href)="?https?:', page.read_text()), page


@needs_mkdocs
def test_dead_links_stop_the_build(tmp_path: Path) -> None:
    project = tmp_path / "project"
    for name in ("docs", "src", "scripts", "examples"):
        shutil.copytree(ROOT / name, project / name)
    for name in ("mkdocs.yml", "README.md", "CONTRIBUTING.md", "CHANGELOG.md", "CITATION.cff"):
        shutil.copy(ROOT / name, project)
    with (project / "docs" / "concepts.md").open("a") as page:
        page.write("\n[a](gone-page.md) [b](faq.md#gone-title) [c](../src/gone-source.py)\n")
    done = build(project, tmp_path / "site")
    assert done.returncode != 0 and done.stderr.count("WARNING") == 3
    for gone in ("gone-page.md", "gone-title", "gone-source.py"):
        assert gone in done.stderr
