"""`datalens report RUN`: the page that may be published with a run."""

import hashlib
from pathlib import Path
from typing import Any, cast

from datalens.data.documents import reading
from datalens.errors import DataLensError
from datalens.privacy.accountants import AccountantName
from datalens.privacy.course import course, shares
from datalens.synthesizers.learner import AnyLearner
from datalens.workflows.report.charts import Chart, chart
from datalens.workflows.report.page import encoded, render, write
from datalens.workflows.report.published import Published, published
from datalens.workflows.report.words import ACCOUNTANTS, RELEASES, answers


def write_report(run: Path, learner: AnyLearner | None = None, *, out: Path | None = None) -> Path:
    """Render RUN/report.html, or `out`, from the published files alone.

    The ledger vouches for the page that was written when the run ended, which stays what it was.
    """
    found = published(run, learner)
    with reading(run / "certificate.json"):  # what does not fit together is said of it
        page = render("report.html.j2", **contents(found))
    differs = hashlib.sha256(encoded(page)).hexdigest() != found.report_sha256
    if out is None and found.report_sha256 is not None and differs:
        raise DataLensError(
            f"{run / 'report.html'} is the page that the ledger vouches for, and this version of"
            " datalens writes another: name a place for that with --out FILE.html."
        )
    return write(page, out or run / "report.html")


def contents(run: Published) -> dict[str, Any]:
    """What the page of a run shows."""
    certificate = run.certificate
    spent = shares(run.charges, certificate["delta"]) if certificate["epsilon"] else []
    return {
        "run": run,
        "certificate": certificate,
        "answers": answers(run),
        "accountants": ACCOUNTANTS,
        "chart": curve(run),
        "shares": spent,
        "releases": RELEASES,
        "product": "generator" if run.samples else "classifier",
    }


def curve(run: Published) -> Chart | None:
    """Epsilon against releases by each accountant that the certificate names."""
    certificate = run.certificate
    courses = {
        name: course(run.charges, certificate["delta"], cast(AccountantName, name))
        for name in ACCOUNTANTS
        if name in certificate["epsilon"]
    }
    points = {name: (each.releases, each.epsilon) for name, each in courses.items()}
    return chart(points, ACCOUNTANTS)
