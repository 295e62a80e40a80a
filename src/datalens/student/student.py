"""The student: a generator that follows what was released, and nothing else."""

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor

from datalens.ensemble.streams import stream
from datalens.errors import DataLensError
from datalens.student.dcgan import DcganGenerator
from datalens.student.generator import Generator
from datalens.student.mixture import MixtureModel

SAMPLE_BATCH = 500
MEASURED = 500
"""Images whose statistics stand for all in a published generator with batch norm."""


class Proposal(NamedTuple):
    """Images made in one step, and what they came from."""

    latents: Tensor
    labels: Tensor
    start: Tensor | None
    made: Tensor
    voted: Tensor
    """Which of them teachers vote on."""

    @property
    def images(self) -> Tensor:
        """Those that teachers vote on (m, c, h, w)."""
        return self.made[self.voted]


class Student:
    """A generator, its Adam optimiser, and the moving average of its weights that is published.

    Where a model was bought, the student starts from its images, and learns what to put on them.
    Latent vectors are drawn from (secret, step) alone, so a student restored from `state` goes on
    bit for bit as one that never stopped.
    """

    def __init__(
        self,
        generator: Generator | DcganGenerator,
        *,
        secret: bytes,
        learning_rate: float = 1e-3,
        beta1: float = 0.9,
        moving_average: float = 0.9,
    ) -> None:
        """`beta1` is Adam's. `moving_average` is how much of the averaged weights stays at each
        step; 0 is none."""
        if not learning_rate > 0:
            raise DataLensError(f"learning_rate must be positive, got {learning_rate!r}.")
        if not 0 <= moving_average < 1:
            raise DataLensError(f"moving_average must be in [0, 1), got {moving_average!r}.")
        self.generator = generator
        self.secret = secret
        self.learning_rate, self.beta1 = learning_rate, beta1
        self.moving_average = moving_average
        self.weights = dict(generator.named_parameters())
        self.average = {name: tensor.clone() for name, tensor in generator.state_dict().items()}
        self._proposed: Proposal | None = None
        self._model: MixtureModel | None = None
        self._spread = 1.0
        self._new_optimiser()

    def propose(self, labels: Tensor, *, step: int, every_class: bool = False) -> Proposal:
        """Images for the teachers to vote on, one for each label. They are kept for `follow`.

        With `every_class` each latent vector is shown under every class: of m x classes images, m
        are those that are voted on.
        """
        chance = stream(self.secret, "student", "propose", step)
        count, classes = len(labels), self.generator.n_classes if every_class else 1
        shown = torch.arange(classes).repeat(count) if every_class else labels
        voted = torch.arange(count) * classes + (labels if every_class else 0)
        latents, start = self._begin(shown, chance, repeats=classes)
        with torch.no_grad():
            made = self.generator(latents, shown, start)
        self._proposed = Proposal(latents, shown, start, made, voted)
        return self._proposed

    def follow(
        self, direction: Tensor, *, step_size: float, updates: int = 1, cut: bool = True
    ) -> None:
        """Move the proposed images by `step_size` along `direction` (m, c, h, w): Algorithm 1.

        The generator takes `updates` steps towards the moved images in squared error. With `cut`
        they are cut to [0, 1], which the paper does not say.
        """
        if self._proposed is None:
            raise DataLensError("The student has nothing proposed that it could follow up.")
        proposed, images = self._proposed, self._proposed.images
        if direction.shape != images.shape or not bool(direction.isfinite().all()):
            raise DataLensError(
                f"The direction must be finite and of shape {tuple(images.shape)}, "
                f"got {tuple(direction.shape)}."
            )
        targets = images + step_size * direction
        for _ in range(updates):
            self._update(proposed, targets.clamp(0, 1) if cut else targets)
        self._proposed = None
        for name, weight in self.weights.items():
            self.average[name].lerp_(weight.detach(), 1 - self.moving_average)
        self._measure()

    def start_from(self, model: MixtureModel, *, spread: float) -> None:
        """Show what the model shows; what is learned from now on is put on top of that."""
        self._model, self._spread = model, spread
        with torch.no_grad():
            self.weights["paint"].zero_()
        self._new_optimiser()
        for name, weight in self.weights.items():
            self.average[name].copy_(weight.detach())

    @torch.no_grad()
    def sample(self, labels: Tensor, chance: torch.Generator) -> Tensor:
        """One image for each label, from the averaged weights."""
        latents, start = self._begin(labels, chance)
        if not len(labels):
            return torch.empty(0, *self.generator.shape)
        inputs = [latents, labels] if start is None else [latents, labels, start]
        pieces = zip(*(each.split(SAMPLE_BATCH) for each in inputs), strict=True)
        self.generator.eval()
        made = [torch.func.functional_call(self.generator, self.average, piece) for piece in pieces]
        self.generator.train()
        return torch.cat(made)

    def take_average(self, weights: dict[str, NDArray[np.float32]]) -> None:
        """Take the published weights of another student, if they fit."""
        if {n: a.shape for n, a in weights.items()} != {
            n: tuple(w.shape) for n, w in self.average.items()
        }:
            raise DataLensError("its weights do not fit the run's configuration.")
        self.average = {name: torch.from_numpy(array) for name, array in weights.items()}

    def state(self) -> dict[str, Tensor]:
        """Everything that training changes, for a checkpoint; the tensors are not copies."""
        return dict(self._named_state())

    def load_state(self, state: dict[str, Tensor]) -> None:
        """Take up where the student that gave `state` left off."""
        own = self.state()
        if state.keys() != own.keys() or any(state[k].shape != own[k].shape for k in own):
            raise DataLensError("This state belongs to a student of another shape.")
        for name, tensor in own.items():
            tensor.copy_(state[name])
        self._proposed = None

    def _named_state(self) -> Iterator[tuple[str, Tensor]]:
        for name, average in self.average.items():
            yield f"average.{name}", average
        for name, weight in self.weights.items():
            yield f"weight.{name}", weight.detach()
            moments = self._optimiser.state[weight]
            yield f"first.{name}", moments["exp_avg"]
            yield f"second.{name}", moments["exp_avg_sq"]
            yield f"updates.{name}", moments["step"]

    def _new_optimiser(self) -> None:
        """Adam from its beginning, with moments that exist before the first update."""
        self._optimiser = torch.optim.Adam(
            self.weights.values(), lr=self.learning_rate, betas=(self.beta1, 0.999)
        )
        for weight in self.weights.values():
            self._optimiser.state[weight] = {
                "step": torch.zeros(()),
                "exp_avg": torch.zeros_like(weight),
                "exp_avg_sq": torch.zeros_like(weight),
            }

    def _update(self, proposed: Proposal, targets: Tensor) -> None:
        self._optimiser.zero_grad()
        made = self.generator(proposed.latents, proposed.labels, proposed.start)
        F.mse_loss(made[proposed.voted], targets, reduction="sum").backward()
        self._optimiser.step()

    @torch.no_grad()
    def _measure(self) -> None:
        """Batch norm's statistics for the averaged weights, on images of every class alike."""
        if not list(self.generator.buffers()):
            return
        labels = torch.arange(MEASURED) % self.generator.n_classes
        latents, start = self._begin(labels, stream(self.secret, "student", "measure"))
        torch.func.functional_call(self.generator, self.average, (latents, labels, start))

    def _begin(
        self, labels: Tensor, chance: torch.Generator, *, repeats: int = 1
    ) -> tuple[Tensor, Tensor | None]:
        """Latent vectors, and the images that the model shows for them.

        Without a model, `repeats` labels in a row have the same vector. With one, its places are
        the latent vectors, in units of how they vary, and filled up with zeros or cut off.
        """
        latent = self.generator.latent
        if self._model is None:
            latents = self.generator.latents(len(labels) // repeats, chance)
            return latents.repeat_interleave(repeats, dim=0), None
        places = self._model.places(labels, chance, spread=self._spread)
        scaled = (places / torch.from_numpy(self._model.deviations()))[:, :latent]
        latents = F.pad(scaled, (0, latent - scaled.shape[1]))
        return latents, self._model.images(places, labels)
