"""Attack the release path: the worst pair of ballots, through TopAgg, noise, ledger and store.

One teacher's record is the question. The other teachers' ballots are known to the adversary, who
also chooses the gradients of both worlds, as badly as can be. A trial is a run of one step.
"""

from itertools import combinations
from typing import NamedTuple

import numpy as np
import torch

from datalens.mechanism.ballots import BallotRule
from datalens.mechanism.noise import ExactNoise, Integers
from datalens.mechanism.topagg import TopAgg
from datalens.privacy.accountants import Charge
from datalens.privacy.audit import Transcript, share_moved
from datalens.privacy.ledger import Ledger
from datalens.privacy.releases import Releases
from datalens.workflows.audit.trials import World, scratch

TOP_K, VALUES, IMAGES, TEACHERS = 2, 8, 4, 3
SIGMA = (IMAGES * 4 * TOP_K) ** 0.5
"""A whole run, all images together, is then a Gaussian mechanism of mu = 1."""


class Worlds(NamedTuple):
    blanked: Integers
    present: Integers


def mechanism() -> TopAgg:
    rule = BallotRule(top_k=TOP_K, clip=1.0)
    return TopAgg(ballot=rule, n_teachers=TEACHERS, sigma=SIGMA, quorum=None)


def gradients() -> dict[str, torch.Tensor]:
    """What a teacher may be made to say of an image, by a record that somebody has made up."""
    nan, inf, rise = float("nan"), float("inf"), torch.arange(1.0, VALUES + 1)
    return {
        "up": torch.ones(VALUES),
        "down": -torch.ones(VALUES),
        "rising": rise,
        "falling": -rise.flip(0),
        "nothing": torch.zeros(VALUES),
        "not a number": torch.full((VALUES,), nan),
        "one not a number": torch.where(rise == 1, nan, rise),
        "infinite": torch.full((VALUES,), inf),
        "minus infinite": torch.full((VALUES,), -inf),
    }


def tally(topagg: TopAgg, gradient: torch.Tensor) -> Integers:
    """The tally when one teacher has this gradient on every image, and all others rise.

    The dice are the same in every world: they belong to the teacher, not to the record, and no
    guarantee rests on them.
    """
    dice = torch.rand(TEACHERS, IMAGES, topagg.ballot.dice, generator=torch.Generator())
    each = [gradient, *[gradients()["rising"]] * (TEACHERS - 1)]
    counted = topagg.empty_tally(IMAGES, VALUES)
    topagg.count(torch.stack(each)[:, None].expand(-1, IMAGES, -1), dice, into=counted)
    return counted.numpy()


def worst_pair(topagg: TopAgg) -> Worlds:
    """The two tallies that are furthest apart."""
    found = [tally(topagg, gradient) for gradient in gradients().values()]
    apart = lambda pair: float(((pair[0] - pair[1]).astype(np.float64) ** 2).sum())
    return Worlds(*max(combinations(found, 2), key=apart))


def attack(world: World, trials: int) -> Transcript:
    """Runs in one world; a run's score is its release along the difference of the worlds."""
    topagg = mechanism()
    worlds = worst_pair(topagg)
    difference = worlds.present - worlds.blanked
    scores = np.empty(trials)
    with scratch() as folder:
        ledger = Ledger(folder / "audit.sqlite")
        for trial in range(trials):
            run = f"run-{trial}"
            ledger.reserve(run, [Charge(event=topagg.event, count=IMAGES)], facts={})
            desk = Releases(ledger=ledger, run=run, noise=ExactNoise(), folder=folder / run)
            scores[trial] = (_released(desk, topagg, getattr(worlds, world)) * difference).sum()
        charges = ledger.charges(run)
    total = Charge(event=topagg.event, count=sum(charge.count for charge in charges))
    nothing = np.empty(0)
    return Transcript(
        blanked=scores if world == "blanked" else nothing,
        present=scores if world == "present" else nothing,
        charges=tuple(charges),
        moved=share_moved(worlds.present, worlds.blanked, total),
    )


def _released(desk: Releases, topagg: TopAgg, value: Integers) -> np.ndarray:
    """What the run publishes, and publishes again when it is resumed: an adversary takes the
    mean of both, which is no better where nothing is drawn twice."""
    asked = [desk.obtain("votes/0", topagg, lambda: value) for _ in range(2)]
    return np.mean([release for release in asked if release is not None], axis=0)
