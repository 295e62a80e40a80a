"""What a report may show: the published half of a run, read back, and nothing else."""

import base64
import io
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from datalens.data.documents import reading
from datalens.privacy.accountants import Charge
from datalens.synthesizers.learner import AnyLearner
from datalens.synthesizers.protocol import Synthesizer
from datalens.workflows.pictures import tiles
from datalens.workflows.runs import load_any

COLUMNS, ROWS = 6, 2
"""Images of a class side by side, as many as fit a phone, and one below the other."""
MOST_CLASSES = 20
"""Classes shown: with more, the page would be all pictures."""


@dataclass(frozen=True, kw_only=True)
class ClassSamples:
    """Synthetic images of one class, as a picture that a page can hold."""

    name: str
    picture: str
    """A data: address of a PNG file with `count` images."""
    width: int
    height: int
    """Of the picture, in pixels."""
    count: int = COLUMNS * ROWS


@dataclass(frozen=True, kw_only=True)
class Published:
    """A finished run as anyone may see it.

    Guarantee: made from config.toml, certificate.json, ledger.json and the product alone, all of
    which are published; samples are drawn from the generator with a fixed seed.
    """

    name: str
    """Of its folder."""
    certificate: dict[str, Any]
    """But for its place in the ledger's chain, which follows from this page among others."""
    charges: tuple[Charge, ...]
    """In the order in which they were spent."""
    entries_before: int
    """Entries that the ledger had when this run began."""
    report_sha256: str | None
    """Of the page that the ledger vouches for, once the run has ended."""
    config: str
    samples: tuple[ClassSamples, ...]

    @property
    def certificate_json(self) -> str:
        return json.dumps(self.certificate, indent=1)

    @property
    def sizing(self) -> float | None:
        """Epsilon by the accountant that sized the run; None if nothing was protected."""
        found = self.certificate["epsilon"].get(self.certificate["budget"]["accountant"])
        return None if found is None else float(found)


def published(run: Path, learner: AnyLearner | None = None) -> Published:
    """Read a run folder; what made it is loaded again, unless it is at hand."""
    learner = learner or load_any(run)
    with reading(run / "certificate.json"):
        certificate = {k: v for k, v in learner.certificate.items() if k != "ledger"}
    with reading(run / "ledger.json"):
        own = [row for row in learner.extract if "body" in row]
        bodies = [row["body"] for row in own]
        spent = [Charge.from_json(body["charge"]) for body in bodies if body["kind"] == "spend"]
        before = own[0]["row"] - 1
        report = bodies[-1].get("files", {}).get("report.html")
    with reading(run / "config.toml") as file:
        config = file.read_text(encoding="utf-8")
    return Published(
        name=run.name or run.resolve().name,
        certificate=certificate,
        charges=tuple(spent),
        entries_before=before,
        report_sha256=report,
        config=config,
        samples=_samples(learner) if isinstance(learner, Synthesizer) else (),
    )


def _samples(synthesizer: Synthesizer) -> tuple[ClassSamples, ...]:
    names = synthesizer.class_names[:MOST_CLASSES]
    each = COLUMNS * ROWS
    labels = np.repeat(np.arange(len(names)), each)
    images = synthesizer.sample(len(labels), labels, seed=0).images
    sheets = [tiles(own, COLUMNS) for own in np.split(images, len(names))]
    return tuple(
        ClassSamples(name=name, picture=_address(sheet), width=sheet.width, height=sheet.height)
        for name, sheet in zip(names, sheets, strict=True)
    )


def _address(picture: Image.Image) -> str:
    content = io.BytesIO()
    picture.save(content, format="PNG", optimize=True)
    return f"data:image/png;base64,{base64.b64encode(content.getvalue()).decode()}"
