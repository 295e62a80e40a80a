"""dcgan: the same networks on the bare records. NOT PRIVATE: it shows what privacy costs."""

from dataclasses import dataclass
from typing import ClassVar

import torch
import torch.nn.functional as F
from pydantic import Field
from torch import Tensor

from datalens.data import PublicFacts, Records
from datalens.ensemble.streams import stream
from datalens.mechanism.noise import NoiseKind
from datalens.synthesizers.gan import (
    GanSynthesizer,
    average_into,
    clear,
    new_critic,
    new_generator,
    weights_of,
)
from datalens.synthesizers.plan import Plan
from datalens.synthesizers.session import Member
from datalens.synthesizers.settings import MOST_IMAGES, MOST_UPDATES, Settings, Unprotected
from datalens.synthesizers.stepping import Trainee, take_free_steps

BLOCK = 500
"""Steps after which it can be resumed."""


class DcGanSettings(Unprotected):
    """A GAN with the usual loss."""

    steps: int = Field(default=6_000, gt=0, le=MOST_UPDATES)
    """Each of the critic and of the generator."""
    batch_size: int = Field(default=64, gt=0, le=MOST_IMAGES)
    critic_learning_rate: float = Field(default=4e-4, gt=0, le=1)
    generator_learning_rate: float = Field(default=4e-4, gt=0, le=1)
    width: int = Field(default=16, gt=0, le=256)
    """Of the critic."""
    penalty: float = Field(default=1.0, ge=0, le=1e6)
    """On the critic's squared slope at the records, without which it comes to overpower."""
    latent: int = Field(default=64, gt=0, le=4096)
    moving_average: float = Field(default=0.999, ge=0, lt=1)
    """How much of the averaged generator, which is published, stays at each step."""


@dataclass(frozen=True, kw_only=True)
class DcGanPlan(Plan):
    """Nothing is bought."""

    method: ClassVar[str] = "dcgan"
    noise: ClassVar[NoiseKind] = "none"
    settings: DcGanSettings

    @property
    def facts(self) -> dict[str, object]:
        return super().facts | {"steps": self.settings.steps}


class DcGan(GanSynthesizer):
    """A generator against a critic that sees the records as they are.

    Guarantee: none. It is here as a ceiling: what these networks reach where nobody is protected.
    """

    method: ClassVar[str] = "dcgan"
    settings_type: ClassVar[type[Settings]] = DcGanSettings
    about: ClassVar[str] = "NOT PRIVATE: a GAN on the bare records, as a ceiling"
    source: ClassVar[str] = "Radford et al. 2016; classes as in Mirza and Osindero 2014"
    accounting: ClassVar[str] = "none: nothing is protected"
    private: ClassVar[bool] = False
    many_ranks: ClassVar[bool] = False
    settings: DcGanSettings

    def resolve(self, public: PublicFacts) -> DcGanPlan:
        return DcGanPlan(settings=self.settings, public=public, counts=None, start=None)

    def _train(self, records: Records, plan: DcGanPlan, session: Member) -> None:  # type: ignore[override]
        gan = BareGan(plan, records, session.secret)
        self._publish(gan.generator, gan.average)  # which training goes on to change
        take_free_steps(session, gan.trainee, gan.step, steps=plan.settings.steps, block=BLOCK)


class BareGan:
    """Generator and critic in training."""

    def __init__(self, plan: DcGanPlan, records: Records, secret: bytes) -> None:
        chosen = plan.settings
        self._chosen, self._records, self._secret = chosen, records, secret
        self.generator = new_generator(plan.public, chosen.latent, secret)
        self.average = weights_of(self.generator)
        self._critic = new_critic(plan.public, chosen.width, secret)
        rates = chosen.generator_learning_rate, chosen.critic_learning_rate
        self._optimisers = [
            torch.optim.Adam(network.parameters(), lr=rate, betas=(0.5, 0.99))
            for network, rate in zip((self.generator, self._critic), rates, strict=True)
        ]
        self.trainee = Trainee(
            modules={"generator": self.generator, "critic": self._critic},
            optimisers=dict(zip(("of-generator", "of-critic"), self._optimisers, strict=True)),
            averages={"average": self.average},
        )

    def step(self, number: int) -> None:
        """The critic's, then the generator's, by the loss that does not saturate."""
        generate, criticise = self._optimisers
        real, labels = self._batch(number)
        made = self.generator(self._latents(number), labels)
        seen, unseen = self._critic(real, labels), self._critic(made.detach(), labels)
        loss = F.softplus(-seen).mean() + F.softplus(unseen).mean()
        (slope,) = torch.autograd.grad(seen.sum(), real, create_graph=True)
        (loss + self._chosen.penalty / 2 * slope.square().flatten(1).sum(1).mean()).backward()
        criticise.step()
        clear(self._critic.parameters())
        F.softplus(-self._critic(made, labels)).mean().backward()
        generate.step()
        clear([*self.generator.parameters(), *self._critic.parameters()])
        average_into(self.average, self.generator, self._chosen.moving_average)

    def _batch(self, number: int) -> tuple[Tensor, Tensor]:
        chance = stream(self._secret, "batch", number)
        rows = torch.randint(
            len(self._records.labels), (self._chosen.batch_size,), generator=chance
        ).numpy()
        images = torch.from_numpy(self._records.images[rows]).float() / 255
        return images.requires_grad_(), torch.from_numpy(self._records.labels[rows])

    def _latents(self, number: int) -> Tensor:
        chance = stream(self._secret, "latents", number)
        return torch.randn(self._chosen.batch_size, self._chosen.latent, generator=chance)
