"""What Figure 3 shows: a line for each share that is kept, by epsilon, ours and the paper's."""

import math
from collections.abc import Callable, Mapping
from functools import partial

from classifying.cells import BACKBONES, OF_MOMENTS, Cell, Network, cifar, dpdl, mnist
from classifying.figure import Line, Panel
from classifying.printed import TABLE_8A, TABLE_8B, Rows
from classifying.results import Result
from classifying.table11 import KEEPS

Results = Mapping[Cell, Result]
COLOURS = {0.6: "#c77d2e", 0.7: "#2f7d4f", 0.8: "#1f5fa8", 1.0: "#8a3a8a"}
"""By keep."""


def panels(results: Results) -> list[Panel]:
    """Figure 3: (a) MNIST, (b) CIFAR-10 at small and (c) at large epsilons."""
    backbone = next((n for n in BACKBONES[:2] if _any_cifar(results, n)), BACKBONES[0])
    cell, ours = partial(cifar, backbone), f"ours on {backbone}"
    return [
        Panel("(a) MNIST", [*_lines(results, mnist, TABLE_8A), *_by_moments(results)]),
        Panel(f"(b) CIFAR-10, {ours}", _lines(results, cell, _part(TABLE_8B, 0, 0.2))),
        Panel(f"(c) CIFAR-10, {ours}", _lines(results, cell, _part(TABLE_8B, 0.2, math.inf))),
    ]


def _lines(
    results: Results, cell: Callable[[float, float | None], Cell], printed: Rows
) -> list[Line]:
    lines = []
    for keep in KEEPS:
        name = f"keep {keep:g}" if keep < 1 else "keep 1 (DP-SGD)"
        epsilons = [epsilon for epsilon in printed if epsilon is not None]
        ours = _points(results, {epsilon: cell(keep, epsilon) for epsilon in epsilons})
        theirs = {e: (printed[e][keep].mean, printed[e][keep].spread) for e in epsilons}
        lines += [Line(name, COLOURS[keep], False, ours), Line(name, COLOURS[keep], True, theirs)]
    return lines


def _by_moments(results: Results) -> list[Line]:
    """The paper draws such a line too, and prints no figures of it."""
    points = _points(results, {epsilon: dpdl(epsilon) for epsilon in OF_MOMENTS})
    return [Line("keep 1 by moments (DPDL)", "#777777", False, points)]


def _points(
    results: Results, cells: Mapping[float, Cell]
) -> dict[float, tuple[float, float | None]]:
    return {
        epsilon: (100 * found.accuracy, None if found.spread is None else 100 * found.spread)
        for epsilon, cell in cells.items()
        if (found := results.get(cell))
    }


def _part(rows: Rows, low: float, high: float) -> Rows:
    return {e: row for e, row in rows.items() if e is not None and low <= e <= high}


def _any_cifar(results: Results, network: Network) -> bool:
    return any(cell.dataset == "cifar10" and cell.network == network for cell in results)
