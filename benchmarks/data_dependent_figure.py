"""Figure 2 as an SVG: above, epsilon by step; below, how likely the likeliest direction is."""

from collections.abc import Sequence
from html import escape
from typing import Any

WIDTH, HEIGHT = 360, 190
LEFT, TOP, GAP_X, GAP_Y = 70, 60, 90, 95
BLUE, GREY, GREEN = "#1f5fa8", "#8a8a8a", "#2f7d4f"


class Panel:
    """One set of axes, from 0 or below at the bottom to `high` at the top."""

    def __init__(self, x: float, y: float, *, steps: int, low: float, high: float) -> None:
        self.x, self.y, self.steps, self.low, self.high = x, y, steps, low, high
        self.parts: list[str] = []

    def at(self, step: float, value: float) -> tuple[float, float]:
        height = (value - self.low) / (self.high - self.low) * HEIGHT
        return self.x + step / self.steps * WIDTH, self.y + HEIGHT - height

    def axes(self, title: str, label: str, marks: Sequence[float]) -> None:
        self.parts.append(
            f'<rect x="{self.x}" y="{self.y}" width="{WIDTH}" height="{HEIGHT}" fill="none"'
            ' stroke="#444"/>'
        )
        for mark in marks:
            _, y = self.at(0, mark)
            self.text(self.x - 8, y + 4, f"{mark:g}", anchor="end")
            self.parts.append(
                f'<line x1="{self.x}" x2="{self.x + WIDTH}" y1="{y:.1f}" y2="{y:.1f}"'
                ' stroke="#e4e4e4"/>'
            )
        for step in range(0, self.steps + 1, 20):
            x, _ = self.at(step, self.low)
            self.text(x, self.y + HEIGHT + 18, str(step), anchor="middle")
        self.text(self.x + WIDTH / 2, self.y + HEIGHT + 36, "step", anchor="middle")
        self.text(self.x, self.y - 10, title, weight="bold")
        x, y = self.x - 48, self.y + HEIGHT / 2
        self.parts.append(
            f'<text x="{x}" y="{y}" transform="rotate(-90 {x} {y})" text-anchor="middle">'
            f"{escape(label)}</text>"
        )

    def line(self, values: Sequence[float], colour: str, *, dashed: bool = False) -> None:
        points = " ".join(
            "{:.1f},{:.1f}".format(*self.at(step, value)) for step, value in enumerate(values, 1)
        )
        dash = ' stroke-dasharray="6 4"' if dashed else ""
        self.parts.append(
            f'<polyline points="{points}" fill="none" stroke="{colour}" stroke-width="2"{dash}/>'
        )

    def text(
        self,
        x: float,
        y: float,
        words: str,
        *,
        anchor: str = "start",
        colour: str = "#222",
        weight: str = "normal",
    ) -> None:
        self.parts.append(
            f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" fill="{colour}"'
            f' font-weight="{weight}">{escape(words)}</text>'
        )


def figure(cells: Sequence[dict[str, Any]]) -> str:
    """One column a data set."""
    width = LEFT + len(cells) * (WIDTH + GAP_X)
    height = TOP + 2 * (HEIGHT + GAP_Y)
    parts = []
    for column, cell in enumerate(cells):
        x = LEFT + column * (WIDTH + GAP_X)
        parts += epsilon_panel(cell, x, TOP).parts
        parts += peak_panel(cell, x, TOP + HEIGHT + GAP_Y).parts
    body = "\n".join(parts)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}"'
        f' viewBox="0 0 {width} {height}" font-family="sans-serif" font-size="12">\n'
        f'<rect width="{width}" height="{height}" fill="white"/>\n'
        f'<text x="{LEFT}" y="22" font-size="14">Seeded runs, NOT PRIVATE; delta 1e-5,'
        f" Theorem 3's conversion</text>\n{body}\n</svg>\n"
    )


def epsilon_panel(cell: dict[str, Any], x: float, y: float) -> Panel:
    steps = cell["steps"]
    ignored = [step["not_a_bound"] for step in steps]
    top = max(ignored) * 1.35  # room for words
    panel = Panel(x, y, steps=len(steps), low=0.0, high=top)
    panel.axes(f"{cell['title']}: cost", "epsilon", range(1 + round(max(ignored))))
    panel.line(ignored, GREY, dashed=True)
    panel.line([step["independent"] for step in steps], BLUE)
    known = [step["dependent"] for step in steps if step["dependent"] is not None]
    panel.line(known, GREEN)
    if not known:
        words = "data-dependent (Theorems 4 and 5): not applicable at any step"
        panel.text(x + 10, y + 20, words, colour=GREEN)
    panel.text(x + 10, y + 38, "grey: formula at q = 1 - 1/d unchecked, NO BOUND", colour=GREY)
    _, low = panel.at(0, steps[-1]["independent"])
    panel.text(x + WIDTH - 8, low - 8, "data-independent (Theorem 3)", anchor="end", colour=BLUE)
    return panel


def peak_panel(cell: dict[str, Any], x: float, y: float) -> Panel:
    """The range over a step's images is thinner than the line: the mean of its ends is drawn."""
    steps = cell["steps"]
    low = min(step["log10_peak"][0] for step in steps) * 1.2
    panel = Panel(x, y, steps=len(steps), low=low, high=0.0)
    marks = [round(low * share / 100) * 100 for share in (0.25, 0.5, 0.75)]
    panel.axes(f"{cell['title']}: likeliest direction", "log10(1 - q)", [0, *marks])
    panel.line([sum(step["log10_peak"]) / 2 for step in steps], GREEN)
    panel.line([cell["log10_peak_at_most"]] * len(steps), GREY, dashed=True)
    _, level = panel.at(0, cell["log10_peak_at_most"])
    panel.text(x + 10, level - 8, "at most, whatever the teachers", colour=GREY)
    panel.text(x + 10, y + 18, f"Theorem 4 applies above {cell['log10_peak_needed']:.1f}")
    return panel
