"""From records to tally: a record reaches one teacher and moves a tally by at most 2 sqrt(k)."""

import numpy as np
import pytest
import torch

from datalens import Records
from datalens.synthesizers import voting
from datalens.synthesizers.plan import DataLensPlan
from datalens.synthesizers.settings import DataLensSettings

SECRET = b"s" * 32
M, N = 4, 8


def records() -> Records:
    chance = np.random.default_rng(0)
    images = chance.integers(0, 256, (50, 1, 8, 8), dtype=np.uint8)
    return Records.from_arrays(images, np.arange(50) % 3, n_classes=3)


def plan(discriminator: str, compressor: str = "topagg") -> DataLensPlan:
    settings = DataLensSettings(
        epsilon=5.0,
        discriminator=discriminator,  # type: ignore[arg-type]
        n_teachers=N,
        steps=3,
        batch_size=M,
        top_k=9,
        warm_start=False,
        compressor=compressor,  # type: ignore[arg-type]
    )
    return DataLensPlan.resolve(settings, records().public)


def trained(
    source: Records, discriminator: str, compressor: str = "topagg"
) -> tuple[voting.Teachers, np.ndarray]:
    """Teachers after three updates against fixed images, and their tally."""
    own = plan(discriminator, compressor)
    teachers = voting.hire(source, own, SECRET)
    chance = torch.Generator().manual_seed(0)
    images = torch.rand(M, 1, 8, 8, generator=chance)
    labels = torch.arange(M) % 3
    teachers.train(images, labels, step=0, updates=3)
    tally = voting.count_votes(
        teachers, images, labels, topagg=own.topagg, weigh_room=True, secret=SECRET, step=0
    )
    return teachers, tally


def changed(position: int, *, label: bool) -> Records:
    source = records()
    images, labels = source.images.copy(), source.labels.copy()
    if label:
        labels[position] = (labels[position] + 1) % 3
    else:
        images[position] = 0  # blanked
    return Records.from_arrays(images, labels, n_classes=3)


def touched(a: voting.Teachers, b: voting.Teachers) -> set[int]:
    """Teachers that differ in any bit of their state."""
    one, two = a.state(), b.state()
    return {
        teacher
        for name in one
        if one[name].ndim > 0 and len(one[name]) == N
        for teacher in range(N)
        if not torch.equal(one[name][teacher], two[name][teacher])
    }


@pytest.mark.parametrize(
    "discriminator, compressor",
    [
        ("compact", "topagg"),
        ("reference", "topagg"),
        ("compact", "d2pfed"),
        ("compact", "fetchsgd"),
    ],
)
@pytest.mark.parametrize("label", [False, True])
def test_one_record_changes_one_teacher_and_moves_the_tally_within_bounds(
    discriminator: str, compressor: str, label: bool
) -> None:
    teachers, tally = trained(records(), discriminator, compressor)
    squared = plan(discriminator, compressor).topagg.event.squared_sensitivity
    reached = []
    for position in range(0, 50, 7):
        others, moved_tally = trained(changed(position, label=label), discriminator, compressor)
        reached.append(touched(teachers, others))
        assert ((tally - moved_tally) ** 2).sum(axis=1).max() <= squared
    assert all(len(who) <= 1 for who in reached)  # two records are left over and reach nobody
    assert sum(len(who) for who in reached) >= len(reached) - 2


def test_shards_that_wrap_around_are_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    """The mutant: dealing that hands some records out twice."""

    def wrapping(n_records: int, n_teachers: int, *, seed: bytes) -> object:
        size = n_records // n_teachers + 2
        positions = (np.arange(n_teachers * size) % n_records).reshape(n_teachers, size)
        return type("Shards", (), {"positions": positions, "shard_size": size})()

    monkeypatch.setattr(voting, "deal", wrapping)
    teachers, _ = trained(records(), "compact")
    others, _ = trained(changed(0, label=False), "compact")
    assert len(touched(teachers, others)) > 1
