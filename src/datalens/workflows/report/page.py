"""Templates to pages: one file each that loads nothing from anywhere."""

import base64
import hashlib
import math
import shlex
from collections.abc import Callable
from importlib.resources import files
from pathlib import Path
from typing import Any

import jinja2

from datalens.errors import DataLensError
from datalens.files import replace_file
from datalens.privacy.rounding import down_to_places, rounded_down, rounded_up, up_to_places

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


def check_target(target: Path) -> None:
    """A page takes the place of a page, never of a certificate or a generator."""
    if target.suffix.lower() not in (".html", ".htm"):
        raise DataLensError(f"{target} is no name for a page; name FILE.html.")


def encoded(page: str) -> bytes:
    """As it is written; what is no text, such as half a letter from a JSON file, is marked."""
    return page.encode(errors="replace")


def write(page: str, target: Path) -> Path:
    """The page in a file, whole, or one sentence. Of folders only the last is made: deeper ones
    that are missing are taken for a typing error."""
    if not target.parent.parent.is_dir():
        raise DataLensError(f"{target} cannot be written: {target.parent.parent} is no folder.")
    try:
        target.parent.mkdir(exist_ok=True)
        replace_file(target, encoded(page))
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


def bound(number: float) -> str:
    """The same for what is stated as the most: rounded up."""
    if abs(number) >= 1000:
        return f"{int(up_to_places(number, 0)):,}" if math.isfinite(number) else "inf"
    return rounded_up(number)


def at_least(number: float) -> str:
    """The same for noise: rounded down."""
    return f"{int(number):,}" if abs(number) >= 1000 else rounded_down(number)


def decimal(number: float) -> str:
    """A delta written out, as far as that can be read: rounded up, as any bound."""
    written = 1e-7 <= number < 1
    return up_to_places(number, 9).rstrip("0") if written else rounded_up(number, 6)


def odds(number: float) -> str:
    """A small probability: one in so many, and not in more."""
    if number < 1e-12:
        return rounded_up(number, 6)
    return f"1 in {int(down_to_places(1 / number, 0)):,}"


def _allowed(text: str) -> str:
    return f"sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}"


_FILTERS: dict[str, Callable[..., str]] = {
    "per_cent": per_cent,
    "figure": figure,
    "bound": bound,
    "at_least": at_least,
    "decimal": decimal,
    "odds": odds,
    "shell": shlex.quote,
    "count": lambda number: f"{number:,}",
}
