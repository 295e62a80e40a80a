"""What must be said beside the tables: where the paper's figures are from, and what differs."""

from collections.abc import Iterable, Iterator
from typing import Any

from datalens.workflows.bench.utility.cells import plain, variants
from datalens.workflows.bench.utility.printed import (
    NOT_PRINTED,
    NOT_PRIVATE,
    RECORDS,
    stands_for,
    table_of,
)
from datalens.workflows.bench.utility.results import Result
from datalens.workflows.presets import load_preset, teachers_within


def compared(cell: Result) -> str:
    """The data set whose printed figures stand beside a cell's."""
    return stands_for(cell.dataset, cell.configuration["data"]["class_names"])


def notes(cells: Iterable[Result]) -> str:
    """One line each."""
    cells = list(cells)
    every = (_printed, _stand_ins, _records, _noise, _seeded)
    return "\n".join(dict.fromkeys(said for part in every for said in part(cells)))


def _printed(cells: list[Result]) -> Iterator[str]:
    known = sorted({compared(cell) for cell in cells} & NOT_PRIVATE.keys())
    if known:
        bare = ", ".join(f"{100 * NOT_PRIVATE[name]:.1f} % on {name}" for name in known)
        yield (
            f"The paper's figures are from its Table {table_of(1)} (epsilon 1 and 10) and Table"
            f" {table_of(0.2)} (below 1). Its DC-GAN without privacy: {bare}.\n"
        )


def _stand_ins(cells: list[Result]) -> Iterator[str]:
    for cell in cells:
        if compared(cell) != cell.dataset:
            yield (
                f"{cell.dataset} stands in for {compared(cell)}, which it is not: it has the same"
                " classes and other pictures, and the paper's figures beside it are of"
                f" {compared(cell)}.\n"
            )


def _records(cells: list[Result]) -> Iterator[str]:
    """A sixth that is held out is not what is meant."""
    for cell in cells:
        here: int = cell.configuration["data"]["n_records"]
        there = RECORDS.get(compared(cell), 0)
        if here < there and not cell.held_out:
            about = "about " if compared(cell) in NOT_PRINTED else ""
            yield (
                f"{cell.dataset} has {here:,} training records here; the paper had"
                f" {about}{there:,}, {there / here:.0f} times as many.\n"
            )


def _noise(cells: list[Result]) -> Iterator[str]:
    """Where a preset of the paper keeps its shards, and its noise, with fewer teachers."""
    for cell in cells:
        preset, settings = paper_preset(cell), cell.configuration["settings"]
        if not preset or settings["sigma"] != preset["sigma"]:
            continue
        few, many, sigma = settings["n_teachers"], preset["n_teachers"], preset["sigma"]
        if few < many and few == teachers_within(preset, cell.configuration["data"]["n_records"]):
            yield (
                f"{cell.dataset}, {cell.method}, epsilon {plain(cell.epsilon_asked)}: {few:,}"
                f" teachers instead of {many:,}, so that each has as many records as in the paper;"
                f" sigma {sigma:g} as printed, so sigma / N is {sigma / few:.2g} where the paper"
                f" has {sigma / many:.2g}.\n"
            )


def _seeded(cells: list[Result]) -> Iterator[str]:
    many = sum(cell.seeded for cell in cells)
    if many:
        which = "All cells are" if many == len(cells) else f"{many} of the {len(cells)} cells are"
        yield (
            f"{which} of experiments with noise from a seed (`--seeded`), of the same size as the"
            " operating system's: they can be repeated, and are NOT PRIVATE. Their files say so"
            " of each repetition.\n"
        )


def paper_preset(cell: Result) -> dict[str, Any]:
    """The preset that a cell has from the paper; empty where it has none."""
    variant = variants().get(cell.method)
    if variant is None or variant.preset != "paper" or cell.epsilon_asked is None:
        return {}
    return load_preset("paper", data_name=compared(cell), epsilon=cell.epsilon_asked)
