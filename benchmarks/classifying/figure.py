"""Figure 3 as an SVG: accuracy by epsilon, a line for each share that is kept, ours and theirs."""

import math
from collections.abc import Callable, Mapping, Sequence
from html import escape
from typing import NamedTuple

WIDTH, HEIGHT = 380, 260
LEFT, TOP, GAP = 70, 50, 90
BELOW = 60


class Line(NamedTuple):
    """Points of one line, by epsilon: accuracy in per cent and its spread, if known."""

    name: str
    colour: str
    dashed: bool
    points: Mapping[float, tuple[float, float | None]]


class Panel(NamedTuple):
    title: str
    lines: Sequence[Line]


def figure(panels: Sequence[Panel]) -> str:
    """Side by side; the epsilon axis is logarithmic."""
    drawn = [panel for panel in panels if any(line.points for line in panel.lines)]
    width = LEFT + len(drawn) * (WIDTH + GAP)
    height = TOP + HEIGHT + BELOW + 20
    parts = [
        part
        for number, panel in enumerate(drawn)
        for part in _panel(panel, LEFT + number * (WIDTH + GAP), TOP)
    ]
    body = "\n".join(parts)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}"'
        f' viewBox="0 0 {width} {height}" font-family="sans-serif" font-size="12">\n'
        f'<rect width="{width}" height="{height}" fill="white"/>\n{body}\n</svg>\n'
    )


def _panel(panel: Panel, x: float, y: float) -> list[str]:
    points = [each for line in panel.lines for each in line.points.items()]
    epsilons = sorted({epsilon for epsilon, _ in points})
    low = math.floor(min(mean - (spread or 0) for _, (mean, spread) in points) / 5) * 5
    high = min(100, math.ceil(max(mean for _, (mean, _) in points) / 5) * 5)
    first, last = math.log(epsilons[0]), math.log(max(epsilons[-1], epsilons[0] * 1.01))

    def at(epsilon: float, value: float) -> tuple[float, float]:
        along = (math.log(epsilon) - first) / (last - first)
        return x + 12 + along * (WIDTH - 24), y + HEIGHT * (1 - (value - low) / (high - low))

    parts = [
        f'<rect x="{x}" y="{y}" width="{WIDTH}" height="{HEIGHT}" fill="none" stroke="#444"/>',
        _text(x, y - 10, panel.title, weight="bold"),
        _text(x + WIDTH / 2, y + HEIGHT + 36, "epsilon (delta 1e-5)", anchor="middle"),
    ]
    for mark in range(low, high + 1, 5):
        _, level = at(epsilons[0], mark)
        parts.append(
            f'<line x1="{x}" x2="{x + WIDTH}" y1="{level:.1f}" y2="{level:.1f}" stroke="#e4e4e4"/>'
        )
        parts.append(_text(x - 8, level + 4, f"{mark} %", anchor="end"))
    for epsilon in epsilons:
        across, _ = at(epsilon, low)
        parts.append(_text(across, y + HEIGHT + 18, f"{epsilon:g}", anchor="middle"))
    for line in panel.lines:
        parts += _line(line, at)
    names = {line.name: line.colour for line in panel.lines if line.points}
    for number, (name, colour) in enumerate(names.items()):
        at_y = y + HEIGHT - 14 - 16 * (len(names) - 1 - number)
        parts.append(_text(x + WIDTH - 10, at_y, name, anchor="end", colour=colour))
    parts.append(_text(x, y + HEIGHT + 54, "solid: ours, bars one deviation; dashed: the paper"))
    return parts


def _line(line: Line, at: Callable[[float, float], tuple[float, float]]) -> list[str]:
    ordered = sorted(line.points.items())
    colour = line.colour
    dash = ' stroke-dasharray="6 4"' if line.dashed else ""
    points = " ".join("{:.1f},{:.1f}".format(*at(epsilon, mean)) for epsilon, (mean, _) in ordered)
    parts = [f'<polyline points="{points}" fill="none" stroke="{colour}" stroke-width="2"{dash}/>']
    if line.dashed:
        return parts
    for epsilon, (mean, spread) in ordered:
        x, y = at(epsilon, mean)
        parts.append(f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3" fill="{colour}"/>')
        if spread is not None:
            low, high = at(epsilon, mean - spread)[1], at(epsilon, mean + spread)[1]
            parts.append(
                f'<line x1="{x:.1f}" x2="{x:.1f}" y1="{low:.1f}" y2="{high:.1f}"'
                f' stroke="{colour}"/>'
            )
    return parts


def _text(
    x: float, y: float, words: str, *, anchor: str = "start", colour: str = "#222", weight: str = ""
) -> str:
    bold = f' font-weight="{weight}"' if weight else ""
    return (
        f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" fill="{colour}"{bold}>'
        f"{escape(words)}</text>"
    )
