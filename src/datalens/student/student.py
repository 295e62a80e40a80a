"""The student: a generator that follows what was released, and nothing else."""

from collections.abc import Callable, Iterator
from math import cos, pi

import torch
import torch.nn.functional as F
from torch import Tensor

from datalens.ensemble.streams import stream
from datalens.errors import DataLensError
from datalens.student.gaussian import GaussianModel, with_grain
from datalens.student.generator import Generator

SAMPLE_BATCH = 500
WARM_START_BATCH = 128
WARM_START_LEARNING_RATE = 5e-3


class Student:
    """A generator, its Adam optimiser, and the moving average of its weights that is published.

    Latent vectors are drawn from (secret, step) alone, so a student restored from `state` goes on
    bit for bit as one that never stopped.
    """

    def __init__(
        self,
        generator: Generator,
        *,
        secret: bytes,
        learning_rate: float = 1e-3,
        moving_average: float = 0.9,
    ) -> None:
        """`moving_average` is how much of the averaged weights stays at each step; 0 is none."""
        if not learning_rate > 0:
            raise DataLensError(f"learning_rate must be positive, got {learning_rate!r}.")
        if not 0 <= moving_average < 1:
            raise DataLensError(f"moving_average must be in [0, 1), got {moving_average!r}.")
        self.generator = generator
        self.secret = secret
        self.learning_rate = learning_rate
        self.moving_average = moving_average
        self.weights = dict(generator.named_parameters())
        self.average = {name: tensor.clone() for name, tensor in generator.state_dict().items()}
        self._proposed: tuple[Tensor, Tensor, Tensor] | None = None
        self._new_optimiser()

    def propose(self, labels: Tensor, *, step: int) -> Tensor:
        """Images for the teachers to vote on, one for each label. They are kept for `follow`."""
        latents = self._latents(len(labels), "propose", step)
        with torch.no_grad():
            images = self.generator(latents, labels)
        self._proposed = latents, labels, images
        return images

    def follow(self, direction: Tensor, *, step_size: float, updates: int = 1) -> None:
        """Move the proposed images by `step_size` along `direction` (m, c, h, w): Algorithm 1.

        The moved images are cut to [0, 1], which the paper does not say, and the generator takes
        `updates` steps towards them in mean squared error.
        """
        if self._proposed is None:
            raise DataLensError("The student has nothing proposed that it could follow up.")
        latents, labels, images = self._proposed
        if direction.shape != images.shape or not bool(direction.isfinite().all()):
            raise DataLensError(
                f"The direction must be finite and of shape {tuple(images.shape)}, "
                f"got {tuple(direction.shape)}."
            )
        targets = (images + step_size * direction).clamp_(0, 1)
        for _ in range(updates):
            self._update(latents, labels, targets)
        self._proposed = None
        for name, weight in self.weights.items():
            self.average[name].lerp_(weight.detach(), 1 - self.moving_average)

    def warm_start(
        self,
        model: GaussianModel,
        *,
        updates: int,
        progress: Callable[[int, int], None] | None = None,
    ) -> None:
        """Learn a class-gaussian model: the same latent vector, the same image.

        A plain regression, without an adversary; the learning rate falls to nothing along half a
        cosine. The optimiser and the average begin anew afterwards. The model's grain is noise,
        which cannot be learned: it is kept, and put on samples.
        """
        for update in range(updates):
            latents = self._latents(WARM_START_BATCH, "warm-start", update)
            labels = torch.arange(WARM_START_BATCH) % self.generator.n_classes
            rate = WARM_START_LEARNING_RATE * (1 + cos(pi * update / updates)) / 2
            self._optimiser.param_groups[0]["lr"] = rate
            self._update(latents, labels, model.images(latents, labels))
            if progress is not None:
                progress(update + 1, updates)
        self._new_optimiser()
        for name, weight in self.weights.items():
            self.average[name].copy_(weight.detach())
        self.average["grain"].fill_(model.grain)

    @torch.no_grad()
    def sample(self, labels: Tensor, generator: torch.Generator) -> Tensor:
        """One image for each label, from the averaged weights."""
        latents = torch.randn(len(labels), self.generator.latent, generator=generator)
        pieces = zip(latents.split(SAMPLE_BATCH), labels.split(SAMPLE_BATCH), strict=True)
        images = [
            torch.func.functional_call(self.generator, self.average, piece) for piece in pieces
        ]
        if not images:
            return torch.empty(0, *self.generator.shape)
        return with_grain(torch.cat(images), float(self.average["grain"]), generator)

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
        self._optimiser = torch.optim.Adam(self.weights.values(), lr=self.learning_rate)
        for weight in self.weights.values():
            self._optimiser.state[weight] = {
                "step": torch.zeros(()),
                "exp_avg": torch.zeros_like(weight),
                "exp_avg_sq": torch.zeros_like(weight),
            }

    def _update(self, latents: Tensor, labels: Tensor, targets: Tensor) -> None:
        self._optimiser.zero_grad()
        F.mse_loss(self.generator(latents, labels), targets).backward()
        self._optimiser.step()

    def _latents(self, count: int, purpose: str, step: int) -> Tensor:
        own = stream(self.secret, "student", purpose, step)
        return torch.randn(count, self.generator.latent, generator=own)
