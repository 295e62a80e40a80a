"""`datalens ledger`: what has been spent on a data set, by which runs, and what a cap leaves."""

import math
import warnings
from dataclasses import dataclass
from typing import Any

from rich.table import Table

from datalens.errors import DataLensError, DataLensWarning
from datalens.privacy.accountants import Charge, epsilon
from datalens.privacy.cap import Cap
from datalens.privacy.known_records import KnownRecords
from datalens.privacy.ledger import Ledger, default_home, ledger_path
from datalens.privacy.rounding import rounded_down, rounded_up
from datalens.privacy.signing import public_key
from datalens.synthesizers.session import MADE_ANEW
from datalens.workflows.suggesting import command
from datalens.workflows.terms import ACCOUNTANTS, REPLACED

DELTA = 1e-5
"""Where totals are shown, unless a cap or the user says otherwise."""


@dataclass(frozen=True, kw_only=True)
class Account:
    """A ledger in figures: epsilons by the certified accountant, all at one delta."""

    name: str
    delta: float
    runs: list[dict[str, Any]]
    spent: float
    """Epsilon of everything spent so far, over all runs."""
    committed: float
    """The same with what runs under way have set aside."""
    spent_replace: float
    """What is spent, if a record is replaced rather than blanked."""
    spent_pld: float | None
    """What is spent, by privacy loss distributions: for show, no bound for discrete noise."""
    cap: dict[str, Any] | None
    caps_before: list[float]
    """Caps that were set and no longer hold, in order."""

    def to_json(self) -> dict[str, Any]:
        return {
            "ledger": self.name,
            "delta": self.delta,
            "runs": self.runs,
            "epsilon": {
                "spent": self.spent,
                "committed": self.committed,
                "spent_replace": self.spent_replace,
                "spent_pld": self.spent_pld,
            },
            "cap": self.cap,
            "caps_before": self.caps_before,
        }


def names() -> list[str]:
    """Every ledger there is."""
    return sorted(path.stem for path in (default_home() / "ledgers").glob("*.sqlite"))


def refuse_unknown(name: str) -> None:
    """Refuse the name of a ledger that is not there."""
    path = ledger_path(name)
    if not path.exists():
        there = f"there are {', '.join(names())}" if names() else "there is none yet"
        raise DataLensError(f"There is no ledger {name} in {path.parent}; {there}.")


def opened(name: str) -> Ledger:
    """A ledger by its name, which is not made here."""
    refuse_unknown(name)
    return Ledger(ledger_path(name), make=False)


def own_key() -> str:
    """The public key of whoever owns the ledgers here; made if there is none."""
    return public_key(default_home() / "ledgers")


def key_sentence() -> str:
    """What others check this owner's certificates with."""
    return f"Certificates are signed; others check them with datalens verify --key {own_key()}"


def capped(name: str, epsilon: float, delta: float | None) -> Ledger:
    """The ledger with a cap from now on; made only if the cap is one."""
    at = DELTA if delta is None else delta
    Cap.of(epsilon, at)
    if not ledger_path(name).exists() and KnownRecords().has_runs_of(name):
        warnings.warn(MADE_ANEW.format(own=name), DataLensWarning, stacklevel=2)
    ledger = Ledger(ledger_path(name))
    ledger.set_cap(epsilon, at)
    return ledger


def account(ledger: Ledger, *, delta: float | None = None) -> Account:
    """Add up a ledger at `delta`: the cap's by default, else 1e-5."""
    standing, started = ledger.standing(), ledger.started()
    cap = standing.cap
    at = delta if delta is not None else cap.delta if cap else DELTA
    runs = [
        {
            "run": run.run,
            "started": started[run.run],
            "state": run.state,
            "method": run.facts.get("method"),
            "noise": run.facts.get("noise"),
            "reserved": epsilon(run.reserved, at),
            "spent": epsilon(run.spent, at),
            "releases": _count(run.spent),
        }
        for run in standing.runs.values()
    ]
    return Account(
        name=ledger.path.stem,
        delta=at,
        runs=runs,
        spent=epsilon(standing.spent, at),
        committed=epsilon(standing.committed, at),
        spent_replace=epsilon(standing.spent, at, relation="replaced"),
        spent_pld=_by_loss_distributions(standing.spent, at),
        cap={
            "epsilon": cap.epsilon,
            "delta": cap.delta,
            "left": cap.left(standing.committed),
        }
        if cap
        else None,
        caps_before=[each.epsilon for each in standing.caps[:-1]],
    )


def accounts(*, delta: float | None) -> tuple[list[Account], list[str]]:
    """Every ledger there is, and a sentence on each file that is none."""
    found, refused = [], []
    for name in names():
        try:
            found.append(account(opened(name), delta=delta))
        except DataLensError as error:
            refused.append(str(error))
    return found, refused


def table(found: Account) -> Table:
    """One line a run, and the total."""
    title = f"{found.name}: epsilon at delta {found.delta:g}, added up by Renyi divergences"
    rows = Table(title=title, title_justify="left")
    for name in ("run", "started", "method", "state", "reserved", "spent"):
        rows.add_column(name, no_wrap=name != "method", overflow="fold")
    for run in found.runs:
        rows.add_row(
            run["run"],
            run["started"][:10],
            run["method"],
            run["state"],
            rounded_up(run["reserved"]),
            rounded_up(run["spent"]),
        )
    rows.add_section()
    rows.add_row("all runs", "", "", "", rounded_up(found.committed), rounded_up(found.spent))
    return rows


def other_terms(found: Account) -> dict[str, float]:
    """What the same charges are in other terms, each with what it is for."""
    terms = {REPLACED: found.spent_replace}
    if found.spent_pld is not None:
        terms[ACCOUNTANTS["pld"]] = found.spent_pld
    return terms


def total_sentence(found: Account) -> str:
    """What all runs together have cost."""
    return f"epsilon {rounded_up(found.spent)} spent at delta {found.delta:g}."


def cap_sentence(found: Account) -> str:
    """What the cap says, or that there is none."""
    if found.cap is None:
        return f"No cap: set one with {command('ledger', found.name, '--cap', 'EPSILON')}."
    left = rounded_down(max(found.cap["left"], 0.0))
    before = ", ".join(f"{epsilon:g}" for epsilon in found.caps_before)
    return (
        f"Cap: epsilon {found.cap['epsilon']:g} at delta {found.cap['delta']:g}; one more run of up"
        f" to epsilon {left} at that delta fits." + (f" It was {before} before." if before else "")
    )


def _by_loss_distributions(charges: list[Charge], delta: float) -> float | None:
    """None where they cannot be computed, as for a huge epsilon: they are for show."""
    try:
        found = epsilon(charges, delta, "pld")
    except (ArithmeticError, ValueError, MemoryError):
        return None
    return found if math.isfinite(found) else None


def _count(charges: list[Charge]) -> int:
    return sum(charge.count for charge in charges)
