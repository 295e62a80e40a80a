"""DP-SGD with TopAgg: each example's gradient is compressed before noise is added (Algorithm 4)."""

import math
from collections.abc import Iterator
from itertools import chain
from operator import itemgetter
from typing import Literal, get_args

import torch
from torch import Tensor

from datalens.classifiers.dpsgd import ROUNDING, LossReduction, PrivateOptimizer
from datalens.ensemble.workers import Workers
from datalens.errors import DataLensError
from datalens.mechanism.events import SampledGaussianRelease
from datalens.mechanism.noise import FloatNoise
from datalens.mechanism.norm_topk import check_share, dimension_topk, norm_topk

Variant = Literal["topagg", "dimensions", "full-noise", "no-noise"]
"""How gradients are compressed, and which noise the sum of them gets.

- topagg: NormTopK, and noise for a bound of sqrt(keep) times the clipping norm. The paper's.
- dimensions: a share `keep` of the coordinates, and noise for the clipping norm (Table 9).
- full-noise: NormTopK, and noise for the clipping norm all the same (TopK-GM-DP in Table 10).
- no-noise: NormTopK and no noise, NOT PRIVATE: what compression alone costs (TopK-SGD in Table 10,
  and with keep = 1 its clipped SGD).
"""

AT_ONCE = 64
"""Examples that are compressed together, so that their gradients stay in the cache."""
Block = tuple[int, tuple[Tensor, ...]]
"""Its number, and the gradients of its examples for each parameter."""
TINY = 1e-6
"""Against division by zero, as Opacus has it."""


class TopAggOptimizer(PrivateOptimizer):
    """DP-SGD on compressed gradients: with keep = 1, DP-SGD itself, bit for bit.

    Guarantee: an example's gradient is cut to norm `max_grad_norm` (C) and then to its largest
    entries. NormTopK leaves at most a share `keep` of its squared norm, so that what is added has
    norm at most sqrt(keep) * C; this is measured on what is added, and made so where it is not.
    Noise of sqrt(keep) * C * `noise_multiplier` is therefore `noise_multiplier` times what one
    example can move, and costs what a step of DP-SGD costs. A share of the *coordinates* may hold
    the whole norm: there the bound and the noise are those of C.
    """

    def __init__(
        self,
        optimizer: torch.optim.Optimizer,
        *,
        noise: FloatNoise,
        noise_multiplier: float,
        max_grad_norm: float,
        expected_batch_size: float,
        keep: float,
        variant: Variant = "topagg",
        loss_reduction: LossReduction = "mean",
    ) -> None:
        check_share(keep=keep)
        if variant not in get_args(Variant):
            raise DataLensError(
                f"Unknown variant {variant!r}; use one of {', '.join(get_args(Variant))}."
            )
        super().__init__(
            optimizer,
            noise=noise,
            noise_multiplier=noise_multiplier,
            max_grad_norm=max_grad_norm,
            expected_batch_size=expected_batch_size,
            loss_reduction=loss_reduction,
        )
        self.keep, self.variant = keep, variant
        self._workers = Workers(self.params[0].device)
        self._compress = dimension_topk if variant == "dimensions" else norm_topk
        root = 1.0 if variant == "dimensions" else math.sqrt(keep)
        self._bound = root * max_grad_norm * (1 - ROUNDING)
        if variant == "topagg":
            self._sigma *= root

    def clip_and_accumulate(self) -> None:
        if self.keep == 1:
            super().clip_and_accumulate()
            return
        self._refuse_two_batches()
        blocks = zip(*(g.flatten(1).split(AT_ONCE) for g in self.grad_samples), strict=True)
        found = self._workers.share(enumerate(blocks), self._sums_of)
        by_number = sorted(chain(*found), key=itemgetter(0))  # the same bits on any number of cores
        total = torch.stack([part for _, part in by_number]).sum(0)
        for p, part in zip(self.params, total.split([p.numel() for p in self.params]), strict=True):
            before = 0 if p.summed_grad is None else p.summed_grad
            p.summed_grad = before + part.view_as(p)

    def _sums_of(self, blocks: Iterator[Block]) -> list[tuple[int, Tensor]]:
        """A worker's part: the sum over each block it takes, in memory that it uses again."""
        found = []
        room = self.params[0].new_empty(AT_ONCE, sum(p.numel() for p in self.params))
        for number, block in blocks:
            gradients = room[: len(block[0])]
            torch.cat(block, dim=1, out=gradients)
            found.append((number, self._sum_of(gradients)))
        return found

    def _sum_of(self, gradients: Tensor) -> Tensor:
        """Over some examples (examples, parameters), compressed, each within the bound."""
        norms = gradients.norm(dim=1)
        broken = ~norms.isfinite()
        if bool(broken.any()):
            gradients[broken], norms[broken] = 0.0, 0.0
        self._compress(gradients, self.keep)
        kept = gradients.norm(dim=1)
        clip = self.max_grad_norm / (norms + TINY)
        within = self._bound / (kept + TINY)  # the clip alone would do, if compressing is right
        return torch.minimum(clip, within).clamp(max=1.0) @ gradients

    def add_noise(self) -> None:
        if self.variant != "no-noise":
            super().add_noise()
            return
        for p in self.params:  # NOT PRIVATE
            p.grad = p.summed_grad.clone()


def step_event(
    variant: Variant, *, noise_multiplier: float, sampling_probability: float
) -> SampledGaussianRelease:
    """What one step costs, for ledger and certificate. What is NOT PRIVATE has no cost to name."""
    if variant == "no-noise":
        raise DataLensError(
            "The variant no-noise adds no noise and is NOT PRIVATE, so that nothing can be"
            " certified; use topagg."
        )
    return SampledGaussianRelease(
        what="dp-sgd",
        sampling_probability=sampling_probability,
        noise_multiplier=noise_multiplier,
    )
