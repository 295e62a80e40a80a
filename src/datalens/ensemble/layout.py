"""Where a teacher's parameters lie: all of them in one row of numbers."""

from collections.abc import Mapping
from math import prod

from torch import Tensor

ALIGNMENT = 16
"""Every parameter begins at a multiple of so many numbers: a cache line of float32."""


class Layout:
    """Names and shapes of parameters, one behind the other in a row."""

    def __init__(self, shapes: Mapping[str, tuple[int, ...]]) -> None:
        self.shapes = dict(shapes)
        self.places: dict[str, tuple[int, tuple[int, ...]]] = {}
        end = 0
        for name, shape in shapes.items():
            strides = [prod(shape[axis + 1 :]) for axis in range(len(shape))]
            self.places[name] = end, tuple(strides)
            end += -(-prod(shape) // ALIGNMENT) * ALIGNMENT
        self.size = end
        """Numbers in a row, gaps included; the gaps hold zeros for ever."""

    def views(self, rows: Tensor) -> dict[str, Tensor]:
        """Each parameter of (teachers, size), as (teachers, *shape)."""
        teachers, begin = len(rows), rows.storage_offset()
        return {
            name: rows.as_strided(
                (teachers, *self.shapes[name]), (rows.stride(0), *strides), begin + offset
            )
            for name, (offset, strides) in self.places.items()
        }
