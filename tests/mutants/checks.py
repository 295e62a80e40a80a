"""What must hold of the true code, and must not of a mutant. Each check takes a folder to use."""

from pathlib import Path

import numpy as np
import torch

from datalens.mechanism.moments import ClassCounts
from datalens.mechanism.noise import ExactNoise, Noise
from datalens.privacy.accountants import Charge
from datalens.privacy.audit import confidence_of_each
from datalens.privacy.ledger import Ledger
from datalens.privacy.releases import Releases
from datalens.workflows.audit import planted, tallies
from datalens.workflows.audit.running import ATTACKS, DELTAS, verdict
from datalens.workflows.audit.trials import play

from ..ensemble.ensembles import in_double
from ..ensemble.test_isolation import VICTIM, pixel, touched
from ..ensemble.test_threads import after_training, same_on_threads
from ..ensemble.test_workers import own_numbers, workers
from ..ensemble.threads import threads
from ..privacy.test_ledger import Witness
from ..synthesizers import test_voting

TRIALS = 2_000
"""In each world; benchmarks/flakes.py counts how often so many would miss half the noise."""
CONFIDENCE = confidence_of_each(len(ATTACKS) * len(DELTAS))
"""That of a whole audit, so that a check accuses true code once in 1,000 times at most."""
COUNTS = ClassCounts(sigma=1000.0, n_classes=9)


def audit_of_tallies(folder: Path) -> bool:
    """Attack (a): bounds, and how far tallies moved."""
    transcript = play(tallies.attack, TRIALS, tell=lambda done, total: None)
    return bool(verdict(transcript, confidence=CONFIDENCE)["holds"])


def audit_of_moves(folder: Path) -> bool:
    """Attack (a), and of it only the distance of the worst pair, which needs few trials."""
    return tallies.attack("present", 1).moved <= 1


def audit_of_runs(folder: Path) -> bool:
    """Attack (b), and of it only how far a planted record moves what is released.

    Of 80 runs on shards that wrap around, 3 moved no further than was paid for; six do not.
    """
    return planted.attack("datalens", "present", 6).moved <= 1


def isolation_of_records(folder: Path) -> bool:
    """tests/synthesizers/test_voting.py: a record changes the state of one teacher at most."""
    before, _ = test_voting.trained(test_voting.records(), "compact")
    reached = [
        test_voting.touched(before, test_voting.trained(changed, "compact")[0])
        for changed in (test_voting.changed(position, label=False) for position in range(0, 50, 9))
    ]
    return all(len(who) <= 1 for who in reached)


def isolation_of_optimisers(folder: Path) -> bool:
    """tests/ensemble/test_isolation.py: a record changes one teacher, bit for bit."""
    return touched("compact", pixel, in_double) == {VICTIM}


def isolation_of_batches(folder: Path) -> bool:
    """The same for teachers that normalise over their batch."""
    return touched("reference", pixel, in_double) == {VICTIM}


def isolation_of_threads(folder: Path) -> bool:
    """tests/ensemble/test_threads.py: on four threads the teachers are those of one.

    And tests/ensemble/test_workers.py: a worker divides nothing, which needs no chance to be seen.
    """
    with threads(4):
        worker = workers(1)
        worker.share([], list)
        alone = worker.share([], lambda items: own_numbers()) == [{1}]
    return alone and _same_on_four_threads(torch.float32)


def isolation_of_conversions(folder: Path) -> bool:
    """The same in bfloat16."""
    return _same_on_four_threads(torch.bfloat16)


def charge_before_release(folder: Path) -> bool:
    """tests/privacy/test_ledger.py: noise looks, when added, whether its charge is on disk."""
    witness = Witness(folder / "charge.sqlite")
    _desk(folder, "charge", witness).obtain("a", COUNTS, _nothing)  # type: ignore[arg-type]
    return [charged for _, charged in witness.seen] == [True]


def one_draw_a_release(folder: Path) -> bool:
    """tests/privacy/test_ledger.py: a resumed run has the release that it had before."""
    first, again = (
        _desk(folder, "draw", ExactNoise()).obtain("a", COUNTS, _nothing) for _ in range(2)
    )
    return bool(np.array_equal(first, again))  # type: ignore[arg-type]


def noise_of_its_own(folder: Path) -> bool:
    """tests/statistical/test_noise.py: no two runs have the same noise, whatever was seeded."""
    drawn = []
    for name in ("one", "two"):
        np.random.seed(0)  # noqa: NPY002 - a global seed must change nothing
        drawn.append(_desk(folder, name, ExactNoise()).obtain("a", COUNTS, _nothing))
    return not np.array_equal(*drawn)  # type: ignore[arg-type]


def _same_on_four_threads(precision: torch.dtype) -> bool:
    expected = after_training("reference", precision)
    return same_on_threads("reference", precision, expected, 4)


def _nothing() -> np.ndarray:
    return np.zeros(COUNTS.n_classes, dtype=np.int64)


def _desk(folder: Path, name: str, noise: Noise) -> Releases:
    ledger = Ledger(folder / f"{name}.sqlite")
    if not ledger.rows("run"):
        ledger.reserve("run", [Charge(event=COUNTS.event, count=1)], facts={})
    return Releases(ledger=ledger, run="run", noise=noise, folder=folder / name)
