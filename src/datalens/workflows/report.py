"""A one-page report of what may be published. Self-contained: no network, no scripts."""

import base64
import json
from importlib.resources import files
from pathlib import Path

import jinja2

TEMPLATE = "report.html.j2"
STAGES = ("votes", "steps")
"""What the curve of a budget goes over."""


def write_report(run: Path) -> Path:
    """Render RUN/report.html from the published files alone."""
    certificate = json.loads((run / "certificate.json").read_text())
    samples = run / "samples.png"
    picture = base64.b64encode(samples.read_bytes()).decode() if samples.is_file() else ""
    log = [json.loads(line) for line in (run / "log.jsonl").read_text().splitlines()]
    text = files("datalens.workflows").joinpath("templates", TEMPLATE).read_text()
    environment = jinja2.Environment(autoescape=True, undefined=jinja2.StrictUndefined)
    page = environment.from_string(text).render(
        certificate=certificate,
        certificate_json=json.dumps(certificate, indent=1),
        config=(run / "config.toml").read_text(),
        picture=picture,
        curve=_curve([entry["epsilon"] for entry in log if entry["stage"] in STAGES]),
    )
    target = run / "report.html"
    target.write_text(page)
    return target


def _curve(spent: list[float]) -> str:
    """Epsilon by step as the points of an SVG polyline in a 600 x 160 box."""
    if len(spent) < 2:
        return ""
    top = max(spent) or 1.0
    return " ".join(
        f"{index * 600 / (len(spent) - 1):.1f},{160 - 150 * value / top:.1f}"
        for index, value in enumerate(spent)
    )
