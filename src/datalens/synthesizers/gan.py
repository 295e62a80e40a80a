"""What the GANs share: a generator, drawn from and stored by its averaged weights."""

from collections.abc import Iterable
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from datalens.data import PublicFacts
from datalens.ensemble.streams import stream
from datalens.errors import DataLensError
from datalens.student.critic import Critic
from datalens.student.generator import Generator
from datalens.synthesizers.plan import Plan
from datalens.synthesizers.protocol import Drawn, Synthesizer


class GanSynthesizer(Synthesizer):
    """A method whose result is a `Generator`. Its settings have a `latent`."""

    def _publish(self, generator: Generator, weights: dict[str, Tensor]) -> None:
        """What training has led to: a network, and the weights to use in it."""
        self._network, self._weights = generator, weights

    def _draw(self, labels: NDArray[np.int64], seed: bytes, *, exact: bool) -> Drawn:
        latents = torch.randn(len(labels), self._network.latent, generator=stream(seed, "sample"))
        images = made(self._network, self._weights, latents, torch.from_numpy(labels))
        return Drawn(images.numpy(), labels)

    def _arrays(self) -> dict[str, NDArray[Any]]:
        return {name: weight.numpy() for name, weight in self._weights.items()}

    def _take_arrays(self, arrays: dict[str, NDArray[Any]], plan: Plan) -> None:
        network = new_generator(plan.public, plan.settings.latent, b"loaded")  # type: ignore[attr-defined]
        shapes = {name: tuple(weight.shape) for name, weight in network.named_parameters()}
        if {name: array.shape for name, array in arrays.items()} != shapes:
            raise DataLensError("its weights do not fit the run's configuration.")
        self._publish(network, {name: torch.from_numpy(arrays[name]) for name in shapes})


def new_generator(public: PublicFacts, latent: int, secret: bytes) -> Generator:
    start = stream(secret, "generator", "initial")
    return Generator(public.shape, public.n_classes, latent, stream=start)


def new_critic(public: PublicFacts, width: int, secret: bytes) -> Critic:
    start = stream(secret, "critic", "initial")
    return Critic(public.shape, public.n_classes, width, stream=start)


def made(
    generator: Generator, weights: dict[str, Tensor], latents: Tensor, labels: Tensor
) -> Tensor:
    """Images of a generator with other weights than it has."""
    with torch.no_grad():
        images: Tensor = torch.func.functional_call(generator, weights, (latents, labels))
    return images


def weights_of(module: nn.Module) -> dict[str, Tensor]:
    """A copy, by name."""
    return {name: weight.detach().clone() for name, weight in module.named_parameters()}


def average_into(average: dict[str, Tensor], module: nn.Module, keep: float) -> None:
    """Move averaged weights towards a module's, by the share that is not kept."""
    with torch.no_grad():
        for name, weight in module.named_parameters():
            average[name].lerp_(weight, 1 - keep)


def clear(parameters: Iterable[nn.Parameter]) -> None:
    """Forget gradients that nobody will follow."""
    for parameter in parameters:
        parameter.grad = None
