"""What one step on a random part of the records costs, at any Renyi order.

With a record that takes part with probability q and then moves a sum by at most 1, under noise
of standard deviation z, dp-accounting bounds the Renyi divergence between the record and its
blank, in both directions (Mironov, Talwar and Zhang 2019). For a record that is replaced by
another it has no Renyi bound, so two are derived here and the smaller is taken:

- Through the blank. Take the record away, then add the other: by the weak triangle inequality
  (Mironov 2017, Proposition 11, with p = 2) D_a(P, Q) is at most
  (a - 1/2) / (a - 1) * D_2a(P, blank) + D_(2a - 1)(blank, Q). Without sampling this is
  4a + 1 / (a - 1) times 1 / (2 z^2), where the truth is 4a.
- By convexity. P and Q are mixtures with the same weights, 1 - q on the same Gaussian and q on
  Gaussians at most 2 apart, and exp((a - 1) D_a) is jointly convex: it is at most
  1 - q + q exp((a - 1) a 4 / (2 z^2)). Exact without sampling.
"""

import logging
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Literal

import dp_accounting
import numpy as np
from dp_accounting import rdp
from numpy.typing import NDArray

from datalens.mechanism.events import SampledGaussianRelease

Relation = Literal["blanked", "replaced"]
Curve = NDArray[np.float64]


def sampled_renyi(
    event: SampledGaussianRelease, orders: Sequence[float], relation: Relation = "blanked"
) -> Curve:
    """A bound on the Renyi divergence of one step, at each of `orders` (all above 1)."""
    a = np.asarray(orders, dtype=np.float64)
    if relation == "blanked":
        return _blanked(event, a)
    through_blank = (a - 0.5) / (a - 1) * _blanked(event, 2 * a) + _blanked(event, 2 * a - 1)
    return np.minimum(through_blank, _by_convexity(event, a))


def _blanked(event: SampledGaussianRelease, orders: Curve) -> Curve:
    account = rdp.RdpAccountant(orders, dp_accounting.NeighboringRelation.REPLACE_SPECIAL)
    with _quiet():
        account.compose(to_dp_accounting(event))
    return _rounded_up(account.rdp, event)


@contextmanager
def _quiet() -> Iterator[None]:
    """An order whose series does not converge counts as infinite, which need not be announced."""
    logger = logging.getLogger("absl")
    before = logger.level
    logger.setLevel(logging.ERROR)
    try:
        yield
    finally:
        logger.setLevel(before)


def _by_convexity(event: SampledGaussianRelease, a: Curve) -> Curve:
    q = event.sampling_probability
    apart = (a - 1) * a * 2 / event.noise_multiplier**2
    stays = np.log1p(-q) if q < 1 else -np.inf
    return _rounded_up(np.logaddexp(stays, np.log(q) + apart) / (a - 1), event)


def _rounded_up(found: Curve, event: SampledGaussianRelease) -> Curve:
    """Gives back what rounding can take away from a sum of terms near 1 and q.

    Else a cost too small to see would count as none, however often it is paid.
    """
    curve: Curve = np.maximum(found, 0.0) * (1 + 1e-12) + 1e-12 * event.sampling_probability + 1e-15
    return curve


def to_dp_accounting(event: SampledGaussianRelease) -> dp_accounting.DpEvent:
    """The same event in dp-accounting's words."""
    return dp_accounting.PoissonSampledDpEvent(
        event.sampling_probability, dp_accounting.GaussianDpEvent(event.noise_multiplier)
    )
