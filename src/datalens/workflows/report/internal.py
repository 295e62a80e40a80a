"""`datalens report RUN --internal`: what only those may see who may see the records."""

import json
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean
from typing import Any

from datalens.data.documents import read_json, read_whole, reading
from datalens.errors import DataLensError
from datalens.workflows.bench.utility.printed import printed
from datalens.workflows.report.charts import Chart, chart
from datalens.workflows.report.page import render, write
from datalens.workflows.report.published import published
from datalens.workflows.writing import AUDIT, EVALUATION

TIMINGS = "timings.json"
DIAGNOSIS = "data_dependent.jsonl"
LONGEST_DIAGNOSIS = 256 * 2**20
"""Bytes: a line of some kilobytes for each step."""
DEPENDENT = {"independent": "spent, whatever the records", "dependent": "as these records make it"}
PRDC = {
    "precision": "synthetic images that look like real ones",
    "recall": "real images that look like synthetic ones",
    "density": "how many real ones surround a synthetic one, 1 being usual",
    "coverage": "real images with a synthetic one nearby",
}


def write_internal(run: Path, *, out: Path | None = None) -> Path:
    """Render RUN/internal/report.html, or `out`, from what run and evaluation left inside.

    Guarantee: none, on purpose. It is written to RUN/internal, which is never exported, or to
    where its owner says, but never among files that may be published.
    """
    if out is not None:
        check_place(out)
    inside = run / "internal"
    if not inside.is_dir():
        raise DataLensError(
            f"{run} has no folder internal: the private half of this run is somewhere else."
        )
    found = contents(run)
    with reading(inside / EVALUATION):
        page = render("internal.html.j2", **found)
    return write(page, out or inside / "report.html")


def check_place(out: Path) -> None:
    """Refuse to put an internal page beside files that may be published."""
    # Where a link leads, and where it lies: writing puts a page in the place of a link.
    if any((each / "certificate.json").exists() for each in (out.resolve().parent, out.parent)):
        raise DataLensError(
            f"{out.parent} is a run, whose files may be published; an internal page must lie"
            " elsewhere: name another --out."
        )


def measured(run: Path) -> bool:
    """Whether anything was computed on real records, so that an internal page has figures."""
    inside = run / "internal"
    return any((inside / name).exists() for name in (EVALUATION, AUDIT, DIAGNOSIS))


def contents(run: Path) -> dict[str, Any]:
    """All that is there; a page shows what it has."""
    inside = run / "internal"
    evaluation = _told(inside / EVALUATION)
    with reading(inside / EVALUATION):
        nearest = _columns(evaluation.get("nearest") or {})
    attacks = evaluation.get("membership") or _told(inside / AUDIT).get("attacks", [])
    diagnosis = read_diagnosis(inside / DIAGNOSIS)
    return {
        "run": published(run),
        "evaluation": evaluation,
        "in_the_paper": bool(printed(str(evaluation.get("on")))),
        "attacks": attacks,
        "seconds": _told(inside / TIMINGS).get("seconds"),
        "prdc": PRDC,
        "nearest": nearest,
        "diagnosis": diagnosis,
        "dependent": diagnosis and diagnosis.dependent,
        "agreement": diagnosis and diagnosis.agreement,
    }


@dataclass(frozen=True, kw_only=True)
class DiagnosisSoFar:
    """What the data-dependent diagnosis says of a run. Private."""

    steps: int
    independent: float
    dependent_epsilon: float | None
    not_applicable: str
    last_agreement: float | None
    dependent: Chart | None
    agreement: Chart | None


def read_diagnosis(file: Path) -> DiagnosisSoFar | None:
    """Its lines, one a step; those that are none of ours are left out."""
    if not file.exists():
        return None
    lines = []
    for text in read_whole(file, at_most=LONGEST_DIAGNOSIS).splitlines():
        with suppress(ValueError, RecursionError):
            lines.append(json.loads(text))
    with reading(file):
        steps = [line["step"] + 1 for line in lines]
        if not steps:
            return None
        bounds = {
            name: [(step, line["epsilon"][name]) for step, line in zip(steps, lines, strict=True)]
            for name in ("independent", "dependent")
        }
        known = {name: _apart(pairs) for name, pairs in bounds.items()}
        agreed = _apart([(s, _mean(line)) for s, line in zip(steps, lines, strict=True)])
        return DiagnosisSoFar(
            steps=len(steps),
            independent=float(lines[-1]["epsilon"]["independent"]),
            dependent_epsilon=lines[-1]["epsilon"]["dependent"],
            not_applicable=str(lines[-1].get("not_applicable", "")),
            last_agreement=agreed[1][-1] if agreed[1] else None,
            dependent=chart({n: k for n, k in known.items() if k[0]}, DEPENDENT),
            agreement=chart(
                {"agreement": agreed}, {"agreement": "of the teachers, at the last step"}
            ),
        )


def _mean(line: dict[str, Any]) -> float | None:
    """Over the images of a step."""
    return fmean(line["agreement"]) if line.get("agreement") else None


def _apart(pairs: list[tuple[int, float | None]]) -> tuple[list[int], list[float]]:
    known = [(step, float(value)) for step, value in pairs if value is not None]
    return [step for step, _ in known], [value for _, value in known]


def _columns(nearest: dict[str, Any]) -> dict[str, dict[str, float]]:
    """Distances by percentile: of synthetic images, and of records that were held out."""
    return {name: group for name, group in nearest.items() if isinstance(group, dict)}


def _told(file: Path) -> dict[str, Any]:
    return read_json(file) if file.exists() else {}
