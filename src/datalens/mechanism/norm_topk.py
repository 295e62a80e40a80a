"""NormTopK: of each gradient, the largest entries that make up a share of its squared norm."""

from numbers import Real

import torch
from torch import Tensor

from datalens.errors import DataLensError
from datalens.mechanism.heaviest_cpu import keep_heaviest


def norm_topk(gradients: Tensor, keep: float) -> None:
    """Keep, in place, the largest entries of each row while their squares add up to its share.

    That is, to at most `keep` times the row's squared norm (NormTopK in the paper's Algorithm 4).
    All others become zero. If the largest entry alone is more than that, nothing is kept. Of equal
    entries the first are kept. A row that is not finite becomes zero.

    Guarantee: a row's norm becomes at most sqrt(keep) times what it was, up to the rounding of sums
    in double precision, whoever is in the other rows.
    """
    _keep_heaviest(gradients, keep, counted=False)


def dimension_topk(gradients: Tensor, keep: float) -> None:
    """Keep, in place, the share `keep` of each row's coordinates: those of the largest entries.

    Guarantee: no row becomes longer. Nor can more be said: a row whose norm lies in few coordinates
    keeps all of it.
    """
    _keep_heaviest(gradients, keep, counted=True)


def _keep_heaviest(gradients: Tensor, keep: float, *, counted: bool) -> None:
    check_share(keep=keep)
    if gradients.dim() != 2 or gradients.requires_grad:
        raise TypeError("gradients must be detached rows, one for each example")
    if keep == 1:
        return
    if gradients.device.type == "cpu" and gradients.dtype == torch.float32:
        keep_heaviest(gradients.numpy().view("int32"), keep, counted)
    else:
        keep_heaviest_by_sorting(gradients, keep, counted=counted)


def keep_heaviest_by_sorting(gradients: Tensor, keep: float, *, counted: bool) -> None:
    """The same on any device and in any precision."""
    finite = gradients.isfinite().all(dim=1, keepdim=True)
    gradients.masked_fill_(~finite, 0.0)
    order = gradients.abs().argsort(dim=1, descending=True, stable=True)
    squares = gradients.gather(1, order).double().square()
    weights = torch.ones_like(squares) if counted else squares
    spent = weights.cumsum(1)
    limit = keep * spent[:, -1:]
    within = spent <= (limit.round() if counted else limit)
    gradients.masked_fill_(~torch.zeros_like(within).scatter(1, order, within), 0.0)


def check_share(**named: float) -> None:
    """Refuse what is no share of a whole, naming it."""
    for name, value in named.items():
        if not isinstance(value, Real) or not 0 < value <= 1:  # NaN fails this too
            raise DataLensError(f"{name} must be above 0 and at most 1, got {value!r}.")
