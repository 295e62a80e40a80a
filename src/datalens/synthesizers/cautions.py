"""What is to be said against a plan, from public facts alone."""

from dataclasses import dataclass

from datalens.data import PublicFacts, shard_size
from datalens.synthesizers.frozen import FrozenPlan
from datalens.synthesizers.plan import Plan, VotingPlan
from datalens.synthesizers.prediction import predict
from datalens.synthesizers.warm_start import WarmStartPlan

USELESS, POOR = 0.25, 0.5
"""Share of the way from chance to what images without noise would give."""
HEARD = 2.0
"""Standard deviations by which a unanimous vote should stand out."""
MANY = 0.01
"""Share of the teachers."""
MEASURED = (1, 28, 28)
"""Shape of the images that the predictor's numbers come from."""


@dataclass(frozen=True)
class Caution:
    """A warning: what is wrong, the same for every plan that has it, and the particulars."""

    what: str
    why: str

    def __str__(self) -> str:
        return f"{self.what}: {self.why}."


def cautions(plan: FrozenPlan) -> list[Caution]:
    """The gravest first; none where all is well."""
    found = []
    if isinstance(plan, Plan):
        found += _too_few(plan) + _plain(plan)
    if isinstance(plan, VotingPlan):
        found += _drowned(plan) + _one_class(plan)
    return found + _delta(plan)


def _too_few(plan: Plan) -> list[Caution]:
    expected = predict(plan)
    if expected is None or expected.share >= POOR:
        return []
    what = "no useful images" if expected.share < USELESS else "poor images"
    for_this = "" if plan.start else " for votes alone"
    return [
        Caution(
            f"{plan.public.n_records:,} records at epsilon {plan.settings.epsilon:g} are too few"
            f"{for_this}",
            f"expect {what} (a judge near {100 * expected.accuracy:.0f} %, where chance is"
            f" {100 * expected.chance:.0f} %)",
        )
    ]


def _plain(plan: Plan) -> list[Caution]:
    start = plan.start
    if not isinstance(start, WarmStartPlan) or start.clusters or start.labeller:
        return []
    return [
        Caution(
            f"{plan.public.n_records:,} records at epsilon {plan.settings.epsilon:g} bear neither"
            " clusters nor a labeller",
            "images vary around one mean a class, as those of class-gaussian",
        )
    ]


def _drowned(plan: VotingPlan) -> list[Caution]:
    stands_out = plan.n_teachers / plan.topagg.sigma
    if stands_out >= HEARD:
        return []
    return [
        Caution(
            "Noise drowns a unanimous vote",
            f"{plan.n_teachers:,} teachers who all agree stand only {stands_out:.2g} standard"
            f" deviations out (sigma {plan.topagg.sigma:g})",
        )
    ]


def _one_class(plan: VotingPlan) -> list[Caution]:
    """If classes are equally frequent."""
    size = shard_size(plan.public.n_records, plan.n_teachers)
    alike = plan.public.n_classes ** (1.0 - size)
    if alike <= MANY:
        return []
    return [
        Caution(
            "Shards are small",
            f"with {size} records each, {100 * alike:.0f} % of the teachers see one class only;"
            " use fewer teachers",
        )
    ]


def _delta(plan: FrozenPlan) -> list[Caution]:
    delta = plan.settings.delta
    if delta is None or delta < 1 / plan.public.n_records:  # None: nobody is protected
        return []
    return [
        Caution(f"delta {delta:g} is not below 1/n", "such a delta allows publishing whole records")
    ]


def unlike(public: PublicFacts) -> list[Caution]:
    """Where percentages are predicted for images that none were measured on."""
    if public.shape == MEASURED:
        return []
    return [
        Caution(
            "The percentages only rank settings",
            "they were measured on grey images of 28 x 28 (MNIST, Fashion-MNIST), and say little"
            f" of how far {'x'.join(map(str, public.shape))} images get",
        )
    ]
