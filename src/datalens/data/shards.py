"""Who gets which record."""

from dataclasses import dataclass, field
from hashlib import shake_256

import numpy as np
import numpy.typing as npt

from datalens.errors import DataLensError

MIN_SHARD = 2
"""One record per teacher is no shard: such a teacher learns nothing but that record."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Shards:
    """Which record positions each teacher sees, and how many records no teacher sees."""

    positions: npt.NDArray[np.int64] = field(repr=False)
    """(n_teachers, shard_size)."""
    left_over: int

    def held_by(self, teachers: range) -> npt.NDArray[np.int64]:
        """The positions of these teachers' records, ascending. The first teacher's holder also
        has those that no teacher sees, so that every record is held by somebody."""
        mine = self.positions[teachers.start : teachers.stop].ravel()
        if teachers.start == 0:
            n_records = self.positions.size + self.left_over
            mine = np.setdiff1d(np.arange(n_records), self.positions[teachers.stop :])
        return np.sort(mine)

    @property
    def n_teachers(self) -> int:
        return int(self.positions.shape[0])

    @property
    def shard_size(self) -> int:
        return int(self.positions.shape[1])


def deal(n_records: int, n_teachers: int, *, seed: bytes) -> Shards:
    """Deal the positions 0 to n_records - 1 out to the teachers, equally many to each.

    Guarantee: a position reaches at most one teacher, and which one follows from `n_records`,
    `n_teachers` and `seed` alone. No pixel or label is looked at, so changing a record in place
    changes the shard of one teacher and leaves every other shard as it was. This holds for any
    seed; a secret one also hides who was left over.
    """
    if not isinstance(seed, bytes) or not seed:
        raise DataLensError("seed must be bytes, such as secrets.token_bytes(32).")
    size = shard_size(n_records, n_teachers)
    # Sorting 64-bit words of a cryptographic stream: from some shards nobody can tell the others,
    # and a run resumes with the shards it began with under any version of NumPy.
    words = np.frombuffer(shake_256(b"shards" + seed).digest(8 * n_records), dtype="<u8")
    order = np.argsort(words, kind="stable").astype(np.int64)
    dealt = n_teachers * size
    return Shards(
        positions=order[:dealt].reshape(n_teachers, size), left_over=int(n_records - dealt)
    )


def shard_size(n_records: int, n_teachers: int) -> int:
    """How many records each teacher gets; refuses what cannot be dealt."""
    for name, value in (("n_records", n_records), ("n_teachers", n_teachers)):
        if isinstance(value, bool) or not isinstance(value, int | np.integer) or value < 1:
            raise DataLensError(f"{name} must be a whole number of at least 1, got {value!r}.")
    size = n_records // n_teachers
    if size < MIN_SHARD:
        most = n_records // MIN_SHARD
        raise DataLensError(
            f"{n_teachers} teachers need at least {MIN_SHARD} records each, but there are "
            f"{n_records}: {f'use at most {most} teachers' if most else 'add records'}."
        )
    return size
