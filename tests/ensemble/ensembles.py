"""Small ensembles to test on, and what to compare of them."""

from typing import Any

import torch
from torch import Tensor

from datalens.ensemble import Teachers, make_discriminator, stream
from datalens.ensemble.adam import Adam

SHAPE, CLASSES, N_TEACHERS, SHARD, M = (1, 12, 10), 4, 6, 5, 3


def shards(count: int = N_TEACHERS) -> tuple[Tensor, Tensor]:
    g = stream(b"shards")
    images = torch.randint(0, 256, (count, SHARD, *SHAPE), generator=g, dtype=torch.uint8)
    return images, torch.randint(0, CLASSES, (count, SHARD), generator=g)


def synthetic(step: int = 0) -> tuple[Tensor, Tensor]:
    g = stream(b"synthetic", step)
    return torch.rand(M, *SHAPE, generator=g), torch.randint(0, CLASSES, (M,), generator=g)


def by_class(step: int = 0) -> Tensor:
    """For each latent vector an image of every class."""
    return torch.rand(M, CLASSES, *SHAPE, generator=stream(b"by class", step))


def ensemble(
    name: str,
    images: Tensor | None = None,
    labels: Tensor | None = None,
    precision: torch.dtype = torch.float32,
    **settings: Any,
) -> Teachers:
    own_images, own_labels = shards()
    return Teachers(
        discriminator=make_discriminator(name, SHAPE, CLASSES, precision=precision),
        images=own_images if images is None else images,
        labels=own_labels if labels is None else labels,
        **{"secret": b"secret", "block_size": 4, **settings},
    )


def in_double(teachers: Teachers) -> Teachers:
    """The same ensemble in float64, where Adam does not turn rounding into steps of full size."""
    old = teachers.adam
    teachers.adam = Adam(
        old.weights.double(),
        learning_rate=old.learning_rate,
        betas=old.betas,
        moments=torch.float64,
    )
    return teachers


def trained(teachers: Teachers, steps: range = range(2), own_labels: bool = False) -> Teachers:
    for step in steps:
        others = by_class(step) if own_labels else None
        teachers.train(*synthetic(step), step=step, updates=2, by_class=others)
    return teachers


def gradients(teachers: Teachers) -> Tensor:
    return torch.cat([gradient for _, gradient in teachers.gradients(*synthetic(9))])


def everything(teachers: Teachers) -> dict[str, Tensor]:
    """All that a teacher is or says, by name; the leading axis is the teacher."""
    logits = teachers.logits(*synthetic(9))
    return teachers.state() | {"gradients": gradients(teachers), "logits": logits}
