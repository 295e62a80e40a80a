"""What an attack disproves: a lower bound on epsilon, with its confidence, beside the claim.

An attack plays many runs in two worlds that are neighbours, and gives each run a score that is
high where it believes in the second world. If a mechanism is (epsilon, delta)-private, every test
"the score is at least t" has P_2(test) <= exp(epsilon) P_1(test) + delta, and the other way round.
Where the rates that were seen cannot go together with that, the claim is wrong.
"""

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.stats import beta

from datalens.errors import DataLensError
from datalens.mechanism.events import GaussianRelease
from datalens.privacy.accountants import Charge, epsilon, total_rho

Floats = NDArray[np.float64]

ERROR = 1e-3
"""How often, at most, an audit may accuse a true implementation: all its bounds together."""
FEWEST = 20
"""Trials in each world: with fewer, no rate can be told from another."""
THRESHOLDS = 512


@dataclass(frozen=True, kw_only=True)
class Transcript:
    """Everything that many runs of one attack gave: two worlds, and what a run was charged."""

    blanked: Floats
    """The attack's score of each run in which the record was blanked."""
    present: Floats
    """The same where it was there."""
    charges: tuple[Charge, ...]
    """What the ledger charged for one run: the claim follows from it, and from nothing else."""
    moved: float
    """The furthest that a private value lay from its other world, squared, as a share of the
    squared distance that was paid for. Above 1 the sensitivity is wrong, whatever the noise."""

    @classmethod
    def joined(cls, parts: Iterable["Transcript"]) -> "Transcript":
        """Several transcripts of one attack as one; the claim is the smallest made in any."""
        found = list(parts)
        return cls(
            blanked=np.concatenate([part.blanked for part in found]),
            present=np.concatenate([part.present for part in found]),
            charges=min((part.charges for part in found if part.charges), key=total_rho),
            moved=max(part.moved for part in found),
        )


@dataclass(frozen=True, kw_only=True)
class LowerBound:
    """At `confidence`, no smaller epsilon goes together with what was seen."""

    epsilon: float
    delta: float
    confidence: float
    hits: float
    """Share of the record's world that the test picks out: its lower confidence limit."""
    false_alarms: float
    """The same share of the other world: its upper confidence limit."""


@dataclass(frozen=True, kw_only=True)
class Finding:
    """One attack's bound beside what is claimed at the same delta."""

    bound: LowerBound
    exact: float
    """The Gaussian curve of what was charged. At the audit's settings it is right for discrete
    noise to three digits (a test computes it), and it is the least that anyone could claim."""
    certified: float

    @property
    def holds(self) -> bool:
        """Measured against the exact curve, which is stricter than what is certified."""
        return self.bound.epsilon <= min(self.exact, self.certified)

    def to_json(self) -> dict[str, Any]:
        return {
            "delta": self.bound.delta,
            "epsilon_at_least": self.bound.epsilon,
            "exact": self.exact,
            "certified": self.certified,
            "confidence": self.bound.confidence,
            "hits_at_least": self.bound.hits,
            "false_alarms_at_most": self.bound.false_alarms,
            "holds": self.holds,
        }


def find(transcript: Transcript, *, delta: float, confidence: float) -> Finding:
    """The bound that a transcript gives at `delta`, and the claims it is held against."""
    return Finding(
        bound=lower_bound(
            transcript.blanked, transcript.present, delta=delta, confidence=confidence
        ),
        exact=epsilon(transcript.charges, delta, "gaussian"),
        certified=epsilon(transcript.charges, delta, "certified"),
    )


def lower_bound(blanked: Floats, present: Floats, *, delta: float, confidence: float) -> LowerBound:
    """The largest epsilon that the scores of two worlds disprove at `delta`.

    Every other trial serves to choose a threshold and a direction; the rest, which had no part in
    that choice, are counted. Each of the two rates gets a one-sided Clopper-Pearson limit at half
    of the error, so both hold together with `confidence`.
    """
    for scores in (blanked, present):
        if len(scores) < FEWEST or not np.isfinite(scores).all():
            raise DataLensError(f"An audit needs {FEWEST} finite scores or more in each world.")
    error = (1 - confidence) / 2
    tests = [(blanked, present), (-present, -blanked)]  # "at least t" in one world or the other
    chosen = []
    for null, other in tests:
        pooled = np.concatenate([null[::2], other[::2]])
        thresholds = np.quantile(pooled, np.linspace(0, 1, THRESHOLDS), method="nearest")
        tried = _limits(null[::2], other[::2], thresholds, error)
        values = _epsilon(*tried, delta)
        chosen.append((float(values.max()), thresholds[[values.argmax()]]))
    best = max(range(len(tests)), key=lambda index: chosen[index][0])
    null, other = tests[best]
    hits, false_alarms = _limits(null[1::2], other[1::2], chosen[best][1], error)
    return LowerBound(
        epsilon=float(_epsilon(hits, false_alarms, delta)[0]),
        delta=delta,
        confidence=confidence,
        hits=float(hits[0]),
        false_alarms=float(false_alarms[0]),
    )


def _limits(null: Floats, other: Floats, thresholds: Floats, error: float) -> tuple[Floats, Floats]:
    """Of the tests "at least t": the least their hit rate can be, the most their false alarms."""
    hits, false = _at_least(other, thresholds), _at_least(null, thresholds)
    low = beta.ppf(error, hits, len(other) - hits + 1)
    high = beta.ppf(1 - error, false + 1, len(null) - false)
    return np.where(hits == 0, 0.0, low), np.where(false == len(null), 1.0, high)


def _at_least(scores: Floats, thresholds: Floats) -> Floats:
    below = np.searchsorted(np.sort(scores), thresholds, side="left")
    return (len(scores) - below).astype(np.float64)


def _epsilon(hits: Floats, false_alarms: Floats, delta: float) -> Floats:
    ratio = np.maximum(hits - delta, 0) / false_alarms
    bound: Floats = np.log(np.maximum(ratio, 1.0))
    return bound


def confidence_of_each(bounds: int) -> float:
    """So that all bounds of an audit hold together but for ERROR (the union bound)."""
    return 1 - ERROR / max(bounds, 1)


def share_moved(one: NDArray[np.int64], other: NDArray[np.int64], charge: Charge) -> float:
    """How far apart two worlds' values lie, squared, as a share of what the charge pays for."""
    apart = float(((one - other).astype(np.float64) ** 2).sum())
    if not isinstance(charge.event, GaussianRelease):
        raise DataLensError("An audit measures the moves of Gaussian releases only.")
    paid = charge.count * charge.event.squared_sensitivity
    if paid == 0:
        return math.inf if apart else 0.0
    return apart / paid
