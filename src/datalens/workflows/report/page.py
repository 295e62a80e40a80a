"""Templates to pages: one file each that loads nothing from anywhere."""

import base64
import hashlib
from collections.abc import Callable
from importlib.resources import files
from pathlib import Path
from typing import Any

import jinja2

from datalens.errors import DataLensError

STYLE, FILTER = "style.css", "filter.js"
POLICY = (
    "default-src 'none'; img-src data:; base-uri 'none'; form-action 'none';"
    " style-src '{style}'; script-src '{script}'"
)
"""What a browser lets a page do: show itself. Names in a run folder can start no script."""


def resource(name: str) -> str:
    """A file of our templates."""
    return files("datalens.workflows").joinpath("templates", name).read_text(encoding="utf-8")


def render(template: str, *, script: str = FILTER, policy: str = POLICY, **values: Any) -> str:
    """A whole page, in which every value is escaped."""
    style, code = resource(STYLE), resource(script)
    allowed = policy.format(style=_allowed(style), script=_allowed(code))
    environment = jinja2.Environment(
        loader=jinja2.FunctionLoader(resource),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= _FILTERS
    page = environment.get_template(template)
    return page.render(style=style, script=code, policy=allowed, **values)


def write(page: str, target: Path) -> Path:
    """The page in a file, or one sentence."""
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(page, encoding="utf-8")
    except OSError as error:
        raise DataLensError(f"{target} cannot be written ({error.strerror}).") from None
    return target


def per_cent(share: float) -> str:
    return f"{100 * share:.1f} %"


def figure(number: float) -> str:
    """A number in three digits or as many as it has before the point, as people write it."""
    if abs(number) >= 1000:
        return f"{number:,.0f}"
    return f"{number:.3g}"


def decimal(number: float) -> str:
    """A small number written out, as far as that can be read."""
    return f"{number:.9f}".rstrip("0") if 1e-7 <= number < 1 else f"{number:g}"


def odds(number: float) -> str:
    """A small probability: one in so many."""
    return f"1 in {1 / number:,.0f}" if number >= 1e-12 else f"{number:g}"


def _allowed(text: str) -> str:
    return f"sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}"


_FILTERS: dict[str, Callable[..., str]] = {
    "per_cent": per_cent,
    "figure": figure,
    "decimal": decimal,
    "odds": odds,
    "count": lambda number: f"{number:,}",
}
