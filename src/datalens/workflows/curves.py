"""Curves as an SVG: panels side by side, each with its axes and a line for each name."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

WIDTH, HEIGHT, LEFT, TOP, RIGHT, BELOW = 380, 230, 62, 44, 22, 50
COLOURS = ("#1f5fa8", "#b5482a", "#2f7d4f", "#7a4fa3", "#8a8a8a", "#c29a1b", "#222222")
MARKS = 4
ONE_COLUMN = 4
"""Names of so many lines stand below each other."""


@dataclass(frozen=True, kw_only=True)
class Panel:
    """One set of axes. `lines` go over `x`, each as long as it is."""

    title: str
    x_label: str
    y_label: str
    x: Sequence[float]
    lines: dict[str, Sequence[float]]
    logarithmic: bool = False
    """The x axis."""
    steep: bool = False
    """The y axis is logarithmic, too; what is not above 0 is left out."""


def svg(panels: Sequence[Panel], *, columns: int | None = None) -> str:
    """A whole file; all panels in a row, or so many."""
    columns = columns or len(panels)
    across, down = LEFT + WIDTH + RIGHT, TOP + HEIGHT + BELOW
    size = (across * columns, down * math.ceil(len(panels) / columns))
    body = "\n".join(
        f'<g transform="translate({i % columns * across + LEFT} {i // columns * down})">\n'
        f"{_drawn(panel)}\n</g>"
        for i, panel in enumerate(panels)
    )
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{size[0]}" height="{size[1]}"'
        f' viewBox="0 0 {size[0]} {size[1]}" font-family="sans-serif" font-size="12">\n'
        f'<rect width="{size[0]}" height="{size[1]}" fill="white"/>\n{body}\n</svg>\n'
    )


def _drawn(panel: Panel) -> str:
    """From its left end, at 0."""
    low, high = _scaled(min(panel.x), panel.logarithmic), _scaled(max(panel.x), panel.logarithmic)
    bottom, top = _heights(panel)

    def at(x: float, y: float) -> tuple[float, float]:
        share = (_scaled(x, panel.logarithmic) - low) / (high - low) if high > low else 0.5
        return share * WIDTH, TOP + HEIGHT * (top - _scaled(y, panel.steep)) / (top - bottom)

    parts = [
        f'<rect x="0" y="{TOP}" width="{WIDTH}" height="{HEIGHT}" fill="none" stroke="#444"/>',
        _text(0, TOP - 14, panel.title, weight="bold"),
        _text(WIDTH / 2, TOP + HEIGHT + 38, panel.x_label, anchor="middle"),
        f'<g transform="rotate(-90 -46 {TOP + HEIGHT / 2})">'
        + _text(-46, TOP + HEIGHT / 2, panel.y_label, anchor="middle")
        + "</g>",
    ]
    for i in range(MARKS + 1):
        x = _shown(low + (high - low) * i / MARKS, panel.logarithmic)
        parts.append(_text(at(x, 1)[0], TOP + HEIGHT + 18, f"{x:.3g}", anchor="middle"))
    for y in _marks(bottom, top, panel.steep):
        parts.append(_text(-8, at(max(panel.x), y)[1] + 4, f"{y:.3g}", anchor="end"))
    for i, (name, line) in enumerate(panel.lines.items()):
        colour = COLOURS[i % len(COLOURS)]
        points = " ".join(
            "{:.1f},{:.1f}".format(*at(x, y))
            for x, y in zip(panel.x, line, strict=True)
            if y > 0 or not panel.steep
        )
        parts.append(
            f'<polyline points="{points}" fill="none" stroke="{colour}" stroke-width="2"/>'
        )
        column, row = divmod(i, _rows(panel))
        parts.append(_text(10 + column * WIDTH / 2, TOP + 16 + 15 * row, name, colour=colour))
    return "\n".join(parts)


def _heights(panel: Panel) -> tuple[float, float]:
    """The ends of the y axis, on its scale, with room above the lines for their names."""
    values = [y for line in panel.lines.values() for y in line if y > 0 or not panel.steep]
    room = 1.1 + 0.1 * _rows(panel)
    highest = _scaled(max(values), panel.steep)
    if not panel.steep:
        return 0.0, room * highest or 1.0
    bottom = math.floor(_scaled(min(values), True))
    return bottom, bottom + room * max(highest - bottom, 1.0)


def _marks(bottom: float, top: float, steep: bool) -> list[float]:
    """Numbers on the y axis: of a logarithmic one whole powers of ten."""
    if not steep:
        return [bottom + (top - bottom) * i / MARKS for i in range(MARKS + 1)]
    step = math.ceil((top - bottom) / MARKS)
    return [10.0**power for power in range(math.floor(bottom), math.floor(top) + 1, step)]


def _rows(panel: Panel) -> int:
    """Of names: many stand in two columns."""
    lines = len(panel.lines)
    return lines if lines <= ONE_COLUMN else math.ceil(lines / 2)


def _scaled(value: float, logarithmic: bool) -> float:
    return math.log10(value) if logarithmic else value


def _shown(place: float, logarithmic: bool) -> float:
    return 10**place if logarithmic else place


def _text(
    x: float,
    y: float,
    words: str,
    *,
    anchor: str = "start",
    colour: str = "#222",
    weight: str = "normal",
) -> str:
    return (
        f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" fill="{colour}"'
        f' font-weight="{weight}">{escape(words)}</text>'
    )
