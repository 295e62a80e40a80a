"""What comes of a vote: how many directions are right, false and missed, in closed form.

The model: all teachers name the same k entries of an image. Of the votes on each of them, a share,
the agreement, is left when opposite ones cancel; on all other entries the tally is 0. Noise on the
tally is Gaussian.
"""

import math
from dataclasses import dataclass

from scipy.special import gamma, gammaincc, ndtr

from datalens.mechanism.ballots import BallotRule
from datalens.mechanism.topagg import TopAgg
from datalens.synthesizers.kept import Signal

SHAPE = 1.5
"""Of the Weibull distribution of a gradient's entries."""
LIKENESS = 0.0225
"""Correlation of two teachers' gradients, for a shard of one record; it grows as its root.
This and SHAPE: benchmarks/planning.py on compact teachers and fashion-mini."""


def agreement(top_k: int, n_values: int, shard: int) -> float:
    """Net share of the teachers on an entry that is named, in root mean square.

    A relative clip turns an entry g into a sign of mean g / max g. So the product of two ballots,
    over k, is the correlation of gradients times the mean of (g / max g)^2 over the k largest: for
    Weibull entries (1 - tau_k^2) (d / k) Gamma(1 + 2 / shape) / log(d)^(2 / shape).
    """
    likeness = min(1.0, LIKENESS * math.sqrt(shard))
    if n_values == 1:
        return math.sqrt(likeness)
    power = 2 / SHAPE
    kept = float(gammaincc(1 + power, math.log(n_values / top_k)))
    largest = math.log(n_values) ** power
    squared = likeness * kept * n_values / top_k * float(gamma(1 + power)) / largest
    return math.sqrt(min(1.0, squared))


@dataclass(frozen=True, kw_only=True)
class Directions:
    """Of one release: probabilities for an entry to pass the quorum."""

    right: float
    """Where teachers agree, their way."""
    wrong: float
    """Where teachers agree, the other way."""
    chance: float
    """Where the tally is 0, either way."""
    named: float
    """Share of the entries on which teachers agree."""

    @property
    def passed(self) -> float:
        """Share of all entries that pass."""
        return self.named * (self.right + self.wrong) + (1 - self.named) * self.chance

    @property
    def false(self) -> float:
        """Of the directions that pass, the share that nobody voted for."""
        ours = self.named * self.right
        return (self.passed - ours) / self.passed if self.passed > 0 else 0.0

    @property
    def missed(self) -> float:
        """Of the directions that teachers agree on, the share that does not pass."""
        return 1 - self.right


def directions(topagg: TopAgg, *, n_values: int, agreed: float) -> Directions:
    """At the quorum, or with none by the sign alone."""
    noise = topagg.sigma / topagg.n_teachers
    beta = topagg.quorum or 0.0
    return Directions(
        right=float(ndtr((agreed - beta) / noise)),
        wrong=float(ndtr((-agreed - beta) / noise)),
        chance=2 * float(ndtr(-beta / noise)),
        named=named_share(topagg, n_values),
    )


def tally_signal(
    topagg: TopAgg, *, n_values: int, n_classes: int, agreed: float, releases: int
) -> Signal:
    """Of one release, and of all, if what they tell is a way for each class.

    An entry's direction has some mean s and variance v; after as many releases as a class gets,
    s^2 / (s^2 + v / releases) of its energy is signal.
    """
    noise = topagg.sigma / topagg.n_teachers
    named = named_share(topagg, n_values)
    if topagg.quorum is None:
        energy, variance = named * agreed**2, noise**2
    else:
        found = directions(topagg, n_values=n_values, agreed=agreed)
        energy = named * (found.right - found.wrong) ** 2
        variance = found.passed - energy
    told = releases / n_classes * energy
    kept = told / (told + variance) if told > 0 else 0.0
    return Signal(ratio=agreed * math.sqrt(named) / noise, kept=kept)


def named_share(topagg: TopAgg, n_values: int) -> float:
    """Share of an image's entries that a ballot can name."""
    return topagg.ballot.top_k / n_values if isinstance(topagg.ballot, BallotRule) else 1.0
