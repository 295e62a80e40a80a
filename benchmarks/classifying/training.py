"""One classifier under noise: what its steps cost, how they are taken, how right it is after them.

As `datalens classify` trains, with what the paper's controls need besides: the other variants, and
learning rates that stay as they are.
"""

import os
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from classifying.table11 import DELTA, Recipe
from datalens.classifiers.dpsgd import poisson_sample, with_example_gradients
from datalens.classifiers.topagg import TopAggOptimizer, Variant, step_event
from datalens.mechanism.noise import FloatNoise, FloatSecureNoise
from datalens.privacy.accountants import Charge
from datalens.privacy.accountants import epsilon as epsilon_of
from datalens.privacy.calibration import SampledAccountant, noise_multiplier_for, steps_for

ACCOUNTANT: SampledAccountant = "pld"
"""The default of `datalens classify`."""
AT_ONCE = 256


class Examples(NamedTuple):
    """What a network takes, and what it should say."""

    inputs: Tensor
    labels: Tensor


@dataclass(frozen=True, kw_only=True)
class Plan:
    """A recipe for so many records, its noise and steps fixed before the first of them."""

    recipe: Recipe
    n_records: int
    steps: int
    noise_multiplier: float
    """1 where nothing is private: there it is not used."""

    @property
    def sampling_probability(self) -> float:
        return self.recipe.batch_size / self.n_records


def plan(
    recipe: Recipe,
    n_records: int,
    epsilon: float | None,
    accountant: SampledAccountant | None = None,
) -> Plan:
    """As many steps as the printed noise affords, or as much noise as the steps need.

    Without an epsilon nobody is protected, and the recipe says how many steps.
    """
    q, accountant = recipe.batch_size / n_records, accountant or ACCOUNTANT
    steps, noise = recipe.steps, recipe.noise_multiplier
    if epsilon is None:
        noise = 1.0
    elif noise is None and steps is not None:
        noise = noise_multiplier_for(
            epsilon, DELTA, sampling_probability=q, steps=steps, accountant=accountant
        )
    elif noise is not None and steps is None:
        steps = steps_for(
            epsilon, DELTA, sampling_probability=q, noise_multiplier=noise, accountant=accountant
        )
    if steps is None or noise is None:
        raise ValueError("a recipe says either how many steps, or how much noise")
    return Plan(recipe=recipe, n_records=n_records, steps=steps, noise_multiplier=noise)


def spent(planned: Plan, variant: Variant) -> dict[str, float] | None:
    """Epsilon by each accountant."""
    if variant == "no-noise":
        return None
    event = step_event(
        variant,
        noise_multiplier=planned.noise_multiplier,
        sampling_probability=planned.sampling_probability,
    )
    charges = [Charge(event=event, count=planned.steps)]
    return {
        name: epsilon_of(charges, DELTA, name)  # type: ignore[arg-type]
        for name in ("pld", "certified", "paper", "moments")
    }


def train(
    network: nn.Module,
    examples: Examples,
    planned: Plan,
    *,
    variant: Variant,
    keep: float,
    noise: FloatNoise | None = None,
    secret: bytes | None = None,
    at_step: Callable[[int], None] = lambda number: None,
) -> None:
    """All steps. Noise and sampling come from the operating system, unless a test gives others."""
    recipe, secret = planned.recipe, secret or os.urandom(32)
    watched = with_example_gradients(network)
    descent = torch.optim.SGD(network.parameters(), lr=recipe.learning_rate)
    private = TopAggOptimizer(
        descent,
        noise=noise or FloatSecureNoise(),
        noise_multiplier=planned.noise_multiplier,
        max_grad_norm=recipe.clip,
        expected_batch_size=recipe.batch_size,
        keep=keep,
        variant=variant,
    )
    for number in range(planned.steps):
        drawn = poisson_sample(planned.n_records, planned.sampling_probability, secret, number)
        for some in torch.from_numpy(drawn).split(AT_ONCE):
            if len(some):
                scores = watched(examples.inputs[some])
                F.cross_entropy(scores, examples.labels[some], reduction="sum").backward()
                private.accumulate()
        if recipe.falling:
            descent.param_groups[0]["lr"] = recipe.learning_rate * (1 - number / planned.steps)
        private.step_on(0, key=f"step/{number}")
        at_step(number)
    watched.remove_hooks()


@torch.no_grad()
def accuracy(network: nn.Module, examples: Examples) -> float:
    """Share of examples whose likeliest class is the right one."""
    parts = zip(examples.inputs.split(1000), examples.labels.split(1000), strict=True)
    right = sum(int((network(some).argmax(1) == labels).sum()) for some, labels in parts)
    return right / len(examples.labels)
