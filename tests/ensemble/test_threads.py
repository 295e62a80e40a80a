"""The same teachers, bit for bit, on any number of threads, whatever else the process does."""

from concurrent.futures import ThreadPoolExecutor
from functools import cache

import pytest
import torch
from torch import Tensor

from datalens.ensemble import DISCRIMINATORS, own_teachers

from .ensembles import ensemble, everything, shards, trained
from .test_isolation import RECORD, VICTIM, differing
from .threads import disturbed, threads

COUNT, BLOCK, RUNS = 16, 2, 3
PRECISIONS = [torch.float32, torch.bfloat16]


def after_training(
    name: str, precision: torch.dtype, rows: range = range(COUNT), *, changed: bool = False
) -> dict[str, Tensor]:
    """All that these teachers are; in the shard of one of them a record may be another."""
    images, labels = shards(COUNT)
    if changed:
        images[VICTIM, RECORD] ^= 255
    own = slice(rows.start, rows.stop)
    teachers = ensemble(
        name,
        images[own],
        labels[own],
        precision,
        block_size=BLOCK,
        first_teacher=rows.start,
    )
    return everything(trained(teachers))


@cache
def on_one_thread(name: str, precision: torch.dtype) -> dict[str, Tensor]:
    return after_training(name, precision)


def same_on_threads(
    name: str, precision: torch.dtype, expected: dict[str, Tensor], count: int
) -> bool:
    """Whether the same records give the same teachers, run by run, under load."""
    with threads(count), disturbed():
        found = [after_training(name, precision) for _ in range(RUNS)]
    return not any(differing(expected, again) for again in found)


@pytest.mark.parametrize("count", [1, 2, 4])
@pytest.mark.parametrize("precision", PRECISIONS, ids=str)
@pytest.mark.parametrize("name", DISCRIMINATORS)
def test_isolation(name: str, precision: torch.dtype, count: int) -> None:
    """Nothing changes where no record did, and one teacher where one record did."""
    expected = on_one_thread(name, precision)
    assert same_on_threads(name, precision, expected, count)
    with threads(count), disturbed():
        changed = after_training(name, precision, changed=True)
    assert differing(expected, changed) == {VICTIM}


@pytest.mark.parametrize("size, count", [(1, 4), (2, 1), (2, 2), (4, 4)])
@pytest.mark.parametrize("precision", PRECISIONS, ids=str)
@pytest.mark.parametrize("name", DISCRIMINATORS)
def test_ranks(name: str, precision: torch.dtype, size: int, count: int) -> None:
    """Ranks have the teachers that one would have; here they are threads, and run side by side."""

    def teach(rank: int) -> dict[str, Tensor]:
        torch.set_num_threads(count)
        rows = own_teachers(rank, size, n_teachers=COUNT, block_size=BLOCK)
        return after_training(name, precision, rows)

    with threads(count), ThreadPoolExecutor(size) as pool:
        parts = list(pool.map(teach, range(size)))
    together = {part: torch.cat([own[part] for own in parts]) for part in parts[0]}
    assert differing(on_one_thread(name, precision), together) == set()
