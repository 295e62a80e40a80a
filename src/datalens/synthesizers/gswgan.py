"""gswgan: a generator that follows the noisy gradients of critics, one drawn for each image."""

from dataclasses import dataclass, replace
from typing import Any, ClassVar

import torch
from pydantic import Field
from torch import Tensor

from datalens.data import PublicFacts, Records
from datalens.ensemble.streams import derive
from datalens.errors import DataLensError
from datalens.mechanism.drawn import DrawnCritic
from datalens.mechanism.noise import NoiseKind
from datalens.privacy.accountants import Charge
from datalens.privacy.calibration import budget_rho, noise_multiplier_for
from datalens.synthesizers.checkpoint import Checkpoints
from datalens.synthesizers.gan import GanSynthesizer, weights_of
from datalens.synthesizers.moments import class_counts
from datalens.synthesizers.plan import Plan, class_prior
from datalens.synthesizers.session import Member, Session, Stopped
from datalens.synthesizers.settings import MOST_UPDATES, Settings, within_limits
from datalens.synthesizers.stepping import take_steps
from datalens.synthesizers.wasserstein import CriticSettings, Follower, critics_for, hire

MOST_REFRESHES = 2_000
"""Each has its row in the ledger, and its generator on disk until the run ends."""


class GsWganSettings(CriticSettings):
    """The generator follows one critic an image, drawn in secret."""

    steps: int = Field(default=6_000, gt=0, le=MOST_UPDATES)
    """Of the generator."""
    noise_multiplier: float | None = Field(default=None, ge=1e-6)
    """Noise, in units of how far a record can move a gradient. None: the least that the budget
    allows."""
    clip: float = Field(default=1.0, gt=0)
    """Largest norm of the gradient on an image."""


@dataclass(frozen=True, kw_only=True)
class GsWganPlan(Plan):
    """Steps on gradients of critics that are drawn in secret."""

    method: ClassVar[str] = "gswgan"
    noise: ClassVar[NoiseKind] = "float-secure"
    settings: GsWganSettings
    drawn: DrawnCritic

    @classmethod
    def resolve(cls, settings: GsWganSettings, public: PublicFacts) -> "GsWganPlan":
        n_teachers = critics_for(settings, public)
        if settings.steps > MOST_REFRESHES * settings.refresh_every:
            raise DataLensError(
                f"{settings.steps} steps with a refresh every {settings.refresh_every} would keep"
                f" more than {MOST_REFRESHES} generators; raise refresh_every."
            )
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
            settings=within_limits(settings, decided),
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

    @property
    def n_teachers(self) -> int:
        return self.drawn.n_teachers

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
        self._publish(gan.student.generator, gan.student.average)  # which steps go on to change
        take_steps(
            session,
            gan.student.trainee,
            gan.step,
            event=plan.drawn.event,
            steps=plan.settings.steps,
            block=plan.settings.refresh_every,
            spent=plan.spent_after,
            releases=plan.settings.batch_size,
            before=gan.refresh,
        )
        gan.checkpoints.clear()


class Gan:
    """Generator and critics in training."""

    def __init__(self, plan: GsWganPlan, records: Records, session: Session, prior: Tensor) -> None:
        self._plan, self._session = plan, session
        self._noise = session.float_noise
        steps = plan.settings.steps
        self.student = Follower(plan, steps=steps, secret=session.secret, prior=prior)
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
        if first // self._plan.settings.refresh_every >= self._known:
            self._owed.append(weights_of(self.student.generator))
        while self._owed and not paid:
            for update in self.student.updates(self._known):
                self.student.teach(self.critics, update, self._owed[0])
                total = self.student.updates_of_all()
                self._session.observer.progress("critics", update + 1, total)
                if self._session.stopping():
                    raise Stopped
            self.checkpoints.after(self._known, stopping=False)
            self._known += 1
            self._owed.pop(0)

    def step(self, number: int) -> None:
        """Critics, drawn in secret, say how images should change; the generator follows."""
        drawn = self._plan.drawn
        images, labels = self.student.propose(number)
        # 63 bits of a hash of the secret: as good as uniform over so few critics.
        draws = (derive(self._session.secret, "drawn", number, at) for at in range(len(labels)))
        who = [draw % drawn.n_teachers for draw in draws]
        gradients = self.critics.ask(who, images.detach(), labels)
        release = drawn.release(
            gradients.double().numpy(), noise=self._noise, key=f"drawn-critic/{number}"
        )
        self.student.follow(images, torch.from_numpy(release), number)


class Nothing:
    """What a checkpoint of critics has for a student: its states are stored with the steps."""

    def state(self) -> dict[str, Tensor]:
        return {}

    def load_state(self, state: dict[str, Tensor]) -> None:
        return None
