"""What images will be worth: a closed form that ranks settings, from public facts alone.

Accuracy of a judge that learns from them is chance, and a share of the rest: what a part was worth
in our bench where noise did little harm (epsilon 10, 60,000 records), times what noise leaves.
"""

import math
from dataclasses import dataclass

from datalens.data import shard_size
from datalens.synthesizers.kept import Signal, clusters_kept, labels_kept, means_signal
from datalens.synthesizers.moments import MomentPlan
from datalens.synthesizers.plan import Plan, VotingPlan
from datalens.synthesizers.quorum import Directions, agreement, directions, tally_signal
from datalens.synthesizers.warm_start import WarmStartPlan

MEANS_WORTH, REFINED_WORTH, VOTES_WORTH = 0.801, 0.099, 0.233
"""Of class-gaussian; of what datalens adds to it; of votes from nothing (the paper's loop).
Shares of the way from chance to 1, means of MNIST and Fashion-MNIST: docs/results/utility."""
CLUSTERS_PART = 0.5
"""What clusters alone bring of what they and a labeller bring: docs/results/ablation-50000."""


@dataclass(frozen=True, kw_only=True)
class Prediction:
    """Of one plan. Public: it follows from the plan."""

    accuracy: float
    """Of a judge, for images like MNIST and Fashion-MNIST. Meant for ranking."""
    chance: float
    signal: Signal
    """Of class sums, or of tallies where there is nothing else."""
    agreement: float | None
    """Of teachers, where they vote."""
    directions: Directions | None
    """Where votes have a quorum."""

    @property
    def share(self) -> float:
        """Of the way from chance to what images without noise would give."""
        most = (1 - self.chance) * (MEANS_WORTH + REFINED_WORTH)
        return (self.accuracy - self.chance) / most


def predict(plan: Plan) -> Prediction | None:
    """None for a plan that has neither moments nor votes."""
    chance = 1 / plan.public.n_classes
    agreed = passing = signal = None
    worth = 0.0
    if isinstance(plan, VotingPlan):
        public, values = plan.public, math.prod(plan.public.shape)
        shard = shard_size(public.n_records, plan.n_teachers)
        agreed = agreement(plan.settings.top_k or values, values, shard)
        if plan.topagg.quorum is not None:
            passing = directions(plan.topagg, n_values=values, agreed=agreed)
        signal = tally_signal(
            plan.topagg,
            n_values=values,
            n_classes=public.n_classes,
            agreed=agreed,
            releases=plan.steps * plan.batch_size,
        )
        worth = VOTES_WORTH * signal.kept
    if plan.start is not None:
        # That votes add to a warm start has not been shown, so none of it is predicted.
        signal, worth = _start(plan.start)
    if signal is None:
        return None
    return Prediction(
        accuracy=chance + (1 - chance) * worth,
        chance=chance,
        signal=signal,
        agreement=agreed,
        directions=passing,
    )


def _start(start: MomentPlan | WarmStartPlan) -> tuple[Signal, float]:
    if isinstance(start, MomentPlan):
        signal = means_signal(start)
        return signal, MEANS_WORTH * signal.kept
    signal = means_signal(start.moments)
    labels, clusters = labels_kept(start.labeller), clusters_kept(start.clusters)
    refined = 1 - (1 - labels) * (1 - CLUSTERS_PART * clusters)
    return signal, signal.kept * (MEANS_WORTH + REFINED_WORTH * refined)
