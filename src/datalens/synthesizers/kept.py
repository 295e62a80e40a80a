"""How much of what a warm start buys is signal: closed forms from public facts and a budget.

They rest on a model of images, measured on MNIST and Fashion-MNIST, which are public
(benchmarks/planning.py; docs/planning.md has the figures): class means lie APART from their common
mean, and their energy falls along frequencies, from the lowest on, as 1 / j^DECAY.
"""

import math
from dataclasses import dataclass

import numpy as np

from datalens.classifiers.features import BOUND
from datalens.classifiers.labeller import LEAST_BORNE, RESIDUALS, TOLERABLE_NOISE, LabellerPlan
from datalens.synthesizers.clusters import MOST_CLUSTERS, ClusterPlan
from datalens.synthesizers.moments import MomentPlan, block_side

APART = 0.15
"""Of class means from their mean, in full brightness: root mean square over pixels."""
DECAY = 1.25


@dataclass(frozen=True, kw_only=True)
class Signal:
    """What a release, or many of them, carry."""

    ratio: float
    """Length of the signal over length of the noise, in one release."""
    kept: float
    """Share of the signal's energy that the best linear filter keeps, of all such releases."""


def means_signal(moments: MomentPlan) -> Signal:
    """Of the noisy class sums: energy e under noise v leaves e^2 / (e + v), frequency for
    frequency (Wiener)."""
    public, n_values = moments.public, grid_values(moments.public.shape)
    falling = np.arange(1, n_values + 1) ** -DECAY
    energy = n_values * APART**2 * falling / falling.sum()
    noise = (moments.sums.sigma / 255 / (public.n_records / public.n_classes)) ** 2
    kept = (energy**2 / (energy + noise)).sum() / energy.sum()
    return Signal(ratio=APART / math.sqrt(noise), kept=float(kept))


def labels_kept(labeller: LabellerPlan | None) -> float:
    """What noise leaves of a labeller's worth: half, where it bears so few steps that fewer would
    buy none."""
    if labeller is None:
        return 0.0
    noise = labeller.gradients.sigma / (BOUND * RESIDUALS * labeller.public.n_records)
    borne = labeller.steps * (TOLERABLE_NOISE / noise) ** 2
    return borne / (borne + LEAST_BORNE)


def clusters_kept(clusters: ClusterPlan | None) -> float:
    """As the logarithm of their number, so that the most there can be are worth 1."""
    if clusters is None:
        return 0.0
    return min(1.0, math.log(clusters.clusters) / math.log(MOST_CLUSTERS))


def grid_values(shape: tuple[int, int, int]) -> int:
    """Values of a record in the moments, after blocks are averaged."""
    side = block_side(shape)
    return shape[0] * math.ceil(shape[1] / side) * math.ceil(shape[2] / side)
