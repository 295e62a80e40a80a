"""Links that hold on GitHub, made to hold in the site too. mkdocs.yml names this file as a hook.

Pages link to each other as files do. Three kinds of link need help: README.md is the home page
and lies outside docs/; a link to a folder means its README.md; and a file outside docs/ that a
page links to is put into the site, under its own path. A link to what is not there stays as it
is, and the strict build fails on it.
"""

import os
import re
from pathlib import Path

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

ROOT = Path(__file__).parents[1]
HOME = "README.md"
LINK = re.compile(r"(?<=\]\()(?![a-z]+:|#)([^)#\s]+)")


def on_files(files: Files, *, config: MkDocsConfig) -> Files:
    """Add the home page, and what pages link to outside docs/."""
    files.append(File.generated(config, "index.md", abs_src_path=str(ROOT / HOME)))
    waiting = list(files.documentation_pages())
    while waiting:
        page = waiting.pop()
        source = Path(page.abs_src_path)
        for link in LINK.findall(source.read_text()):
            path = _target(source, link)
            uri = _uri(path)
            if path.is_file() and files.get_file_from_path(uri) is None:
                found = File.generated(config, uri, abs_src_path=str(path))
                files.append(found)
                waiting += [found] if found.is_documentation_page() else []
    return files


def on_page_markdown(markdown: str, *, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Say links as the site's own tree has them."""
    source, here = Path(page.file.abs_src_path), Path(page.file.src_uri).parent

    def said(link: re.Match[str]) -> str:
        path = _target(source, link[1])
        return os.path.relpath(_uri(path), here) if path.is_file() else link[1]

    return LINK.sub(said, markdown)


def _target(source: Path, link: str) -> Path:
    path = Path(os.path.normpath(source.parent / link))
    return path / "README.md" if path.is_dir() else path


def _uri(path: Path) -> str:
    """Where a file of the project lies in the site, before pages are made of it."""
    if path == ROOT / HOME:
        return "index.md"
    docs = ROOT / "docs"
    return path.relative_to(docs if path.is_relative_to(docs) else ROOT).as_posix()
