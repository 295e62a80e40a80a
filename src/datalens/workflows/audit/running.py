"""The whole audit: which attacks, how often, and what came of them."""

import json
import time
from collections.abc import Callable
from concurrent.futures import Executor
from functools import partial
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.progress import Progress

from datalens.errors import DataLensError
from datalens.privacy.accountants import total_rho
from datalens.privacy.audit import ERROR, FEWEST, Transcript, confidence_of_each, find
from datalens.workflows.audit import planted, tallies
from datalens.workflows.audit.samples import audit_samples
from datalens.workflows.audit.trials import Attack, all_cores, play
from datalens.workflows.bench.machine import description
from datalens.workflows.source import Source

TRIALS, RUNS = 20_000, 2_000
MOST = 10_000_000
"""Trials: a fortnight's work."""
DELTAS = (0.2, 0.05, 1e-5)
"""Two where an attack has power, the more the larger, and the one that runs claim by default. At
that one no attack of so few trials can show much: it would take rates of a few in 100,000."""
ATTACKS: dict[str, Attack] = {
    "tallies": tallies.attack,
    "class-gaussian": partial(planted.attack, "class-gaussian"),
    "datalens": partial(planted.attack, "datalens"),
}
Tell = Callable[[str, int, int], None]


def run_audit(
    *,
    trials: int | None,
    runs: int | None,
    samples_of: tuple[Path, Source] | None,
    out: Path | None,
) -> dict[str, Any]:
    """`datalens audit`: bars on stderr, and all figures in one object.

    Figures on the samples of a run are internal: they are kept with the run, and not in `out`.
    """
    trials, runs = (TRIALS if trials is None else trials), (RUNS if runs is None else runs)
    if not all(FEWEST <= count <= MOST for count in (trials, runs)):
        raise DataLensError(f"An audit needs {FEWEST} to {MOST:,} trials and runs.")
    if out is not None and not out.parent.is_dir():
        raise DataLensError(f"{out.parent} is no folder; name a place for the figures that is.")
    if out is not None and out.exists():
        raise DataLensError(f"{out} exists already; name another place for the figures.")
    samples = {"membership": audit_samples(*samples_of)} if samples_of else {}
    with Progress(console=Console(stderr=True)) as bars, all_cores() as pool:
        tasks = {name: bars.add_task(name, total=None) for name in ATTACKS}
        result = audit(
            trials=trials,
            runs=runs,
            pool=pool,
            tell=lambda name, done, total: bars.update(tasks[name], completed=done, total=total),
        )
    if out is not None:
        out.write_text(json.dumps(result, indent=1) + "\n")
    return {**result, **samples}


def audit(
    *,
    trials: int,
    runs: int,
    pool: Executor | None = None,
    tell: Tell = lambda attack, done, total: None,
) -> dict[str, Any]:
    """Attack the release path `trials` times in each world, and each method `runs` times."""
    if min(trials, runs) < FEWEST:
        raise DataLensError(f"An audit needs {FEWEST} trials and runs or more.")
    confidence = confidence_of_each(len(ATTACKS) * len(DELTAS))
    started = time.monotonic()
    found = []
    for name, attack in ATTACKS.items():
        count = trials if name == "tallies" else runs
        begun = time.monotonic()
        transcript = play(attack, count, pool=pool, tell=partial(tell, name))
        seconds = round(time.monotonic() - begun, 1)
        found.append(
            {"attack": name, "seconds": seconds, **verdict(transcript, confidence=confidence)}
        )
    return {
        "holds": all(entry["holds"] for entry in found),
        "confidence": 1 - ERROR,
        "attacks": found,
        "seconds": round(time.monotonic() - started, 1),
        "machine": description(),
    }


def verdict(transcript: Transcript, *, confidence: float) -> dict[str, Any]:
    """It holds if no bound exceeds its claim and no value moved further than was paid for."""
    findings = [find(transcript, delta=delta, confidence=confidence) for delta in DELTAS]
    return {
        "trials_in_each_world": len(transcript.blanked),
        "mu": (2 * total_rho(transcript.charges)) ** 0.5,
        "largest_move": transcript.moved,
        "bounds": [finding.to_json() for finding in findings],
        "holds": transcript.moved <= 1 and all(finding.holds for finding in findings),
    }
