"""DP-SGD with TopAgg: each example's gradient is compressed before noise is added (Algorithm 4)."""

import math
from typing import Literal, get_args

import torch
from torch import Tensor

from datalens.classifiers.clipping import factors, norms_of, norms_of_finite
from datalens.classifiers.dpsgd import ROUNDING, Fixed, LossReduction, PrivateOptimizer
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


class TopAggOptimizer(PrivateOptimizer):
    """DP-SGD on compressed gradients: with keep = 1, DP-SGD itself, bit for bit.

    Guarantee: an example's gradient is cut to norm `max_grad_norm` (C) and then to its largest
    entries. NormTopK leaves at most a share `keep` of its squared norm, so that what is added has
    norm at most sqrt(keep) * C; this is measured on what is added, and made so where it is not.
    Noise of sqrt(keep) * C * `noise_multiplier` is therefore `noise_multiplier` times what one
    example can move, and costs what a step of DP-SGD costs. A share of the *coordinates* may hold
    the whole norm: there the bound and the noise are those of C.
    """

    keep = Fixed()
    variant = Fixed()

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
        self._compress = dimension_topk if variant == "dimensions" else norm_topk
        root = 1.0 if variant == "dimensions" else math.sqrt(keep)
        self._bound = root * max_grad_norm * (1 - ROUNDING)
        if variant == "topagg":
            self._sigma *= root

    def _factors_of(self, gradients: Tensor) -> Tensor:
        if self.keep == 1:
            return super()._factors_of(gradients)
        clip = factors(norms_of_finite(gradients), self.max_grad_norm)
        self._compress(gradients, self.keep)
        within = factors(norms_of(gradients), self._bound)  # the clip would do, if that is right
        return torch.minimum(clip, within)

    def add_noise(self) -> None:
        if self.variant != "no-noise":
            super().add_noise()
            return
        for p in self.params:  # NOT PRIVATE
            p.grad = p.summed_grad.to(p)


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
