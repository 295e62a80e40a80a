"""DP-SGD by Opacus: its per-example gradients and clipping, with noise of our own source."""

import warnings
from collections.abc import Callable
from hashlib import shake_256
from typing import Literal

import numpy as np
import torch
from numpy.typing import NDArray
from opacus.grad_sample import GradSampleModule
from opacus.optimizers import DPOptimizer
from torch import nn

from datalens.classifiers.empty import ExampleGradients
from datalens.errors import DataLensError
from datalens.mechanism.events import positive
from datalens.mechanism.noise import FloatNoise

LossReduction = Literal["mean", "sum"]

ROUNDING = 1e-3
"""Share of a bound that is kept for what single precision adds to norms and sums."""


class PrivateOptimizer(DPOptimizer):
    """Opacus's optimiser, whose noise comes from the operating system, or from a seed.

    Guarantee: what reaches a parameter is a sum, over the examples of a batch, of gradients of norm
    at most `max_grad_norm`, plus Gaussian noise of `noise_multiplier` times that on every
    coordinate, divided by the *expected* size of a batch. An example whose gradient is not finite
    adds nothing. Examples must have been drawn by `poisson_sample`, and one record must be one
    example.
    """

    def __init__(
        self,
        optimizer: torch.optim.Optimizer,
        *,
        noise: FloatNoise,
        noise_multiplier: float,
        max_grad_norm: float,
        expected_batch_size: float,
        loss_reduction: LossReduction = "mean",
    ) -> None:
        positive(max_grad_norm=max_grad_norm, expected_batch_size=expected_batch_size)
        super().__init__(
            optimizer,
            noise_multiplier=noise_multiplier,
            max_grad_norm=max_grad_norm * (1 - ROUNDING),
            expected_batch_size=expected_batch_size,
            loss_reduction=loss_reduction,
        )
        self._noise, self._key = noise, ""
        self._sigma = noise_multiplier * max_grad_norm
        self.steps_taken = 0
        self.most_steps: int | None = None
        """After so many, `step` refuses: more are not paid for."""
        self.looks_ahead = False
        """Whether batches are fetched before the steps on those before them."""

    def accumulate(self) -> None:
        """Take in a piece of a batch, of which more is to come: memory need not hold all of it.

        No record may be in two pieces of a batch: each of them would add a gradient for it.
        """
        self.clip_and_accumulate()
        for p in self.params:
            p.grad_sample = None

    def step_on(self, examples: int, *, key: str) -> None:
        """One step on the gradients of so many examples, and of all pieces taken in before.

        `key` names its noise.
        """
        self._key = key
        if examples:
            self.accumulate()
        for p in self.params:
            if p.summed_grad is None:  # nobody was drawn: only noise
                p.summed_grad = torch.zeros_like(p)
        self.add_noise()
        self.scale_grad()
        if self.step_hook:
            self.step_hook(self)
        self.original_optimizer.step()
        self._is_last_step_skipped = False
        self.zero_grad(set_to_none=True)

    def step(self, closure: Callable[[], float] | None = None) -> None:
        """One step on what has gone back since the last, as a PyTorch optimiser takes it.

        Where Opacus's memory manager says that more of the batch is to come, only `accumulate`.
        """
        if closure is not None:
            with torch.enable_grad():
                closure()
        seen = any(p.grad_sample is not None for p in self.params)
        if self._check_skip_next_step():
            self._is_last_step_skipped = True
            if seen:
                self.accumulate()
            return
        if self.most_steps is not None and self.steps_taken >= self.most_steps:
            raise DataLensError(
                f"All {self.most_steps} steps that the budget pays for are taken; plan more epochs."
            )
        self.step_on(int(seen), key=f"step/{self.steps_taken}")
        self.steps_taken += 1

    def begin_pass(self) -> None:
        """Forget what a pass that was broken off has left: records of it may be in this one too."""
        self._step_skip_queue.clear()
        self._is_last_step_skipped = False
        for p in self.params:
            p.grad_sample = p.summed_grad = None

    def signal_skip_step(self, do_skip: bool = True) -> None:
        """Hear from Opacus's memory manager that a piece is handed out, and if more is to come.

        Each must have its step before the next: else pieces of two batches meet in one step, and a
        record that is in both adds to it twice.
        """
        if self.looks_ahead:
            raise DataLensError(
                "BatchMemoryManager divides batches of a loader with num_workers=0 only: with more"
                " a piece that is passed over would not be noticed."
            )
        if self._step_skip_queue:
            raise DataLensError(
                "A piece of a batch was passed over; call optimizer.step() for every piece that"
                " BatchMemoryManager hands out, and begin a pass anew after a break."
            )
        super().signal_skip_step(do_skip)

    def clip_and_accumulate(self) -> None:
        self._refuse_two_batches()
        self._silence_what_is_not_finite()
        super().clip_and_accumulate()

    def add_noise(self) -> None:
        sums = [p.summed_grad.detach().flatten() for p in self.params]
        total = torch.cat(sums).double().cpu().numpy()
        noisy = torch.from_numpy(self._noise.add(total, sigma=self._sigma, key=self._key))
        for p, part in zip(self.params, noisy.split([len(s) for s in sums]), strict=True):
            p.grad = part.to(p).view_as(p)

    def scale_grad(self) -> None:
        if self.loss_reduction == "sum":
            return
        for p in self.params:  # by what was to be expected: how many were drawn is secret
            p.grad /= self.expected_batch_size

    def _refuse_two_batches(self) -> None:
        if any(isinstance(p.grad_sample, list) for p in self.params):
            raise DataLensError(
                "Two batches went back before one step, and a record may be in both; take a step"
                " after each, or divide a batch with Opacus's BatchMemoryManager."
            )

    def _silence_what_is_not_finite(self) -> None:
        norms = torch.stack([g.flatten(1).norm(dim=1) for g in self.grad_samples], dim=1)
        broken = ~norms.norm(dim=1).isfinite()
        if bool(broken.any()):
            for p in self.params:
                p.grad_sample = torch.where(broken.view(-1, *[1] * p.dim()), 0.0, p.grad_sample)


def with_example_gradients(
    model: nn.Module, loss_reduction: LossReduction = "sum"
) -> GradSampleModule:
    """The model, whose parameters get a gradient for each example when losses go back.

    `loss_reduction` says whether that is their sum or their mean. An example's gradient is its own
    only if no layer mixes examples, as batch norm does: Opacus refuses those.
    """
    # Images need no gradient of their own, and Opacus's hooks do without.
    warnings.filterwarnings("ignore", message="Full backward hook is firing")
    return ExampleGradients(model, loss_reduction=loss_reduction)


def poisson_sample(
    n_records: int, probability: float, secret: bytes, step: int
) -> NDArray[np.int64]:
    """Who takes part in a step: each record with the same probability, independently of others.

    The proof needs that nobody can tell who did. So it comes from the run's secret through
    SHAKE-256, of which no part tells another, and not from a generator made for simulations.
    """
    seed = b"poisson" + step.to_bytes(8, "big") + secret
    bits = np.frombuffer(shake_256(seed).digest(8 * n_records), dtype="<u8")
    return np.flatnonzero((bits >> np.uint64(11)) * 2.0**-53 < probability)
