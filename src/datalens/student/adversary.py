"""A generator that learns from a student discriminator, which learns from releases: PATE-GAN."""

from collections.abc import Iterator
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from datalens.ensemble.streams import stream
from datalens.student.dense_critic import DenseCritic
from datalens.student.generator import Generator
from datalens.student.student import Student

BETAS = (0.5, 0.999)
"""Of Adam, for both networks: as the teachers have them."""

LEAST = 1e-3
"""Images of one class are never taken to be closer than that, in units of their latents."""


@dataclass(frozen=True, kw_only=True)
class Lesson:
    """How much is learned from each batch of labelled images."""

    steps: int
    """Lessons in all: the generator learns ever more slowly and stands still after the last."""
    critic_updates: int
    generator_updates: int
    batch_size: int
    remembered: int
    """Batches of labelled images that the critic goes on learning from."""
    diversity: float
    """Weight of a term that keeps images of different latent vectors apart (Mao et al. 2019)."""


class Adversary(Student):
    """A generator and its critic.

    Guarantee: a function of the secret and of what `learn` was told, and so of releases: records
    are never shown to it. All chance comes from (secret, step), so that one restored from `state`
    goes on bit for bit as one that never stopped.
    """

    def __init__(
        self,
        generator: Generator,
        critic: DenseCritic,
        *,
        secret: bytes,
        learning_rate: float,
        critic_learning_rate: float,
        moving_average: float,
        lesson: Lesson,
    ) -> None:
        super().__init__(
            generator, secret=secret, learning_rate=learning_rate, moving_average=moving_average
        )
        self.critic, self.lesson = critic, lesson
        self._critic_optimiser = adam_from_its_beginning(critic, critic_learning_rate)
        self._optimiser = adam_from_its_beginning(generator, learning_rate)
        room = lesson.remembered * lesson.batch_size
        self._images = torch.zeros(room, *generator.shape)
        self._labels = torch.zeros(room, dtype=torch.int64)
        self._verdicts = torch.zeros(room)
        self._lessons = torch.zeros((), dtype=torch.int64)

    def learn(self, images: Tensor, labels: Tensor, verdicts: Tensor, *, step: int) -> None:
        """Take in a batch of generated images and how real each is held to be, from 0 to 1.

        The critic learns to tell, the generator to please the critic; both are free.
        """
        now = self._remember(images, labels, verdicts)
        chance = stream(self.secret, "student", "learn", step)
        for update in range(self.lesson.critic_updates):
            past = int(self._lessons.clamp(max=self.lesson.remembered)) * len(labels)
            drawn = torch.randint(past, (len(labels),), generator=chance)
            self._teach_critic(now if update % 2 == 0 else drawn)
        for group in self._optimiser.param_groups:
            group["lr"] = self.learning_rate * (1 - step / self.lesson.steps)
        for _ in range(self.lesson.generator_updates):
            self._please_critic(chance)
        for name, weight in self.weights.items():
            self.average[name].lerp_(weight.detach(), 1 - self.moving_average)

    def _remember(self, images: Tensor, labels: Tensor, verdicts: Tensor) -> Tensor:
        """In the place of the oldest batch; returns where."""
        at = int(self._lessons) % self.lesson.remembered * len(labels)
        places = torch.arange(at, at + len(labels))
        self._images[places], self._labels[places] = images, labels
        self._verdicts[places] = verdicts
        self._lessons += 1
        return places

    def _teach_critic(self, places: Tensor) -> None:
        self._critic_optimiser.zero_grad()
        logits = self.critic(self._images[places], self._labels[places])
        F.binary_cross_entropy_with_logits(logits, self._verdicts[places]).backward()
        self._critic_optimiser.step()

    def _please_critic(self, chance: torch.Generator) -> None:
        """One update of the generator, on images in pairs of one class, which should differ."""
        self._optimiser.zero_grad()
        pairs = max(1, self.lesson.batch_size // 4)
        labels = torch.randint(self.generator.n_classes, (pairs,), generator=chance).repeat(2)
        latents = torch.randn(2 * pairs, self.generator.latent, generator=chance)
        images = self.generator(latents, labels)
        loss = F.softplus(-self.critic(images, labels)).mean()
        if self.lesson.diversity:
            loss = loss + self.lesson.diversity / (_apart(images) / _apart(latents) + LEAST).mean()
        loss.backward()
        self._optimiser.step()

    def _named_state(self) -> Iterator[tuple[str, Tensor]]:
        yield from super()._named_state()
        for name, weight in self.critic.named_parameters():
            yield f"critic.{name}", weight.detach()
            for kind, moment in self._critic_optimiser.state[weight].items():
                yield f"critic.{kind}.{name}", moment
        yield "remembered.images", self._images
        yield "remembered.labels", self._labels
        yield "remembered.verdicts", self._verdicts
        yield "remembered.lessons", self._lessons


def _apart(pairs: Tensor) -> Tensor:
    """How far, on average over its values, each of the first half is from its partner."""
    one, other = pairs.flatten(1).chunk(2)
    return (one - other).abs().mean(1)


def adam_from_its_beginning(network: torch.nn.Module, learning_rate: float) -> torch.optim.Adam:
    """With moments that exist before the first update, so that there is a state to store."""
    weights = list(network.parameters())
    optimiser = torch.optim.Adam(weights, lr=learning_rate, betas=BETAS)
    for weight in weights:
        optimiser.state[weight] = {
            "step": torch.zeros(()),
            "exp_avg": torch.zeros_like(weight),
            "exp_avg_sq": torch.zeros_like(weight),
        }
    return optimiser
