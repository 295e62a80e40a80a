"""Curves as an SVG: panels side by side, each with its axes and a line for each name."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

WIDTH, HEIGHT, LEFT, TOP, RIGHT, BELOW = 380, 230, 62, 44, 22, 50
COLOURS = ("#1f5fa8", "#b5482a", "#2f7d4f", "#7a4fa3", "#8a8a8a", "#c29a1b", "#222222")
MARKS = 4


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


def svg(panels: Sequence[Panel]) -> str:
    """A whole file."""
    each = LEFT + WIDTH + RIGHT
    size = (each * len(panels), TOP + HEIGHT + BELOW)
    body = "\n".join(_drawn(panel, i * each + LEFT) for i, panel in enumerate(panels))
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{size[0]}" height="{size[1]}"'
        f' viewBox="0 0 {size[0]} {size[1]}" font-family="sans-serif" font-size="12">\n'
        f'<rect width="{size[0]}" height="{size[1]}" fill="white"/>\n{body}\n</svg>\n'
    )


def _drawn(panel: Panel, left: float) -> str:
    across = [math.log10(x) for x in panel.x] if panel.logarithmic else list(panel.x)
    low, high = min(across), max(across)
    room = 1.1 + 0.1 * len(panel.lines)  # for their names, above them
    top = room * max(max(line) for line in panel.lines.values()) or 1.0

    def at(x: float, y: float) -> tuple[float, float]:
        share = (x - low) / (high - low) if high > low else 0.5
        return left + share * WIDTH, TOP + HEIGHT * (1 - y / top)

    parts = [
        f'<rect x="{left}" y="{TOP}" width="{WIDTH}" height="{HEIGHT}" fill="none" stroke="#444"/>',
        _text(left, TOP - 14, panel.title, weight="bold"),
        _text(left + WIDTH / 2, TOP + HEIGHT + 38, panel.x_label, anchor="middle"),
        f'<g transform="rotate(-90 {left - 46} {TOP + HEIGHT / 2})">'
        + _text(left - 46, TOP + HEIGHT / 2, panel.y_label, anchor="middle")
        + "</g>",
    ]
    for i in range(MARKS + 1):
        x, y = low + (high - low) * i / MARKS, top * i / MARKS
        shown = 10**x if panel.logarithmic else x
        parts.append(_text(at(x, 0)[0], TOP + HEIGHT + 18, f"{shown:.3g}", anchor="middle"))
        parts.append(_text(left - 8, at(low, y)[1] + 4, f"{y:.2g}", anchor="end"))
    for i, (name, line) in enumerate(panel.lines.items()):
        colour = COLOURS[i % len(COLOURS)]
        points = " ".join(
            "{:.1f},{:.1f}".format(*at(*point)) for point in zip(across, line, strict=True)
        )
        parts.append(
            f'<polyline points="{points}" fill="none" stroke="{colour}" stroke-width="2"/>'
        )
        parts.append(_text(left + 10, TOP + 16 + 15 * i, name, colour=colour))
    return "\n".join(parts)


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
