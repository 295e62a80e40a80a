"""Lines on a page: where they go. Templates draw them."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

WIDTH, HEIGHT = 480, 240
"""Of the drawing area, in the units of an SVG that a phone shows at three quarters."""


@dataclass(frozen=True, kw_only=True)
class Line:
    """One curve: the points of an SVG polyline."""

    name: str
    label: str
    points: str
    last: float


@dataclass(frozen=True, kw_only=True)
class Tick:
    at: float
    label: str


@dataclass(frozen=True, kw_only=True)
class Chart:
    """Several curves over the same ground."""

    lines: tuple[Line, ...]
    across: tuple[Tick, ...]
    up: tuple[Tick, ...]
    width: int = WIDTH
    height: int = HEIGHT


Points = tuple[Sequence[float], Sequence[float]]
"""Places, and the values there."""


def chart(curves: Mapping[str, Points], labels: Mapping[str, str]) -> Chart | None:
    """All curves from zero, on one scale; None if there is nothing to draw."""
    places = [place for across, _ in curves.values() for place in across]
    values = [value for _, up in curves.values() for value in up]
    if len(places) < 2 or not max(places) > 0 or not 0 < max(values) < math.inf:
        return None
    far, steps = max(places), nice_steps(max(values))
    high = steps[-1]

    def point(place: float, value: float) -> str:
        return f"{WIDTH * place / far:.1f},{HEIGHT * (1 - value / high):.1f}"

    lines = [
        Line(
            name=name,
            label=labels.get(name, name),
            points=" ".join(point(*pair) for pair in zip(across, up, strict=True)),
            last=up[-1],
        )
        for name, (across, up) in curves.items()
    ]
    return Chart(
        lines=tuple(lines),
        across=tuple(
            Tick(at=WIDTH * step / far, label=f"{step:,.6g}")
            for step in nice_steps(far)
            if step <= far and step == int(step)  # releases and steps are whole
        ),
        up=tuple(Tick(at=HEIGHT * (1 - step / high), label=f"{step:.6g}") for step in steps),
    )


def nice_steps(most: float) -> list[float]:
    """Round numbers from zero to the first that is not below `most`; four to eight of them."""
    size = 10.0 ** math.floor(math.log10(most))
    step = next(part * size for part in (0.2, 0.25, 0.5, 1, 2) if part * size * 6 >= most)
    count = math.ceil(most / step - 1e-9)
    return [round(number * step, 12) for number in range(count + 1)]
