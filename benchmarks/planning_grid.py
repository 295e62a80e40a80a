"""A grid of settings that a user would choose between, and how they compare with what was told.

The settings were written down before any of them was measured. They were never moved afterwards,
and neither was the predictor.
"""

import argparse
import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from scipy.stats import spearmanr

from datalens.data import PublicFacts
from datalens.synthesizers import METHODS
from datalens.synthesizers.prediction import predict
from datalens.workflows.bench.utility.cells import Cell, asked
from datalens.workflows.bench.utility.results import Result, read_results
from datalens.workflows.bench.utility.running import run_bench

RESULTS = Path("docs/results")
GRID: list[tuple[str, dict[str, Any]]] = [
    ("datalens", {}),
    ("class-gaussian", {}),
    ("datalens", {"clusters": 1}),
    ("datalens", {"label_share": 0.0}),
    ("datalens", {"vote_share": 0.5, "n_teachers": 500}),
    *(
        ("datalens", {"warm_start": False} | votes)
        for votes in (
            {"n_teachers": 500, "top_k": 12},
            {"n_teachers": 500, "top_k": 196},
            {"n_teachers": 1000},
            {"n_teachers": 1000, "steps": 10},
            {"n_teachers": 1000, "quorum": 0.1},
        )
    ),
]
"""What is bought and how it is shared; then votes alone by k, teachers, sigma (which follows from
the steps) and beta."""
KINDS = {True: "warm start", False: "votes alone"}
FEWEST = 5
"""Cells that a correlation within one kind is worth stating for."""


def grid(given: argparse.Namespace) -> dict[str, Any]:
    cells = different(
        cell
        for method, settings in GRID
        for cell in asked(
            datasets=given.datasets,
            methods=[method],
            epsilons=given.epsilons,
            settings=settings,
            held_out=True,
            data_dir=given.data_dir,
        )
    )
    bench = run_bench(
        cells[: given.most],
        seeds=given.seeds,
        jobs=given.jobs,
        out=given.out / "grid",
        command=f"python benchmarks/planning.py grid --seeds {given.seeds} --images {given.images}",
        images=given.images,
        data_dir=given.data_dir,
    )
    return confronted({result.stem: result for result in bench.results})


def different(cells: Iterable[Cell]) -> list[Cell]:
    """Where records bear no clusters, one cluster is what `auto` takes: that is one cell."""
    found: dict[str, Cell] = {}
    for cell in cells:
        found.setdefault(json.dumps(cell.configuration, sort_keys=True), cell)
    return list(found.values())


def ranks(given: argparse.Namespace) -> dict[str, Any]:
    """What is in docs/results, the grid too."""
    folders = ("planning/grid", "utility", "sweeps", "ablation-50000")
    return {name: confronted(read_results(RESULTS / name)) for name in folders}


def confronted(results: dict[str, Result]) -> dict[str, Any]:
    """By data set, because one is harder than another, which no public fact tells."""
    rows = [row for result in results.values() if (row := _row(result)) is not None]
    names = sorted({row["data"] for row in rows})
    return {
        "rows": rows,
        "spearman": {name: correlation(_of(rows, data=name)) for name in names},
        "within": {name: _within(_of(rows, data=name)) for name in names},
    }


def _row(result: Result) -> dict[str, Any] | None:
    configuration, facts = result.configuration, result.configuration["data"]
    public = PublicFacts(
        name=facts["name"],
        n_records=facts["n_records"],
        shape=tuple(facts["shape"]),
        class_names=tuple(facts["class_names"]),
    )
    settings = configuration["settings"]
    told = predicted(configuration["method"], settings, public)
    if told is None:
        return None
    return {
        "cell": result.stem,
        "data": result.dataset,
        "kind": KINDS[settings.get("warm_start", True)],
        "epsilon": result.epsilon_asked,
        "told": told,
        "seen": result.accuracy,
    }


def _within(rows: list[dict[str, Any]]) -> dict[str, Any]:
    """One kind at a time, and one budget at a time: what a user chooses between."""
    parts = {kind: _of(rows, kind=kind) for kind in KINDS.values()}
    budgets = sorted({row["epsilon"] for row in rows})
    parts |= {f"epsilon {epsilon:g}": _of(rows, epsilon=epsilon) for epsilon in budgets}
    return {name: correlation(part) for name, part in parts.items() if len(part) >= FEWEST}


def _of(rows: list[dict[str, Any]], **wanted: Any) -> list[dict[str, Any]]:
    return [row for row in rows if all(row[name] == value for name, value in wanted.items())]


def predicted(method: str, settings: dict[str, Any], public: PublicFacts) -> float | None:
    """What the planner says today. After a warm start the noise of votes follows from their steps:
    what the start leaves of the budget differs in its last digits from what it left then."""
    if settings.get("warm_start", True) and settings.get("steps") is not None:
        settings = {name: value for name, value in settings.items() if name != "sigma"}
    expected = predict(METHODS[method](**settings).resolve(public))
    return expected and expected.accuracy


def correlation(rows: list[dict[str, Any]]) -> dict[str, float | int]:
    told, seen = ([row[name] for row in rows] for name in ("told", "seen"))
    return {"spearman": float(spearmanr(told, seen).statistic), "cells": len(rows)}
