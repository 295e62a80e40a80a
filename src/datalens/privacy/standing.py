"""Where a data set stands: every run on its ledger, what is spent, what a cap leaves."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from datalens.privacy.accountants import Charge
from datalens.privacy.cap import Cap
from datalens.privacy.chain import Row


@dataclass(kw_only=True)
class RunStanding:
    """One run, as the ledger tells it."""

    run: str
    facts: dict[str, Any]
    """What it said of itself when it reserved: method, kind of noise, configuration hash."""
    reserved: list[Charge]
    spent: list[Charge] = field(default_factory=list)
    state: Literal["under way", "ended"] = "under way"
    result: dict[str, Any] = field(default_factory=dict)
    """Of a run that has ended: what it made, as hashes. Empty if it was given up."""

    @property
    def committed(self) -> list[Charge]:
        """What counts against a cap: the whole plan until the run has ended, then what it spent."""
        return self.spent if self.state == "ended" else self.reserved


@dataclass(frozen=True, kw_only=True)
class Standing:
    """All runs of a ledger, and its cap."""

    runs: dict[str, RunStanding]
    caps: list[Cap]
    """All that were ever set, in order."""

    @property
    def cap(self) -> Cap | None:
        """The one that holds: the last."""
        return self.caps[-1] if self.caps else None

    @classmethod
    def of(cls, rows: Iterable[Row], known: Mapping[str, RunStanding] = {}) -> "Standing":
        """Read from the rows, in order, after those that made the runs stand as they are `known`,
        which they add to."""
        runs = dict(known)
        caps = []
        for row in rows:
            body = row.body
            kind = body.pop("kind")
            for ours in ("number", "salt"):
                body.pop(ours, None)
            if kind == "cap":
                parts = ("epsilon", "delta", "order", "bound")
                caps.append(Cap(**{name: body[name] for name in parts}))
            elif kind == "reserve":
                plan = [Charge.from_json(charge) for charge in body.pop("plan")]
                runs[row.run] = RunStanding(run=row.run, facts=body, reserved=plan)
            elif kind == "spend":
                runs[row.run].spent.append(Charge.from_json(body["charge"]))
            elif kind == "settle":
                runs[row.run].state, runs[row.run].result = "ended", body
            else:
                raise ValueError(f"unknown kind of row, {kind!r}")
        return cls(runs=runs, caps=caps)

    @property
    def spent(self) -> list[Charge]:
        """What all runs have spent so far."""
        return [charge for run in self.runs.values() for charge in run.spent]

    @property
    def committed(self) -> list[Charge]:
        """What counts against the cap: spent, or set aside for a run that is under way."""
        return [charge for run in self.runs.values() for charge in run.committed]
