"""One door to DP-SGD with TopAgg for any PyTorch training loop."""

import os
from numbers import Real
from typing import Any, NamedTuple

import torch
from opacus.grad_sample import GradSampleModule
from opacus.optimizers import DPOptimizer
from opacus.validators import ModuleValidator
from torch import nn
from torch.nn.modules.batchnorm import _BatchNorm
from torch.utils.data import DataLoader

from datalens.classifiers.dpsgd import LossReduction, with_example_gradients
from datalens.classifiers.empty import ExampleGradients
from datalens.classifiers.poisson import PoissonBatches, poisson_loader
from datalens.classifiers.topagg import TopAggOptimizer
from datalens.errors import DataLensError
from datalens.mechanism.events import positive
from datalens.mechanism.noise import FloatNoise, FloatSecureNoise
from datalens.mechanism.norm_topk import check_share
from datalens.privacy.calibration import (
    SampledAccountant,
    noise_multiplier_for,
    refuse_large_delta,
)

VALID: tuple[SampledAccountant, ...] = ("pld", "certified")
"""Both are bounds for sampled steps, so that the smaller noise of the two will do."""


class Private(NamedTuple):
    """What takes the place of a model, its optimiser and its loader."""

    model: GradSampleModule
    optimizer: TopAggOptimizer
    loader: DataLoader[Any]


def make_private(
    *,
    model: nn.Module,
    optimizer: torch.optim.Optimizer,
    loader: DataLoader[Any],
    epsilon: float,
    delta: float,
    epochs: int,
    keep: float = 0.8,
    max_grad_norm: float = 1.0,
    loss_reduction: LossReduction = "mean",
    noise: FloatNoise | None = None,
    secret: bytes | None = None,
    allow_large_delta: bool = False,
) -> Private:
    """A model, optimiser and loader whose usual training loop is differentially private.

        model, optimizer, loader = make_private(
            model=model, optimizer=optimizer, loader=loader, epsilon=1.0, delta=1e-5, epochs=10
        )
        for _ in range(10):
            for images, labels in loader:
                loss = cross_entropy(model(images), labels)
                loss.backward()
                optimizer.step()
                optimizer.zero_grad()

    As Opacus's door, and its BatchMemoryManager divides batches that are too large for memory, if
    the loader has no workers; a piece without a step is refused, and what a broken pass leaves is
    forgotten when the next begins. A batch may be empty: its step is noise alone, and its mean loss
    NaN, which is no reason to skip it. `keep` is the share of each gradient's squared norm that is
    kept, 1 being plain DP-SGD; `loss_reduction` says whether the loss is a mean or a sum over the
    batch. A `delta` above 1 / number of records is refused without `allow_large_delta`.

    Guarantee: the weights after `epochs` passes over the loader, and all on the way there, are
    (epsilon, delta)-differentially private, for one record blanked in place and their number public
    (docs/methods/dpsgd.md). More steps are refused. The noise is floating point (`float-secure`,
    with the limits that docs/guarantees.md names), and the least that the tightest accountant
    allows. That holds if the loop takes records from this loader only, each of them is one example,
    and the loss is a plain mean or sum of the losses of single examples: one that weighs classes
    and divides by the weights, or leaves some labels out of its mean, lets a record change what
    others add. Each step must have a batch that is drawn anew; a second one on the same batch is
    refused. Losses on the records are private, and so is every choice made by looking at them.

    There is no ledger here: nothing adds up what several calls on the same records cost, and there
    is no certificate. `datalens classify` has both. Randomness comes from the operating system
    unless `noise` and `secret` say otherwise, and then nothing is private.
    """
    if isinstance(epochs, bool) or not isinstance(epochs, int) or epochs < 1:
        raise DataLensError(f"epochs must be a whole number of at least 1, got {epochs!r}.")
    _refuse_what_is_no_number(epsilon=epsilon, delta=delta, max_grad_norm=max_grad_norm)
    check_share(keep=keep)
    positive(max_grad_norm=max_grad_norm)
    refuse_what_cannot_be_private(model)
    _refuse_other_optimizers(model, optimizer)
    batches = poisson_loader(loader, secret or os.urandom(32))
    if not allow_large_delta:
        refuse_large_delta(delta, len(loader.dataset))  # type: ignore[arg-type]
    steps, sampler = epochs * len(batches), batches.batch_sampler
    if not isinstance(sampler, PoissonBatches):
        raise TypeError("the loader lost its sampler")
    multiplier = least_noise(epsilon, delta, sampling_probability=sampler.probability, steps=steps)
    watched = _watched(model, loss_reduction)
    private = TopAggOptimizer(
        optimizer,
        noise=noise or FloatSecureNoise(),
        noise_multiplier=multiplier,
        max_grad_norm=max_grad_norm,
        expected_batch_size=loader.batch_size or 0,
        keep=keep,
        loss_reduction=loss_reduction,
    )
    private.most_steps, private.looks_ahead = steps, loader.num_workers > 0
    sampler.on_begin, private.batches_drawn = private.begin_pass, lambda: sampler.drawn
    return Private(watched, private, batches)


def least_noise(epsilon: float, delta: float, *, sampling_probability: float, steps: int) -> float:
    """The noise multiplier of so many sampled steps by the tighter of the valid accountants."""
    return min(
        noise_multiplier_for(
            epsilon,
            delta,
            sampling_probability=sampling_probability,
            steps=steps,
            accountant=accountant,
        )
        for accountant in VALID
    )


def _refuse_what_is_no_number(**named: Any) -> None:
    for name, value in named.items():
        if not isinstance(value, Real):
            raise DataLensError(f"{name} must be a number, got {value!r}.")


def refuse_what_cannot_be_private(model: nn.Module) -> None:
    """A model whose examples see each other, or that Opacus has no example gradients for."""
    mixing = [name or "model" for name, m in model.named_modules() if isinstance(m, _BatchNorm)]
    if mixing:
        raise DataLensError(
            f"{', '.join(mixing)}: batch norm lets the examples of a batch see each other, so that"
            " no record's part can be bounded; replace it by torch.nn.GroupNorm, or, if it is part"
            " of a frozen network, compute that network's features first and train what follows."
        )
    errors = ModuleValidator.validate(model)
    if errors:
        reasons = "; ".join(str(error) for error in errors)
        raise DataLensError(f"This model cannot be trained privately: {reasons}")


def _refuse_other_optimizers(model: nn.Module, optimizer: torch.optim.Optimizer) -> None:
    if isinstance(optimizer, DPOptimizer):
        raise DataLensError(
            "The optimizer is private already, and would add noise to noise; give the one inside:"
            " optimizer.original_optimizer."
        )
    if isinstance(optimizer, torch.optim.LBFGS):
        raise DataLensError(
            "LBFGS asks for several gradients of a batch in one step, of which one is paid for; use"
            " torch.optim.SGD or Adam."
        )
    trained = {id(p) for group in optimizer.param_groups for p in group["params"]}
    if trained != {id(p) for p in model.parameters() if p.requires_grad}:
        raise DataLensError(
            "The optimizer must train all trainable parameters of the model and no others; freeze"
            " the rest with requires_grad_(False)."
        )


def _watched(model: nn.Module, loss_reduction: LossReduction) -> GradSampleModule:
    if not isinstance(model, GradSampleModule):
        return with_example_gradients(model, loss_reduction)
    if model.loss_reduction != loss_reduction:
        raise DataLensError(
            f"The model expects the {model.loss_reduction} of losses; say"
            f" loss_reduction={model.loss_reduction!r}."
        )
    if not isinstance(model, ExampleGradients):  # Opacus's own cannot take an empty batch
        return with_example_gradients(model.to_standard_module(), loss_reduction)
    return model
