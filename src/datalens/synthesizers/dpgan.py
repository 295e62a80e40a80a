"""dpgan: a Wasserstein GAN whose critic is trained by DP-SGD.

Only the critic sees records, through clipped and noised gradients; the generator learns from the
critic, which is public. Classes as in DP-CGAN: the critic judges an image as one of its class.
"""

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import torch
from numpy.typing import NDArray
from pydantic import Field
from torch import Tensor

from datalens.data import PublicFacts, Records
from datalens.ensemble.streams import stream
from datalens.mechanism.events import SampledGaussianRelease
from datalens.mechanism.noise import NoiseKind
from datalens.privacy.accountants import Charge
from datalens.privacy.calibration import budget_rho
from datalens.synthesizers.gan import (
    GanSynthesizer,
    average_into,
    clear,
    new_critic,
    new_generator,
    weights_of,
)
from datalens.synthesizers.moments import class_counts
from datalens.synthesizers.plan import Plan, class_prior
from datalens.synthesizers.sampled import sampled_step
from datalens.synthesizers.session import Member, Session
from datalens.synthesizers.settings import MOST_IMAGES, MOST_UPDATES, Settings, within_limits
from datalens.synthesizers.stepping import Trainee, take_steps

BLOCK = 100
"""Steps that are paid, and stored, together."""
PARTNERS = 2048
"""Latent vectors in a step, of which each record has one by its position."""


class DpGanSettings(Settings):
    """DP-SGD on the critic, and the GAN around it."""

    batch_size: int = Field(default=256, gt=0, le=MOST_IMAGES)
    """Records that take part in a step of the critic, on average."""
    steps: int = Field(default=1500, gt=0, le=MOST_UPDATES)
    """Of the critic: each is a release."""
    noise_multiplier: float | None = Field(default=None, ge=1e-6)
    """Noise, in norms of a clipped gradient. None: the least that the budget allows."""
    max_grad_norm: float = Field(default=1.0, gt=0)
    critic_steps: int = Field(default=5, gt=0, le=MOST_UPDATES)
    """For each step of the generator."""
    weight_clip: float = Field(default=0.1, gt=0)
    """Where the critic's weights are cut, which keeps its slope bounded."""
    critic_learning_rate: float = Field(default=1e-3, gt=0, le=1)
    generator_learning_rate: float = Field(default=1e-3, gt=0, le=1)
    generator_batch: int = Field(default=64, gt=0, le=MOST_IMAGES)
    width: int = Field(default=8, gt=0, le=256)
    """Of the critic."""
    latent: int = Field(default=64, gt=0, le=4096)
    moving_average: float = Field(default=0.99, ge=0, lt=1)
    """How much of the averaged generator, which is published, stays at each of its steps."""


@dataclass(frozen=True, kw_only=True)
class DpGanPlan(Plan):
    """Steps on random parts of the records, and the histogram where it is bought."""

    method: ClassVar[str] = "dpgan"
    noise: ClassVar[NoiseKind] = "float-secure"
    settings: DpGanSettings
    event: SampledGaussianRelease

    @classmethod
    def resolve(cls, settings: DpGanSettings, public: PublicFacts) -> "DpGanPlan":
        rho = budget_rho(settings.epsilon, settings.delta, settings.accountant)
        counts = class_prior(settings, public, rho)
        event = sampled_step(
            "dp-sgd",
            settings,
            public,
            batch_size=settings.batch_size,
            steps=settings.steps,
            noise_multiplier=settings.noise_multiplier,
            beside=[Charge(event=counts.event, count=1)] if counts else [],
        )
        return cls(
            settings=within_limits(settings, {"noise_multiplier": event.noise_multiplier}),
            public=public,
            counts=counts,
            start=None,
            event=event,
        )

    def charges_after(self, steps: int) -> list[Charge]:
        return [*self.first_charges, Charge(event=self.event, count=steps)]

    @property
    def parameters(self) -> dict[str, dict[str, Any]]:
        return super().parameters | {"dp-sgd": {}}

    @property
    def facts(self) -> dict[str, Any]:
        return super().facts | {"steps": self.settings.steps}


class DpGan(GanSynthesizer):
    """A generator against a critic that DP-SGD has trained.

    Guarantee: records are touched by the critic's steps alone. In each of them a record takes part
    with the stated probability, and its gradient, which it shares with one synthetic image, has
    norm at most `max_grad_norm` before noise is added (classifiers/dpsgd.py). Which synthetic image
    that is follows from the record itself, so that a record that is blanked changes no other's
    gradient. Everything else follows from the critic.
    """

    method: ClassVar[str] = "dpgan"
    settings_type: ClassVar[type[Settings]] = DpGanSettings
    about: ClassVar[str] = "a Wasserstein GAN whose critic is trained by DP-SGD"
    source: ClassVar[str] = "Xie et al. 2018; classes as in Torkzadehmahani et al. 2019"
    accounting: ClassVar[str] = "Renyi, subsampled Gaussian, floating-point noise"
    many_ranks: ClassVar[bool] = False
    settings: DpGanSettings

    def resolve(self, public: PublicFacts) -> DpGanPlan:
        return DpGanPlan.resolve(self.settings, public)

    def _train(self, records: Records, plan: DpGanPlan, session: Member) -> None:  # type: ignore[override]
        if not isinstance(session, Session):
            raise TypeError("dpgan runs on one rank")
        counts = class_counts(records, session.releases, plan.counts)
        self._prior = counts / counts.sum()
        gan = PrivateGan(plan, records, session, torch.from_numpy(self._prior))
        self._publish(gan.generator, gan.average)  # which training goes on to change
        take_steps(
            session,
            gan.trainee,
            gan.step,
            event=plan.event,
            steps=plan.settings.steps,
            block=BLOCK,
            spent=plan.spent_after,
        )


class PrivateGan:
    """Generator and critic in training."""

    def __init__(self, plan: DpGanPlan, records: Records, session: Session, prior: Tensor) -> None:
        from datalens.classifiers.dpsgd import PrivateOptimizer, with_example_gradients

        chosen = plan.settings
        self._plan, self._records, self._secret = plan, records, session.secret
        self._prior = prior
        self.generator = new_generator(plan.public, chosen.latent, session.secret)
        self.average = weights_of(self.generator)
        self._critic = new_critic(plan.public, chosen.width, session.secret)
        self._watched = with_example_gradients(self._critic)
        inner = torch.optim.RMSprop(self._critic.parameters(), lr=chosen.critic_learning_rate)
        self._private = PrivateOptimizer(
            inner,
            noise=session.float_noise,
            noise_multiplier=plan.event.noise_multiplier,
            max_grad_norm=chosen.max_grad_norm,
            expected_batch_size=chosen.batch_size,
        )
        self._public = torch.optim.RMSprop(
            self.generator.parameters(), lr=chosen.generator_learning_rate
        )
        self.trainee = Trainee(
            modules={"generator": self.generator, "critic": self._critic},
            optimisers={"of-generator": self._public, "of-critic": inner},
            averages={"average": self.average},
        )

    def step(self, number: int) -> None:
        """One noisy step of the critic; after every few, one of the generator, which is free."""
        from datalens.classifiers.dpsgd import poisson_sample

        chosen, public = self._plan.settings, self._plan.public
        q = self._plan.event.sampling_probability
        self._criticise(poisson_sample(public.n_records, q, self._secret, number), number)
        with torch.no_grad():
            for weight in self._critic.parameters():
                weight.clamp_(-chosen.weight_clip, chosen.weight_clip)
        if (number + 1) % chosen.critic_steps == 0:
            self._generate(number)

    def _criticise(self, drawn: NDArray[np.int64], number: int) -> None:
        """A record and a synthetic image of its class are one example: one up, the other down."""
        count = len(drawn)
        if count:
            rows = self._records.rows(drawn)
            real = torch.from_numpy(self._records.images[rows]).float() / 255
            labels = torch.from_numpy(self._records.labels[rows])
            with torch.no_grad():
                made = self.generator(self._partners(drawn, number), labels)
            self._watched.enable_hooks()
            realism = self._watched(torch.cat([real, made]), torch.cat([labels, labels]))
            (realism[count:].sum() - realism[:count].sum()).backward()
            for weight in self._critic.parameters():
                images = weight.grad_sample  # type: ignore[attr-defined]
                weight.grad_sample = images[:count] + images[count:]  # type: ignore[attr-defined]
        self._private.step_on(count, key=f"dp-sgd/{number}")

    def _generate(self, number: int) -> None:
        chosen = self._plan.settings
        chance = stream(self._secret, "labels", number)
        labels = torch.multinomial(
            self._prior, chosen.generator_batch, replacement=True, generator=chance
        )
        self._watched.disable_hooks()
        images = self.generator(self._latents(len(labels), number, "generate"), labels)
        self._public.zero_grad()
        (-self._critic(images, labels).mean()).backward()
        self._public.step()
        clear(self._critic.parameters())
        average_into(self.average, self.generator, chosen.moving_average)

    def _partners(self, drawn: NDArray[np.int64], number: int) -> Tensor:
        """Each record's own latent vector in this step, whoever else takes part."""
        pool = self._latents(PARTNERS, number, "against")
        return pool[torch.from_numpy(drawn % PARTNERS)]

    def _latents(self, count: int, number: int, purpose: str) -> Tensor:
        chance = stream(self._secret, "latents", purpose, number)
        return torch.randn(count, self._plan.settings.latent, generator=chance)
