"""gswgan: a generator that follows the noisy gradients of critics, one drawn for each image.

Critics train on shards of their own, in public intervals, against the generator as it then is.
"""

from dataclasses import dataclass, replace
from typing import Any, ClassVar

import torch
from pydantic import Field
from torch import Tensor

from datalens.data import PublicFacts, Records, deal
from datalens.data.shards import shard_size
from datalens.ensemble.critics import Critics
from datalens.ensemble.streams import derive, stream
from datalens.errors import DataLensError
from datalens.mechanism.drawn import DrawnCritic
from datalens.mechanism.noise import NoiseKind
from datalens.privacy.accountants import Charge
from datalens.privacy.calibration import budget_rho, noise_multiplier_for
from datalens.synthesizers.checkpoint import Checkpoints
from datalens.synthesizers.gan import (
    GanSynthesizer,
    average_into,
    made,
    new_generator,
    weights_of,
)
from datalens.synthesizers.moments import class_counts
from datalens.synthesizers.plan import Plan, class_prior
from datalens.synthesizers.session import Member, Session, Stopped
from datalens.synthesizers.settings import MOST_IMAGES, MOST_UPDATES, Settings
from datalens.synthesizers.stepping import Trainee, take_steps

SHARD = 60
"""Records of a critic, if their number is not given; there are at most MOST_TEACHERS."""
MOST_TEACHERS = 1000
BETAS = (0.5, 0.99)


class GsWganSettings(Settings):
    """Critics on shards, and the generator that one of them at a time is asked about."""

    n_teachers: int | None = Field(default=None, gt=0)
    """Critics. None: one for 60 records, and at most 1,000."""
    steps: int = Field(default=6_000, gt=0, le=MOST_UPDATES)
    """Of the generator."""
    batch_size: int = Field(default=16, gt=0, le=MOST_IMAGES)
    """Images in a step: each is a release."""
    noise_multiplier: float | None = Field(default=None, ge=1e-6)
    """Noise, in units of how far a record can move a gradient. None: the least that the budget
    allows."""
    clip: float = Field(default=1.0, gt=0)
    """Largest norm of the gradient on an image."""
    warm_up: int = Field(default=40, ge=0, le=MOST_UPDATES)
    """Updates of all critics before the first step, against the generator as it starts."""
    refresh_every: int = Field(default=50, gt=0, le=MOST_UPDATES)
    """Steps between two times when all critics are updated."""
    refresh_updates: int = Field(default=2, ge=0, le=MOST_UPDATES)
    """Updates of all critics each such time, against the generator as it is then."""
    real_batch: int = Field(default=20, gt=0, le=MOST_IMAGES)
    """Records of its shard, if it has so many, that a critic sees in an update."""
    synthetic_batch: int = Field(default=32, gt=0, le=MOST_IMAGES)
    """Synthetic images in an update, the same for all critics."""
    width: int = Field(default=64, gt=0, le=1024)
    """Of a critic's layer."""
    critic_learning_rate: float = Field(default=2e-3, gt=0, le=1)
    generator_learning_rate: float = Field(default=1e-3, gt=0, le=1)
    """Of the first step; it falls to nothing at the last."""
    latent: int = Field(default=32, gt=0, le=4096)
    moving_average: float = Field(default=0.998, ge=0, lt=1)
    """How much of the averaged generator, which is published, stays at each step."""


@dataclass(frozen=True, kw_only=True)
class GsWganPlan(Plan):
    """Steps on gradients of critics that are drawn in secret."""

    method: ClassVar[str] = "gswgan"
    noise: ClassVar[NoiseKind] = "float-secure"
    settings: GsWganSettings
    drawn: DrawnCritic

    @classmethod
    def resolve(cls, settings: GsWganSettings, public: PublicFacts) -> "GsWganPlan":
        usual = min(max(public.n_records // SHARD, 1), MOST_TEACHERS)
        n_teachers = settings.n_teachers or usual
        shard_size(public.n_records, n_teachers)  # refuses what cannot be dealt
        rho = budget_rho(settings.epsilon, settings.delta, settings.accountant)
        counts = class_prior(settings, public, rho)
        given = settings.noise_multiplier
        drawn = DrawnCritic(
            n_teachers=n_teachers, clip=settings.clip, noise_multiplier=given or 1.0
        )
        if given is None:
            least = noise_multiplier_for(
                settings.epsilon,
                settings.delta,
                sampling_probability=drawn.event.sampling_probability,
                steps=settings.steps * settings.batch_size,
                accountant=settings.accountant,
                beside=[Charge(event=counts.event, count=1)] if counts else [],
            )
            drawn = replace(drawn, noise_multiplier=least)
        decided = {"n_teachers": n_teachers, "noise_multiplier": drawn.noise_multiplier}
        plan = cls(
            settings=settings.model_copy(update=decided),
            public=public,
            counts=counts,
            start=None,
            drawn=drawn,
        )
        if plan.spent() > settings.epsilon:
            raise DataLensError(
                f"noise_multiplier {drawn.noise_multiplier:g} is too little for {settings.steps}"
                f" steps within epsilon {settings.epsilon:g}; leave it out, or lower steps."
            )
        return plan

    def charges_after(self, steps: int) -> list[Charge]:
        images = steps * self.settings.batch_size
        return [*self.first_charges, Charge(event=self.drawn.event, count=images)]

    @property
    def parameters(self) -> dict[str, dict[str, Any]]:
        return super().parameters | {"drawn-critic": {}}

    @property
    def facts(self) -> dict[str, Any]:
        return super().facts | {"steps": self.settings.steps, "teachers": self.drawn.n_teachers}


class GsWgan(GanSynthesizer):
    """A generator that follows noisy gradients of critics.

    Guarantee: a record reaches one critic (data/shards.py). What a critic knows is a function of
    its shard, of its own stream and of past generators, and never of having been drawn
    (ensemble/critics.py). For each image a critic is drawn, uniformly and in secret, and what
    leaves is its bounded gradient under noise (mechanism/drawn.py); the generator follows those
    and nothing else of the records.
    """

    method: ClassVar[str] = "gswgan"
    settings_type: ClassVar[type[Settings]] = GsWganSettings
    about: ClassVar[str] = "a generator that follows noisy gradients of critics on shards"
    source: ClassVar[str] = "Chen, Orekondy and Fritz, NeurIPS 2020"
    accounting: ClassVar[str] = "Renyi, subsampled Gaussian, floating-point noise"
    many_ranks: ClassVar[bool] = False
    settings: GsWganSettings

    def resolve(self, public: PublicFacts) -> GsWganPlan:
        return GsWganPlan.resolve(self.settings, public)

    def _train(self, records: Records, plan: GsWganPlan, session: Member) -> None:  # type: ignore[override]
        if not isinstance(session, Session):
            raise TypeError("gswgan runs on one rank")
        counts = class_counts(records, session.releases, plan.counts)
        self._prior = counts / counts.sum()
        gan = Gan(plan, records, session, torch.from_numpy(self._prior))
        take_steps(
            session,
            gan.trainee,
            gan.step,
            event=plan.drawn.event,
            steps=plan.settings.steps,
            block=plan.settings.refresh_every,
            spent=plan.spent_after,
            releases=plan.settings.batch_size,
            before=gan.refresh,
        )
        gan.checkpoints.clear()
        self._publish(gan.generator, gan.average)


class Gan:
    """Generator and critics in training."""

    def __init__(self, plan: GsWganPlan, records: Records, session: Session, prior: Tensor) -> None:
        self._plan, self._session, self._prior = plan, session, prior
        self._noise = session.float_noise
        self.generator = new_generator(plan.public, plan.settings.latent, session.secret)
        self.average = weights_of(self.generator)
        self._optimiser = torch.optim.Adam(
            self.generator.parameters(), lr=plan.settings.generator_learning_rate, betas=BETAS
        )
        self.trainee = Trainee(
            modules={"generator": self.generator},
            optimisers={"of-generator": self._optimiser},
            averages={"average": self.average},
        )
        self.critics = hire(records, plan, session.secret)
        self.checkpoints = Checkpoints(session.checkpoint, student=Nothing(), teachers=self.critics)
        self._known = self.checkpoints.resume()
        """Refreshes that the critics have behind them."""
        self._owed: list[dict[str, Tensor]] = []
        """Generators that the critics have not learnt to tell from records yet."""

    def refresh(self, first: int, paid: bool) -> None:
        """All critics learn to tell the generator before a block from their records.

        Not before that is needed: blocks that are paid for ask no critic any more.
        """
        every = self._plan.settings.refresh_every
        last = (self._plan.settings.steps - 1) // every
        if first // every >= self._known:
            self._owed.append(weights_of(self.generator))
        while self._owed and not paid:
            for update in self._updates(self._known):
                self._update(self._owed[0], update)
                self._session.observer.progress("critics", update + 1, self._updates(last).stop)
                if self._session.stopping():
                    raise Stopped
            self.checkpoints.after(self._known, stopping=False)
            self._known += 1
            self._owed.pop(0)

    def step(self, number: int) -> None:
        """Critics, drawn in secret, say how images should change; the generator follows."""
        chosen, drawn = self._plan.settings, self._plan.drawn
        labels, latents = self._inputs(chosen.batch_size, "step", number)
        images = self.generator(latents, labels)
        # 63 bits of a hash of the secret: as good as uniform over so few critics.
        draws = (derive(self._session.secret, "drawn", number, at) for at in range(len(labels)))
        who = [draw % drawn.n_teachers for draw in draws]
        gradients = self.critics.ask(who, images.detach(), labels)
        release = drawn.release(
            gradients.double().numpy(), noise=self._noise, key=f"drawn-critic/{number}"
        )
        for group in self._optimiser.param_groups:  # ever slower: late noise is not forgotten
            group["lr"] = chosen.generator_learning_rate * (1 - number / chosen.steps)
        self._optimiser.zero_grad()
        images.backward(torch.from_numpy(-release / len(labels)).to(images).view_as(images))
        self._optimiser.step()
        average_into(self.average, self.generator, chosen.moving_average)

    def _updates(self, refresh: int) -> range:
        """The numbers that the updates of a refresh have; the first is the warm-up."""
        chosen = self._plan.settings
        end = chosen.warm_up + refresh * chosen.refresh_updates
        return range(end - (chosen.refresh_updates if refresh else chosen.warm_up), end)

    def _update(self, weights: dict[str, Tensor], update: int) -> None:
        labels, latents = self._inputs(self._plan.settings.synthetic_batch, "update", update)
        self.critics.train(made(self.generator, weights, latents, labels), labels, update=update)

    def _inputs(self, count: int, purpose: str, number: int) -> tuple[Tensor, Tensor]:
        """Labels and latent vectors for so many images."""
        chance = stream(self._session.secret, purpose, number)
        labels = torch.multinomial(self._prior, count, replacement=True, generator=chance)
        return labels, torch.randn(count, self._plan.settings.latent, generator=chance)


class Nothing:
    """What a checkpoint of critics has for a student: its states are stored with the steps."""

    def state(self) -> dict[str, Tensor]:
        return {}

    def load_state(self, state: dict[str, Tensor]) -> None:
        return None


def hire(records: Records, plan: GsWganPlan, secret: bytes) -> Critics:
    """The critics, each with its shard: a record reaches one, or nobody if it is left over."""
    chosen, public = plan.settings, plan.public
    shards = deal(public.n_records, plan.drawn.n_teachers, seed=secret + b"shards")
    rows = records.rows(shards.positions)
    return Critics(
        images=torch.from_numpy(records.images[rows]),
        labels=torch.from_numpy(records.labels[rows]),
        n_classes=public.n_classes,
        width=chosen.width,
        learning_rate=chosen.critic_learning_rate,
        real_batch=min(chosen.real_batch, shards.shard_size),
        secret=secret,
    )
