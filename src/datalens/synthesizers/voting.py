"""Teachers to tally: every teacher casts a ballot on every image, and the ballots are counted."""

from collections.abc import Iterator
from typing import Protocol

import torch
from torch import Tensor

from datalens.data import PublicFacts, Records, Shards, deal
from datalens.ensemble import (
    ALONE,
    Ranks,
    Teachers,
    make_discriminator,
    own_teachers,
    stream,
)
from datalens.mechanism.ballots import room
from datalens.mechanism.noise import Integers
from datalens.mechanism.topagg import TopAgg
from datalens.synthesizers.settings import TeacherSettings

TYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16}


class EnsemblePlan(Protocol):
    """What a plan says of its teachers."""

    @property
    def settings(self) -> TeacherSettings: ...

    @property
    def public(self) -> PublicFacts: ...

    @property
    def n_teachers(self) -> int: ...

    @property
    def block_size(self) -> int: ...


def shards_of(plan: EnsemblePlan, secret: bytes) -> Shards:
    """A record reaches one teacher, or nobody if it is left over."""
    return deal(plan.public.n_records, plan.n_teachers, seed=secret + b"shards")


def teachers_of(plan: EnsemblePlan, ranks: Ranks) -> range:
    """The teachers that this rank has."""
    return own_teachers(
        ranks.rank,
        ranks.size,
        n_teachers=plan.n_teachers,
        block_size=plan.block_size,
    )


def hire(records: Records, plan: EnsemblePlan, secret: bytes, ranks: Ranks = ALONE) -> Teachers:
    """This rank's teachers, each with its shard."""
    chosen, public = plan.settings, plan.public
    shards, own = shards_of(plan, secret), teachers_of(plan, ranks)
    rows = records.rows(shards.positions[own.start : own.stop])
    return Teachers(
        discriminator=make_discriminator(
            chosen.discriminator,
            public.shape,
            public.n_classes,
            precision=TYPES[chosen.precision],
        ),
        images=torch.from_numpy(records.images[rows]),
        labels=torch.from_numpy(records.labels[rows]),
        secret=secret,
        first_teacher=own.start,
        starts=chosen.starts,
        block_size=plan.block_size,
        learning_rate=chosen.teacher_learning_rate,
        real_batch=min(chosen.real_batch or shards.shard_size, shards.shard_size),
        moments=TYPES[chosen.moments or "float32"],
        device=ranks.device,
    )


def count_votes(
    teachers: Teachers,
    images: Tensor,
    labels: Tensor,
    *,
    topagg: TopAgg,
    weigh_room: bool,
    secret: bytes,
    step: int,
) -> Integers:
    """The tally of each image (m, width): integers, and the last private thing.

    Chance in a ballot comes from its teacher's own stream.
    """
    weight = room(images).flatten(1).to(teachers.labels.device) if weigh_room else None
    shape = (len(images), topagg.ballot.dice)

    def count(asked: Iterator[tuple[range, Tensor]]) -> Tensor:
        tally = topagg.empty_tally(len(images), images[0].numel())
        for voters, gradients in asked:
            dice = [torch.rand(shape, generator=stream(secret, "ballot", v, step)) for v in voters]
            if weight is not None:
                gradients = gradients * weight
            topagg.count(gradients, torch.stack(dice), into=tally)
        return tally

    tallies = teachers.ask(images, labels, count)
    return torch.stack(tallies).sum(0).numpy()
