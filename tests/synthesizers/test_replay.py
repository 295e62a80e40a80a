"""After a crash teachers are rebuilt from the stored releases: the same, bit for bit."""

import shutil
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
import torch

from datalens.synthesizers import METHODS
from datalens.synthesizers.session import Session, Stopped

from ..contracts.test_synthesizers import SMALL, StopAfter, records
from ..ensemble.threads import disturbed, threads

COMPACT = {"block_size": 1}
REFERENCE = {"block_size": 1, "discriminator": "reference"}
BFLOAT16 = {"precision": "bfloat16"}


@pytest.mark.parametrize("count", [1, 2, 4])
@pytest.mark.parametrize(
    "method, settings",
    [
        ("datalens", COMPACT),
        ("datalens", {**COMPACT, **BFLOAT16}),
        ("datalens", REFERENCE),
        ("datalens", {**REFERENCE, **BFLOAT16}),
        ("gpate", {}),
    ],
    ids=["compact", "compact bfloat16", "reference", "reference bfloat16", "critics"],
)
def test_teachers_are_rebuilt(
    method: str,
    settings: dict[str, Any],
    count: int,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Nothing is seeded: releases of the first run are all that the second can go by."""
    home, hired = import_module(f"datalens.synthesizers.{method}"), []
    true_hire = home.hire

    def hire(*given: Any) -> Any:
        hired.append(true_hire(*given))
        return hired[-1]

    monkeypatch.setattr(home, "hire", hire)

    def run(session: Session) -> Path:
        with pytest.raises(Stopped):
            METHODS[method](**SMALL[method], **settings).fit(records(), session=session)
        return session.checkpoint

    folder = tmp_path / "run" / "internal"
    with threads(count), disturbed():
        shutil.rmtree(run(Session.start(ledger="x", folder=folder, observer=StopAfter(3))))
        run(Session.resume(folder=folder, observer=StopAfter(3)))
    before, after = (teachers.state() for teachers in hired)
    assert all(torch.equal(before[part], after[part]) for part in before)
