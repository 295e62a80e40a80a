"""Adam for stacked teachers: every teacher has moments of its own."""

from collections.abc import Mapping

import torch
from torch import Tensor
from torch.optim.adam import adam as torch_adam

EPSILON = 1e-8
CHUNK = 1 << 17
"""Numbers unpacked from half precision at a time: few enough to stay in the cache."""


class Adam:
    """Moves stacked parameters in place, a block of teachers at a time.

    **Guarantee**: element-wise. What becomes of a teacher's parameters and moments is a function of
    that teacher's gradients, parameters, moments and step count; nothing is shared.

    ``moments`` is the parameters' own precision, or bfloat16 to halve the memory. A second moment
    that decays by 0.1 % a step cannot move in bfloat16, whose numbers are 0.4 to 0.8 % apart, so
    moments are then rounded up or down at random, right on average (``round_by_chance``).
    """

    def __init__(
        self,
        parameters: Mapping[str, Tensor],
        *,
        learning_rate: float,
        betas: tuple[float, float],
        moments: torch.dtype = torch.float32,
    ) -> None:
        self.parameters = parameters
        self.learning_rate = learning_rate
        self.betas = betas
        self.first = {k: torch.zeros_like(p, dtype=moments) for k, p in parameters.items()}
        self.second = {k: torch.zeros_like(p, dtype=moments) for k, p in parameters.items()}
        n_teachers = len(next(iter(parameters.values())))
        self.steps = torch.zeros(n_teachers, dtype=torch.int64)
        """Steps taken, per teacher."""

    @torch.no_grad()
    def step(self, block: slice, gradients: Mapping[str, Tensor]) -> None:
        """One step of the teachers in ``block``, which have all taken equally many."""
        taken = int(self.steps[block][0])
        for name, gradient in gradients.items():
            stacked = (self.parameters[name], self.first[name], self.second[name])
            p, m, v = (tensor[block].view(-1) for tensor in stacked)
            g = gradient.reshape(-1)
            if m.dtype == p.dtype:
                self._move(taken, p, g, m, v)
            else:
                for piece in zip(*(t.split(CHUNK) for t in (p, g, m, v)), strict=True):
                    self._move_packed(taken, *piece)
        self.steps[block] += 1

    def _move(self, taken: int, p: Tensor, g: Tensor, m: Tensor, v: Tensor) -> None:
        torch_adam(
            [p],
            [g],
            [m],
            [v],
            max_exp_avg_sqs=[],
            state_steps=[torch.tensor(float(taken), device=p.device)],
            fused=True,
            amsgrad=False,
            beta1=self.betas[0],
            beta2=self.betas[1],
            lr=self.learning_rate,
            weight_decay=0.0,
            eps=EPSILON,
            maximize=False,
        )

    def _move_packed(self, taken: int, p: Tensor, g: Tensor, m: Tensor, v: Tensor) -> None:
        m32, v32 = m.float(), v.float()
        self._move(taken, p, g, m32, v32)
        m.copy_(round_by_chance(m32, taken))
        v.copy_(round_by_chance(v32, taken))


def round_by_chance(x: Tensor, step: int) -> Tensor:
    """Each float32 as one of its two neighbours in bfloat16, the nearer the likelier.

    The dice are a hash of the number itself and of the step, so they belong to the teacher whose
    number it is, and need no memory.
    """
    bits = x.view(torch.int32)
    key = (step * 0x9E3779B1 + 0x7F4A7C15) & 0x7FFFFFFF
    dice = (bits ^ key).mul_(0x2C1B3C6D).bitwise_right_shift_(16).bitwise_and_(0xFFFF)
    return dice.add_(bits).bitwise_and_(-0x10000).view(torch.float32).to(torch.bfloat16)
