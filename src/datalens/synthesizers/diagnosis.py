"""The data-dependent bound of a run, written under internal/ for those who may see the records."""

import json
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np

from datalens.mechanism.ballots import BallotRule
from datalens.mechanism.noise import Integers
from datalens.privacy.accountants import rho_of, total_rho
from datalens.privacy.data_dependent import (
    Composition,
    DataDependentBound,
    Floats,
    least_passing,
    peaks,
)
from datalens.synthesizers.plan import VotingPlan
from datalens.synthesizers.session import Member, Session

FILE = "data_dependent.jsonl"
ABOUT = (
    "Private: computed from the tallies by Theorems 4 and 5. A diagnostic that must not be"
    " published; epsilon.independent alone is what the run has spent."
)
NO_THRESHOLD = "no threshold: a direction that is not in {-1, 0, 1} has no q"
MIXED = "an entry of the direction follows from many of the release's, so Theorem 5 gives no q"
NEAR_ONE = "q of an image is so near 1 that Theorem 4's precondition fails"
NOT_SEEN = "q of an earlier step is not known: its release or its line is lost"


def diagnosed(session: Member, plan: VotingPlan) -> Member:
    """The same session with a diagnosis of its votes, where whole tallies are seen: on rank 0."""
    if not isinstance(session, Session):
        return session
    return replace(session, inside=Diagnosis(session.folder / FILE, plan))


class Diagnosis:
    """Shown a tally of votes, adds a line on the run so far to a private file.

    Guarantee: it writes to that file and nowhere else, and the run reads nothing back. It is
    shown a tally when its charge and its release are on disk already, and whatever goes wrong
    here stops nothing: a diagnostic is not worth the budget of a step.
    """

    def __init__(self, path: Path, plan: VotingPlan) -> None:
        self._path, self._plan = path, plan
        self._topagg = plan.topagg
        others = [charge for charge in plan.charges if charge.event != plan.topagg.event]
        self._composition = Composition(
            rho=rho_of(plan.topagg.event),
            delta=plan.settings.delta,
            accountant=plan.settings.accountant,
            besides=total_rho(others),
        )
        self._next = 0
        self._why = NEAR_ONE

    def __call__(self, key: str, tally: Integers) -> None:
        if not key.startswith("votes/"):
            return
        try:
            self._add(int(key.removeprefix("votes/")), tally)
        except Exception:  # a line that is missing is named in those that follow
            return

    def _add(self, step: int, tally: Integers) -> None:
        if self._next < step:  # resumed, or a step's release is lost
            known = reopened(self._path)
            for earlier in range(self._next, step):
                self._compose(known.get(earlier), len(tally))
        line: dict[str, Any] = {"about": ABOUT} if step == 0 else {}
        log_q = None
        if self._why_no_q is None:
            scale = self._topagg.ballot.unit * self._topagg.n_teachers
            passing = least_passing(self._topagg.quorum or 0.0, scale)
            found = peaks(tally, sigma=self._topagg.event.sigma, passing=passing)
            log_q = found.log_q
            line |= {"log_peak": found.log_peak.tolist(), "log_q": found.log_q.tolist()}
        bound = self._compose(log_q, len(tally))
        if isinstance(self._topagg.ballot, BallotRule):
            most = self._topagg.n_teachers * self._topagg.ballot.unit
            line |= {"agreement": (np.abs(tally).max(axis=1) / most).tolist()}
        line |= {"step": step, "epsilon": asdict(bound)}
        if bound.dependent is None:
            line |= {"not_applicable": self._why}
        with self._path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(line) + "\n")

    @property
    def _why_no_q(self) -> str | None:
        if self._topagg.quorum is None:
            return NO_THRESHOLD
        return None if isinstance(self._topagg.ballot, BallotRule) else MIXED

    def _compose(self, log_q: Floats | None, images: int) -> DataDependentBound:
        self._next += 1
        if log_q is not None:
            return self._composition.add(log_q)
        self._why = self._why_no_q or NOT_SEEN
        return self._composition.add_unknown(images)


def reopened(path: Path) -> dict[int, Floats]:
    """Log q of each image by step, as the file has it; a last line cut by a crash is dropped."""
    known: dict[int, Floats] = {}
    whole = ""
    if not path.exists():
        return known
    for text in path.read_text(encoding="utf-8").splitlines():
        try:
            line = json.loads(text)
        except ValueError:
            continue
        if "log_q" in line:
            known[line["step"]] = np.array(line["log_q"], dtype=np.float64)
        whole += text + "\n"
    path.write_text(whole, encoding="utf-8")
    return known
