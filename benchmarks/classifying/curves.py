"""What Figure 3 shows: a line for each share that is kept, by epsilon, ours and the paper's."""

import math
from collections.abc import Callable, Mapping
from functools import partial

from classifying.cells import BACKBONES, Cell, Network, cifar, mnist
from classifying.figure import Line, Panel
from classifying.printed import TABLE_8A, TABLE_8B, Rows
from classifying.results import Result
from classifying.table11 import KEEPS

Results = Mapping[Cell, Result]


def panels(results: Results) -> list[Panel]:
    """Figure 3: (a) MNIST, (b) CIFAR-10 at small and (c) at large epsilons."""
    backbone = next((n for n in BACKBONES[:2] if _any_cifar(results, n)), BACKBONES[0])
    cell, ours = partial(cifar, backbone), f"ours on {backbone}"
    return [
        _panel("(a) MNIST", results, mnist, TABLE_8A),
        _panel(f"(b) CIFAR-10, {ours}", results, cell, _part(TABLE_8B, 0, 0.2)),
        _panel(f"(c) CIFAR-10, {ours}", results, cell, _part(TABLE_8B, 0.2, math.inf)),
    ]


def _panel(
    title: str, results: Results, cell: Callable[[float, float | None], Cell], printed: Rows
) -> Panel:
    lines = []
    for keep in KEEPS:
        ours = {
            epsilon: (100 * found.accuracy, None if found.spread is None else 100 * found.spread)
            for epsilon in printed
            if epsilon is not None and (found := results.get(cell(keep, epsilon)))
        }
        theirs = {e: (row[keep].mean, row[keep].spread) for e, row in printed.items() if e}
        lines += [Line(keep, False, ours), Line(keep, True, theirs)]
    return Panel(title, lines)


def _part(rows: Rows, low: float, high: float) -> Rows:
    return {e: row for e, row in rows.items() if e is not None and low <= e <= high}


def _any_cifar(results: Results, network: Network) -> bool:
    return any(cell.dataset == "cifar10" and cell.network == network for cell in results)
