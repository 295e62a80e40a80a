"""Adam for stacked teachers: every teacher has moments of its own."""

from functools import lru_cache
from math import sqrt
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from datalens.ensemble.adam_cpu import adam, adam_packed

EPSILON = 1e-8


class Adam:
    """Moves rows of weights in place; a row is one teacher's.

    **Guarantee**: element-wise. What becomes of a teacher's weights and moments is a function of
    that teacher's gradients, weights, moments and step count; nothing is shared.

    ``moments`` is the weights' own precision, or bfloat16 to halve the memory. A second moment
    that decays by 0.1 % a step cannot move in bfloat16, whose numbers are 0.4 to 0.8 % apart, so
    moments are then rounded up or down at random, right on average.
    """

    def __init__(
        self,
        weights: Tensor,
        *,
        learning_rate: float,
        betas: tuple[float, float],
        moments: torch.dtype = torch.float32,
    ) -> None:
        self.weights = weights
        self.learning_rate = learning_rate
        self.betas = betas
        self.first = torch.zeros_like(weights, dtype=moments)
        self.second = torch.zeros_like(weights, dtype=moments)
        self.steps = torch.zeros(len(weights), dtype=torch.int64)
        """Steps taken, per teacher."""

        self.packed = moments == torch.bfloat16
        self.arrays: list[NDArray[Any]] | None = None
        """Weights and both moments for compiled loops, where there are; bfloat16 as int16."""
        if weights.device.type == "cpu" and weights.dtype == torch.float32:
            kinds = (weights, self.first, self.second)
            self.arrays = [
                (t.view(torch.int16) if t.dtype == torch.bfloat16 else t).numpy() for t in kinds
            ]

    @torch.no_grad()
    def step(self, rows: slice, gradient: Tensor) -> None:
        """One step of some teachers, which have all taken equally many; gradient (teachers, n)."""
        step = int(self.steps[rows.start]) + 1
        if self.arrays is not None:
            self._step_compiled(rows, gradient, step)
        else:
            self._step_anywhere(rows, gradient, step)
        self.steps[rows] += 1

    def _step_anywhere(self, rows: slice, gradient: Tensor, step: int) -> None:
        rate, root = corrections(step, self.learning_rate, self.betas)
        p, m, v = self.weights[rows], self.first[rows], self.second[rows]
        m32, v32 = m.to(p.dtype), v.to(p.dtype)
        m32.lerp_(gradient, 1 - self.betas[0])
        v32.mul_(self.betas[1]).addcmul_(gradient, gradient, value=1 - self.betas[1])
        p.addcdiv_(m32, v32.sqrt().mul_(root).add_(EPSILON), value=-rate)
        if m.dtype != p.dtype:
            chance = dice(v32, step)
            m.copy_(round_by_chance(m32, chance))
            v.copy_(round_by_chance(v32, chance))

    def _step_compiled(self, rows: slice, gradient: Tensor, step: int) -> None:
        arrays = [array[rows].reshape(-1) for array in self.arrays or ()]
        p, m, v = arrays
        kernel = adam_packed if self.packed else adam
        kernel(p, gradient.view(-1).numpy(), m, v, self.constants(step))

    def constants(self, step: int) -> tuple[Any, ...]:
        """What the compiled loops take for this step, the first being 1."""
        return constants(step, self.learning_rate, self.betas)


def corrections(step: int, learning_rate: float, betas: tuple[float, float]) -> tuple[float, float]:
    """How fast to go, and what the root of the second moment is to be multiplied with."""
    beta1, beta2 = betas
    return learning_rate / (1 - beta1**step), 1 / sqrt(1 - beta2**step)


@lru_cache(maxsize=8)
def constants(
    step: int, learning_rate: float, betas: tuple[float, float]
) -> tuple[np.float32 | np.int32, ...]:
    """What the compiled loops take."""
    rate, root = corrections(step, learning_rate, betas)
    floats = (np.float32(x) for x in (*betas, rate, root, EPSILON))
    return (*floats, np.int32(key_of(step)))


def key_of(step: int) -> int:
    """What a step's dice are mixed with."""
    return (step * 0x9E3779B1 + 0x7F4A7C15) & 0x7FFFFFFF


def dice(numbers: Tensor, step: int) -> Tensor:
    """A number from 0 to 65,535 for each of some numbers: a hash of it and of the step.

    It belongs to the teacher whose number it is, and needs no memory.
    """
    bits = numbers.view(torch.int32) ^ key_of(step)
    return bits.mul_(0x2C1B3C6D).bitwise_right_shift_(16).bitwise_and_(0xFFFF)


def round_by_chance(x: Tensor, chance: Tensor) -> Tensor:
    """Each float32 as one of its two neighbours in bfloat16, the nearer the likelier."""
    return (x.view(torch.int32) + chance).bitwise_and_(-0x10000).view(torch.float32).bfloat16()
