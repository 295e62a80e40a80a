"""Theorems 4 and 5 of the paper, corrected: what these very records make of a run's cost.

Theorem 5 says how likely it is that the thresholded votes on an image, in {-1, 0, 1}^d, come out
other than likeliest: q. Theorem 4 (Papernot et al. 2018, "Scalable private learning with PATE",
Theorem 6) turns a small q into a smaller cost. Everything here is in log space.

Guarantee: none. The numbers are computed from the tallies and are themselves private. They bound
the divergence from these records to their neighbours and not the way back, and only for what has
been thresholded. They are a diagnostic, never an epsilon that is spent or published.
"""

import math
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from dp_accounting import rdp
from numpy.typing import NDArray
from scipy.special import log_ndtr, logsumexp

from datalens.mechanism.noise import Integers
from datalens.privacy.accountants import AccountantName, epsilon_of_rho

Floats = NDArray[np.float64]

ORDERS: Floats = 1 + np.logspace(-2, 5, 281)
"""Renyi orders tried. Any grid gives a bound; this one is within 0.1 % of the best order."""
SUMMED = 1e4
"""Up to this sigma, tails of the noise are exact sums; beyond, a normal tail is as good."""
FARTHEST = 30.0
"""Tails are not followed beyond so many sigmas, where they are below 1e-196: q is not less."""
SHARES: Floats = np.arange(1, 256) / 256
"""Where mu2 is looked for between 1 and its upper end, as exponents; the middle is the optimum."""


@dataclass(frozen=True, kw_only=True)
class Peaks:
    """How likely each image's likeliest direction is, and how unlikely. Private."""

    log_peak: Floats
    """Log of the probability of the likeliest direction, log(1 - q)."""
    log_q: Floats
    """Log of the probability of any other, rounded up; 0 where 1 - q is below 1e-323."""


def least_passing(quorum: float, scale: int) -> int:
    """The least positive release that becomes +1: the very comparison of TopAgg.direction."""
    least = max(math.ceil(quorum * scale), 1)
    while least > 1 and (least - 1) / scale >= quorum:
        least -= 1
    while least / scale < quorum:
        least += 1
    return least


def peaks(tally: Integers, *, sigma: float, passing: int) -> Peaks:
    """Theorem 5 for each image of a tally (m, d) under discrete Gaussian noise.

    With f a tally's entry and Z the noise, an entry is +1 if f + Z >= passing, -1 if
    f + Z <= -passing, and 0 in between. (The paper prints the -1 case with the wrong end, and the
    0 case as erf of one end.) Entries have noise of their own, so probabilities multiply.
    """

    def beyond(least: Integers) -> Floats:
        return _log_tail(least, sigma)

    not_up, not_down = beyond(tally - passing + 1), beyond(-tally - passing + 1)
    not_zero = np.logaddexp(beyond(passing - tally), beyond(passing + tally))
    missed = np.minimum(np.minimum(not_up, not_down), not_zero)  # at most 2/3: three outcomes
    log_peak = _log1mexp(missed).sum(axis=1)
    # Where q is tiny, the sum of the entries' misses is above it, and no farther than q squared.
    log_q = np.where(
        log_peak > -1e-12, logsumexp(missed, axis=1), _log1mexp(np.minimum(log_peak, -1e-12))
    )
    return Peaks(log_peak=log_peak, log_q=log_q)


def theorem_4(log_q: float, rho: float, *, order: Floats, mu1: Floats, mu2: Floats) -> Floats:
    """Theorem 4's right-hand side for a mechanism of cost rho * mu at order mu, unchecked.

    The likeliest outcome's share of the divergence is (1 - q) A^(order - 1): a neighbour's q is at
    most (q e^(rho mu2))^(1 - 1/mu2). All others together have at most q B^(order - 1), by Jensen.
    """
    log_peak = _log1mexp(np.asarray(log_q))
    log_a = log_peak - _log1mexp((log_q + rho * mu2) * (1 - 1 / mu2))
    log_b = rho * mu1 - log_q / (mu1 - 1)
    likeliest, others = log_peak + (order - 1) * log_a, log_q + (order - 1) * log_b
    bound: Floats = np.logaddexp(likeliest, others) / (order - 1)
    return bound


def renyi_curve(log_q: float, rho: float, orders: Floats = ORDERS) -> Floats | None:
    """Theorem 4 at each order, at the best mu1 and mu2 that its precondition allows.

    None is "not applicable": no mu1 and mu2 fulfil it. The precondition is the printed one,
    q <= e^((mu2-1) rho mu2) / (mu1/(mu1-1) * mu2/(mu2-1))^mu2, which makes the bound grow with q,
    and q e^(rho mu2) < 1, which is not printed and without which A is negative.

    A depends on mu2 alone and is least at mu2 = sqrt(-log q / rho); B depends on mu1 alone and is
    least at 1 + sqrt(-log q / rho). The precondition only asks for a larger mu1, given mu2.
    """
    if not 0 < rho < -log_q:
        return None
    ratio = -log_q / rho
    mu2 = ratio**SHARES
    mu2 = mu2[(mu2 > 1) & (log_q + rho * mu2 < 0)]
    slack = (-log_q + rho * mu2 * (mu2 - 1)) / mu2 - np.log(mu2 / (mu2 - 1))
    mu2, slack = mu2[slack > 0], slack[slack > 0]
    if not len(mu2):
        return None
    allowed = -1 / np.expm1(-slack)  # mu1 / (mu1 - 1) is at most e^slack
    mu1 = np.maximum(np.maximum(allowed, 1 + math.sqrt(ratio))[:, None], orders)
    found: Floats = theorem_4(log_q, rho, order=orders, mu1=mu1, mu2=mu2[:, None]).min(axis=0)
    return np.maximum(found, 0.0)  # a divergence is not below 0, whatever rounding says


@dataclass(frozen=True, kw_only=True)
class DataDependentBound:
    """Epsilon of a run so far, as its own records would have it. A diagnostic and private.

    It has a type of its own so that nothing can spend, certify or publish it by mistake.
    """

    independent: float
    """What the run has cost whatever the records are: the only one of these that is an epsilon."""
    dependent: float | None
    """By Theorem 4 for every image so far. None: not applicable to one of them or more."""
    least: float
    """By Theorem 4 where it is applicable and less, and at full cost elsewhere."""


class Composition:
    """Adds up the votes of a run, image by image."""

    def __init__(
        self, *, rho: float, delta: float, accountant: AccountantName, besides: float = 0.0
    ) -> None:
        """`rho` is what one image costs, `besides` what the run pays for other things."""
        self._rho, self._delta, self._accountant = rho, delta, accountant
        self._total = besides
        self._dependent: Floats | None = besides * ORDERS
        self._least: Floats = besides * ORDERS

    def add(self, log_q: Floats) -> DataDependentBound:
        """One more step: log q of each of its images."""
        for each in log_q:
            self._one(renyi_curve(float(each), self._rho))
        return self._bound()

    def add_unknown(self, images: int) -> DataDependentBound:
        """A step of which q is not known, or does not exist."""
        for _ in range(images):
            self._one(None)
        return self._bound()

    def _one(self, curve: Floats | None) -> None:
        full = self._rho * ORDERS
        self._total += self._rho
        self._least = self._least + (full if curve is None else np.minimum(curve, full))
        if self._dependent is not None:
            self._dependent = None if curve is None else self._dependent + curve

    def _bound(self) -> DataDependentBound:
        independent = epsilon_of_rho(self._total, self._delta, self._accountant)
        return DataDependentBound(
            independent=independent,
            dependent=None if self._dependent is None else self._epsilon(self._dependent),
            least=min(independent, self._epsilon(self._least)),
        )

    def _epsilon(self, curve: Floats) -> float:
        if self._accountant == "paper":
            return float((curve + math.log(1 / self._delta) / (ORDERS - 1)).min())
        return float(rdp.compute_epsilon(ORDERS, curve, self._delta)[0])


def _log_tail(least: Integers, sigma: float) -> Floats:
    """Log of the probability that discrete Gaussian noise is at least `least`, rounded up."""
    upper = np.where(least > 0, least, 1 - least)  # by symmetry
    if sigma <= SUMMED:
        table = _log_tails(sigma)
        tail = table[np.minimum(upper, len(table)) - 1]
    else:
        # Its relative error is (z / sigma)^2 / (24 sigma^2): 4e-7 at the farthest.
        tail = log_ndtr(-np.minimum((upper - 0.5) / sigma, FARTHEST))
    found: Floats = np.where(least > 0, tail, _log1mexp(tail))
    return found


@lru_cache(maxsize=4)
def _log_tails(sigma: float) -> Floats:
    """The same for 1, 2, ... as far as tails are followed: summed from far out, where they end."""
    end = math.ceil(FARTHEST * sigma) + 1
    far = math.ceil((FARTHEST + 10) * sigma) + 40  # what lies beyond is less than e^-350 of it
    log_mass = -0.5 * (np.arange(far, -1, -1) / sigma) ** 2
    tails = np.logaddexp.accumulate(log_mass)[::-1]  # from 0, 1, 2, ... on
    found: Floats = tails[1 : end + 1] - np.logaddexp(tails[0], tails[1])  # zero is there once
    return found


def _log1mexp(x: Floats) -> Floats:
    """log(1 - e^x) for x < 0, exact near both ends."""
    near = np.maximum(x, -math.log(2))
    far = np.minimum(x, -math.log(2))
    found: Floats = np.where(x > -math.log(2), np.log(-np.expm1(near)), np.log1p(-np.exp(far)))
    return found
