"""Gradient to ballot: Algorithm 2 of the paper (TopkStoSignGrad) and its ablations."""

from dataclasses import dataclass
from typing import Literal

import numpy as np
import torch
from torch import Tensor

from datalens.errors import DataLensError
from datalens.mechanism.events import positive
from datalens.mechanism.noise import Floats, Integers

ClipMode = Literal["raw", "relative"]


@dataclass(frozen=True, kw_only=True)
class BallotRule:
    """How a teacher turns a gradient into a ballot: at most `top_k` entries of -1/+1.

    Guarantee: a ballot has at most `top_k` non-zero entries, each an integer of size at most
    `levels` (1 when quantised), whatever the gradient is, NaN and infinity included. So its
    squared norm is at most `top_k * levels**2`, and a ballot that becomes any other ballot
    moves by at most twice the norm: `4 * top_k * levels**2` squared (Lemma 1). A teacher
    whose record is replaced rather than blanked also just casts another ballot: same bound.
    """

    top_k: int
    clip: float
    """Entries are cut at this size before they are scaled to [-1, 1]."""
    clip_mode: ClipMode = "relative"
    """"raw": `clip` is in the gradient's own units. "relative": a share of its largest entry."""
    levels: int = 1
    """1: stochastic signs. More: no sign quantisation, stochastic rounding to this many levels."""

    def __post_init__(self) -> None:
        positive(top_k=self.top_k, levels=self.levels)
        check_clip(self.clip, self.clip_mode)
        if self.levels >= 2**15:
            raise DataLensError(
                f"A ballot of {self.levels} levels could overflow; use levels below 2^15."
            )

    @property
    def what(self) -> str:
        return "votes"

    @property
    def unit(self) -> int:
        return self.levels

    @property
    def dice(self) -> int:
        return self.top_k

    @property
    def parameters(self) -> dict[str, int]:
        return {"top_k": self.top_k, "levels": self.levels}

    @property
    def spread(self) -> float:
        return 1.0

    @property
    def squared_sensitivity(self) -> int:
        """Largest squared move of a sum of ballots when one ballot becomes any other."""
        return 4 * self.top_k * self.levels**2

    def width(self, n_values: int) -> int:
        return n_values

    def cast(self, gradients: Tensor, uniforms: Tensor, *, into: Tensor) -> None:
        """Add the ballots of some teachers (teachers, images, values) to a tally."""
        places, votes = self.vote(gradients, uniforms)
        by_image = (x.transpose(0, 1).flatten(1).cpu() for x in (places, votes))
        into.scatter_add_(1, next(by_image), next(by_image).to(into.dtype))

    def decode(self, release: Integers) -> Floats:
        """Every entry is a value's own count."""
        return release.astype(np.float64)

    def vote(self, gradients: Tensor, uniforms: Tensor) -> tuple[Tensor, Tensor]:
        """Ballots from gradients (..., d) and uniforms (..., top_k) in [0, 1), sparse.

        That is, the places (..., top_k) a ballot names, each once, and its votes there as int16.
        In expectation a ballot is `levels` times the clipped, scaled gradient on the entries it
        names. A zero entry abstains, which keeps that true and keeps silent teachers silent.
        """
        d = gradients.shape[-1]
        if not self.top_k <= d:
            raise DataLensError(f"top_k is {self.top_k} but an image has only {d} values.")
        finite = gradients.nan_to_num(nan=0.0)  # infinities become the largest finite numbers
        places = finite.abs().topk(self.top_k, dim=-1, sorted=False).indices
        chosen = finite.gather(-1, places)  # with the largest entry among them
        votes = self._round(clipped(chosen, self.clip, self.clip_mode), uniforms.to(finite.device))
        return places, votes

    def _round(self, scaled: Tensor, uniforms: Tensor) -> Tensor:
        if self.levels == 1:
            signs = torch.where(uniforms < (1 + scaled) / 2, 1, -1)
            votes = torch.where(scaled == 0, 0, signs)
        else:
            votes = torch.floor(scaled * self.levels + uniforms).clamp(-self.levels, self.levels)
        return votes.to(torch.int16)


def check_clip(clip: float, mode: ClipMode) -> None:
    """Refuse what `clipped` cannot do."""
    positive(clip=clip)
    if mode not in ("raw", "relative"):
        raise DataLensError(f"clip_mode must be raw or relative, got {mode!r}.")
    if mode == "relative" and clip > 1:
        raise DataLensError(f"A relative clip is at most 1, got {clip!r}.")


def clipped(finite: Tensor, clip: float, mode: ClipMode) -> Tensor:
    """Cut entries (..., values) and divide by the largest: into [-1, 1], zero for zeros."""
    largest = finite.abs().amax(dim=-1, keepdim=True)
    bound = largest * clip if mode == "relative" else largest.clamp(max=clip)
    scaled = finite.clamp(-bound, bound) / bound
    return torch.where(bound > 0, scaled, 0.0).nan_to_num(nan=0.0).clamp(-1.0, 1.0)


def room(images: Tensor) -> Tensor:
    """A weight for gradients, the same for both signs, small where a pixel is black or white.

    Entries that point out of [0, 1] would otherwise fill the ballot with moves nobody can make.
    It depends only on the synthetic images, which are public.
    """
    return (images + 0.05) * (1.05 - images)
