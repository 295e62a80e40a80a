"""DP-SGD by Opacus: its per-example gradients and clipping, with noise of our own source."""

import warnings
from collections.abc import Callable, Iterator
from hashlib import shake_256
from typing import Any, Literal, get_args

import numpy as np
import torch
from numpy.typing import NDArray
from opacus.grad_sample import GradSampleModule
from opacus.optimizers import DPOptimizer
from torch import Tensor, nn

from datalens.classifiers.clipping import factors, norms_of_finite, sum_on_grid
from datalens.classifiers.empty import ExampleGradients
from datalens.ensemble.workers import Workers
from datalens.errors import DataLensError
from datalens.mechanism.events import positive
from datalens.mechanism.noise import FloatNoise

LossReduction = Literal["mean", "sum"]

ROUNDING = 1e-3
"""Share of a bound that is kept for rounding. Norms use 1.3e-4 of it, the grid that gradients are
summed on 1e-4, and sums none: they are exact (clipping.py)."""
TOGETHER = 64
"""Examples that one worker takes at a time."""
IN_CACHE = 2**19
"""Entries of gradients that are worked on at a time, so that they stay in the cache."""


class Fixed:
    """An attribute that is set once: noise and bound are paid for as they were planned."""

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = name

    def __get__(self, instance: Any, owner: type) -> Any:
        return self if instance is None else instance.__dict__[self._name]

    def __set__(self, instance: Any, value: Any) -> None:
        if self._name in instance.__dict__:
            raise DataLensError(
                f"{self._name} is part of what is paid for and cannot be changed on the way; make"
                " a new optimizer, and leave schedules to the learning rate."
            )
        instance.__dict__[self._name] = value


class PrivateOptimizer(DPOptimizer):
    """Opacus's optimiser, with a clip of our own and noise from the operating system, or a seed.

    Guarantee: what reaches a parameter is a sum, over the examples of a batch, of gradients of norm
    at most `max_grad_norm`, plus Gaussian noise of `noise_multiplier` times that on every
    coordinate, divided by the *expected* size of a batch. An example whose gradient is not finite
    adds nothing. Neither number can be changed later. Examples must have been drawn by
    `poisson_sample`, and one record must be one example.

    With or without an example, the sum of the others is the same, bit for bit, in whatever pieces
    it is accumulated: gradients are in the parameters' precision, but are scaled and added in
    double precision on a grid, where sums are exact for up to 16 million examples in a batch. So
    the sum moves by what that example adds, which is at most `max_grad_norm`.
    """

    max_grad_norm = Fixed()
    noise_multiplier = Fixed()

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
        if loss_reduction not in get_args(LossReduction):
            raise DataLensError(f"loss_reduction must be mean or sum, got {loss_reduction!r}.")
        super().__init__(
            optimizer,
            noise_multiplier=noise_multiplier,
            max_grad_norm=max_grad_norm * (1 - ROUNDING),
            expected_batch_size=expected_batch_size,
            loss_reduction=loss_reduction,
        )
        self._refuse_coarse_parameters()
        self._workers = Workers(self.params[0].device)
        self._noise, self._key = noise, ""
        self._sigma = noise_multiplier * max_grad_norm
        self._bound = self.max_grad_norm
        self.steps_taken = 0
        self.most_steps: int | None = None
        """After so many, `step` refuses: more are not paid for."""
        self.batches_drawn: Callable[[], int] | None = None
        """How many there have been so far: a second step on one of them is refused."""
        self.looks_ahead = False
        """Whether batches are fetched before the steps on those before them."""

    @property
    def accumulated_iterations(self) -> int:
        """Batches in a step, as Opacus's accountants ask."""
        return 1

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
                p.summed_grad = torch.zeros_like(p, dtype=torch.float64)
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
        if all(getattr(p, "grad_sample", None) is None for p in self.params):
            raise DataLensError(
                "Nothing has gone back since the last step; every forward pass in training mode"
                " needs its loss.backward(), empty batches included, and others torch.no_grad()."
            )
        if self._check_skip_next_step():
            self._is_last_step_skipped = True
            self.accumulate()
            return
        self._refuse_unpaid_step()
        self.step_on(1, key=f"step/{self.steps_taken}")
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
        blocks = zip(*(rows.split(TOGETHER) for rows in self._rows()), strict=True)
        total = torch.stack(self._workers.share(blocks, self._total_of)).sum(0)
        for p, part in zip(self.params, total.split([p.numel() for p in self.params]), strict=True):
            before = 0 if p.summed_grad is None else p.summed_grad
            p.summed_grad = before + part.view_as(p)

    def add_noise(self) -> None:
        sums = [p.summed_grad.detach().flatten() for p in self.params]
        total = torch.cat(sums).cpu().numpy()
        noisy = torch.from_numpy(self._noise.add(total, sigma=self._sigma, key=self._key))
        for p, part in zip(self.params, noisy.split([len(s) for s in sums]), strict=True):
            p.grad = part.to(p).view_as(p)

    def scale_grad(self) -> None:
        if self.loss_reduction == "sum":
            return
        for p in self.params:  # by what was to be expected: how many were drawn is secret
            p.grad /= self.expected_batch_size

    def _rows(self) -> list[Tensor]:
        """For each parameter, a row of gradients for each example, in the parameter's precision."""
        found: list[Any] = [getattr(p, "grad_sample", None) for p in self.params]
        if any(isinstance(g, list) for g in found):
            raise DataLensError(
                "Two batches went back before one step, and a record may be in both; take a step"
                " after each, or divide a batch with Opacus's BatchMemoryManager."
            )
        lost = sum(g is None for g in found)
        if lost:
            raise DataLensError(
                f"{lost} of {len(found)} parameters got no gradient from this loss; freeze what it"
                " does not use with requires_grad_(False)."
            )
        pairs = zip(self.params, found, strict=True)
        return [g.to(p.dtype).reshape(len(g), p.numel()) for p, g in pairs]

    def _total_of(self, blocks: Iterator[tuple[Tensor, ...]]) -> Tensor:
        """A worker's part: the sum over the blocks it takes, in memory that it uses again."""
        size = sum(p.numel() for p in self.params)
        at_once = max(1, min(TOGETHER, IN_CACHE // size))
        total = self.params[0].new_zeros(size, dtype=torch.float64)
        room = self.params[0].new_empty(at_once, size)
        for block in blocks:
            for some in zip(*(rows.split(at_once) for rows in block), strict=True):
                gradients = room[: len(some[0])]
                torch.cat(some, dim=1, out=gradients)
                total += self._sum_of(gradients)
        return total

    def _sum_of(self, gradients: Tensor) -> Tensor:
        """Over some examples (examples, parameters), each within the bound."""
        return sum_on_grid(gradients, self._factors_of(gradients), self._bound)

    def _factors_of(self, gradients: Tensor) -> Tensor:
        """What each example's gradient is multiplied by, so that it is within the bound."""
        return factors(norms_of_finite(gradients), self._bound)

    def _refuse_unpaid_step(self) -> None:
        if self.most_steps is not None and self.steps_taken >= self.most_steps:
            raise DataLensError(
                f"All {self.most_steps} steps that the budget pays for are taken; plan more epochs."
            )
        if self.batches_drawn is not None and self.steps_taken >= self.batches_drawn():
            raise DataLensError(
                "There was a step on this batch already, and each needs a batch that is drawn"
                " anew; iterate over the loader in every epoch, one step for each batch."
            )

    def _refuse_coarse_parameters(self) -> None:
        kinds = {p.dtype for p in self.params}
        if len(kinds) != 1 or not kinds <= {torch.float32, torch.float64}:
            names = ", ".join(sorted(str(kind) for kind in kinds)) or "none"
            raise DataLensError(
                "Private steps need parameters that are all torch.float32, or all torch.float64,"
                f" got {names}: a bound cannot be kept to in less precision."
            )


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
