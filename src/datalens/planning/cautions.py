"""What a plan should be warned of, from public facts alone."""

from datalens.data import shard_size
from datalens.planning.prediction import predict
from datalens.synthesizers.frozen import FrozenPlan
from datalens.synthesizers.plan import Plan, VotingPlan
from datalens.synthesizers.warm_start import WarmStartPlan

USELESS, POOR = 0.25, 0.5
"""Share of the way from chance to what images without noise would give."""
HEARD = 2.0
"""Standard deviations by which a unanimous vote should stand out."""
MANY = 0.01
"""Share of the teachers."""


def cautions(plan: FrozenPlan) -> list[str]:
    """Sentences, the gravest first; none where all is well."""
    found = []
    if isinstance(plan, Plan):
        found += _too_few(plan) + _plain(plan)
    if isinstance(plan, VotingPlan):
        found += _drowned(plan) + _one_class(plan)
    return found + _delta(plan)


def _too_few(plan: Plan) -> list[str]:
    expected = predict(plan)
    if expected is None or expected.share >= POOR:
        return []
    what = "no useful images" if expected.share < USELESS else "poor images"
    for_this = "" if plan.start else " for votes alone"
    return [
        f"{plan.public.n_records:,} records at epsilon {plan.settings.epsilon:g} are too few"
        f"{for_this}: expect {what} (a judge near {100 * expected.accuracy:.0f} %, where chance is"
        f" {100 * expected.chance:.0f} %)."
    ]


def _plain(plan: Plan) -> list[str]:
    start = plan.start
    if not isinstance(start, WarmStartPlan) or start.clusters or start.labeller:
        return []
    return [
        f"{plan.public.n_records:,} records at epsilon {plan.settings.epsilon:g} bear neither"
        " clusters nor a labeller: images vary around one mean a class, as those of class-gaussian."
    ]


def _drowned(plan: VotingPlan) -> list[str]:
    stands_out = plan.n_teachers / plan.topagg.sigma
    if stands_out >= HEARD:
        return []
    return [
        f"Noise drowns a unanimous vote: {plan.n_teachers:,} teachers who all agree stand only"
        f" {stands_out:.2g} standard deviations out (sigma {plan.topagg.sigma:g})."
    ]


def _one_class(plan: VotingPlan) -> list[str]:
    """If classes are equally frequent."""
    size = shard_size(plan.public.n_records, plan.n_teachers)
    alike = plan.public.n_classes ** (1.0 - size)
    if alike <= MANY:
        return []
    return [
        f"Shards of {size} records: {100 * alike:.0f} % of the teachers see one class only; use"
        " fewer teachers."
    ]


def _delta(plan: FrozenPlan) -> list[str]:
    delta = plan.settings.delta
    if delta is None or delta < 1 / plan.public.n_records:  # None: nobody is protected
        return []
    return [f"delta {delta:g} is not below 1/n; such a delta allows publishing whole records."]
