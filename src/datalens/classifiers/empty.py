"""Batches that nobody was drawn for: they happen, and a training loop should not notice."""

from collections.abc import Callable, Mapping
from typing import Any

from opacus.grad_sample import GradSampleModule
from torch import Tensor

from datalens.errors import DataLensError


class CollateOrEmpty:
    """Examples to a batch; without examples, a batch of the same kind that has no rows."""

    def __init__(self, collate: Callable[[list[Any]], Any], example: Any) -> None:
        self._collate = collate
        self._empty = without_rows(collate([example]))

    def __call__(self, examples: list[Any]) -> Any:
        return self._collate(examples) if examples else self._empty


class ExampleGradients(GradSampleModule):
    """Opacus's module, for batches that may be empty, whatever the model does with its input.

    Many models cannot compute on nothing. So a blank example is computed, and left out again: its
    gradient is zero.
    """

    def forward(self, batch: Any, *args: Any, **named: Any) -> Any:
        if args or named or not isinstance(batch, Tensor) or len(batch):
            return super().forward(batch, *args, **named)
        return without_rows(super().forward(batch.new_zeros(1, *batch.shape[1:])))


def without_rows(batch: Any) -> Any:
    """The same tensors, lists and mappings, without rows."""
    if isinstance(batch, Tensor):
        return batch[:0]
    if isinstance(batch, Mapping):
        return {name: without_rows(part) for name, part in batch.items()}
    if isinstance(batch, list | tuple):
        return [without_rows(part) for part in batch]
    raise DataLensError(
        f"A batch may be empty, and what {type(batch).__name__} then is cannot be told; use"
        " tensors, lists and mappings."
    )
