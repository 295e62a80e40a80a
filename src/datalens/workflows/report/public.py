"""`datalens report RUN`: the page that may be published with a run."""

from pathlib import Path
from typing import Any, cast

from datalens.data.documents import reading
from datalens.privacy.accountants import AccountantName
from datalens.privacy.course import course, shares
from datalens.synthesizers.learner import AnyLearner
from datalens.workflows.report.charts import Chart, chart
from datalens.workflows.report.page import render, write
from datalens.workflows.report.published import Published, published
from datalens.workflows.report.words import ACCOUNTANTS, RELEASES, answers


def write_report(run: Path, learner: AnyLearner | None = None, *, out: Path | None = None) -> Path:
    """Render RUN/report.html, or `out`, from the published files alone."""
    found = published(run, learner)
    with reading(run / "certificate.json"):  # what does not fit together is said of it
        page = render("report.html.j2", **contents(found))
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
