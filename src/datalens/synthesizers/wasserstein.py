"""Critics on shards, and the generator that follows them: what gswgan and gpate share.

Critics train in public intervals, all at once, against the generator as it then is.
"""

from typing import Protocol

import torch
from pydantic import Field
from torch import Tensor

from datalens.data import PublicFacts, Records, deal
from datalens.data.shards import shard_size
from datalens.ensemble.critics import Critics
from datalens.ensemble.streams import stream
from datalens.synthesizers.gan import average_into, made, new_generator, weights_of
from datalens.synthesizers.settings import MOST_IMAGES, MOST_UPDATES, Settings
from datalens.synthesizers.stepping import Trainee

SHARD = 60
"""Records of a critic, if their number is not given; there are at most MOST_TEACHERS."""
MOST_TEACHERS = 1000
BETAS = (0.5, 0.99)


class CriticSettings(Settings):
    """Critics on shards, and a generator that takes small steps."""

    n_teachers: int | None = Field(default=None, gt=0)
    """Critics. None: one for 60 records, and at most 1,000."""
    batch_size: int = Field(default=16, gt=0, le=MOST_IMAGES)
    """Images in a step: each is paid for."""
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


class CriticPlan(Protocol):
    """What a plan says of its critics."""

    @property
    def settings(self) -> CriticSettings: ...

    @property
    def public(self) -> PublicFacts: ...

    @property
    def n_teachers(self) -> int: ...


def critics_for(settings: CriticSettings, public: PublicFacts) -> int:
    """How many critics there are, as given or as usual."""
    usual = min(max(public.n_records // SHARD, 1), MOST_TEACHERS)
    n_teachers = settings.n_teachers or usual
    shard_size(public.n_records, n_teachers)  # refuses what cannot be dealt
    return n_teachers


def hire(records: Records, plan: CriticPlan, secret: bytes) -> Critics:
    """The critics, each with its shard: a record reaches one, or nobody if it is left over."""
    chosen, public = plan.settings, plan.public
    shards = deal(public.n_records, plan.n_teachers, seed=secret + b"shards")
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


class Follower:
    """A generator that takes a small step whenever it is told how its images should change."""

    def __init__(self, plan: CriticPlan, *, steps: int, secret: bytes, prior: Tensor) -> None:
        self._chosen = plan.settings
        self._steps, self._secret, self._prior = steps, secret, prior
        self.generator = new_generator(plan.public, plan.settings.latent, secret)
        self.average = weights_of(self.generator)
        rate = plan.settings.generator_learning_rate
        self._optimiser = torch.optim.Adam(self.generator.parameters(), lr=rate, betas=BETAS)
        self.trainee = Trainee(
            modules={"generator": self.generator},
            optimisers={"of-generator": self._optimiser},
            averages={"average": self.average},
        )

    def propose(self, step: int) -> tuple[Tensor, Tensor]:
        """Images that remember what they were painted from, and their labels."""
        labels, latents = self._inputs(self._chosen.batch_size, "step", step)
        return self.generator(latents, labels), labels

    def follow(self, images: Tensor, direction: Tensor, step: int) -> None:
        """Move images that were proposed in a direction."""
        for group in self._optimiser.param_groups:  # ever slower: late noise is not forgotten
            group["lr"] = self._chosen.generator_learning_rate * (1 - step / self._steps)
        self._optimiser.zero_grad()
        images.backward(-direction.to(images).view_as(images) / len(images))
        self._optimiser.step()
        average_into(self.average, self.generator, self._chosen.moving_average)

    def updates(self, refresh: int) -> range:
        """The numbers that the updates of a refresh have; the first is the warm-up."""
        chosen = self._chosen
        end = chosen.warm_up + refresh * chosen.refresh_updates
        return range(end - (chosen.refresh_updates if refresh else chosen.warm_up), end)

    def updates_of_all(self) -> int:
        return self.updates((self._steps - 1) // self._chosen.refresh_every).stop

    def teach(
        self, critics: Critics, update: int, weights: dict[str, Tensor] | None = None
    ) -> None:
        """All critics learn to tell the generator, or one with other weights, from records."""
        labels, latents = self._inputs(self._chosen.synthetic_batch, "update", update)
        weights = weights or dict(self.generator.named_parameters())
        critics.train(made(self.generator, weights, latents, labels), labels, update=update)

    def _inputs(self, count: int, purpose: str, number: int) -> tuple[Tensor, Tensor]:
        """Labels and latent vectors for so many images."""
        chance = stream(self._secret, purpose, number)
        labels = torch.multinomial(self._prior, count, replacement=True, generator=chance)
        return labels, torch.randn(count, self._chosen.latent, generator=chance)
