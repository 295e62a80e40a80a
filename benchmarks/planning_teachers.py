"""Compact teachers who are asked once, and how far they agree: measured, beside what is told."""

import argparse
from collections.abc import Iterator
from itertools import product
from typing import Any

import numpy as np
import torch
from planning_grid import correlation

from datalens.data import Records, deal, load
from datalens.ensemble import Teachers, make_discriminator
from datalens.mechanism.ballots import BallotRule, room
from datalens.synthesizers.quorum import agreement

TEACHERS, PER_CLASS = 60, 1
SPREAD = 0.15
"""Of the noise on the class means that teachers are asked about."""
SHARDS, UPDATES, TOP_KS = (10, 20, 60), (20, 40), (3, 12, 49, 196, 784)


def agreement_grid(given: argparse.Namespace) -> dict[str, Any]:
    """Pairs of ballots: their product over k, its root being the net share on a named entry."""
    rows = [
        row for name in given.datasets for row in _agreed(name, load(name, data_dir=given.data_dir))
    ]
    found: dict[str, Any] = {"rows": rows, "spearman": {}, "largest_ratio": {}}
    for name in given.datasets:
        ours = [row for row in rows if row["data"] == name]
        ratios = np.abs(np.log([row["seen"] / row["told"] for row in ours]))
        found["spearman"][name] = correlation(ours)
        found["largest_ratio"][name] = float(np.exp(ratios.max()))
    return found


def _agreed(name: str, records: Records) -> Iterator[dict[str, Any]]:
    for shard, updates in product(SHARDS, UPDATES):
        chance = torch.Generator().manual_seed(0)
        gradients = asked_once(records, shard, updates, chance)
        for k in TOP_KS:
            seen = paired(gradients, k, chance)
            told = agreement(k, gradients.shape[-1], shard)
            row = {"data": name, "shard": shard, "updates": updates, "top_k": k}
            yield row | {"seen": seen, "told": told}


def asked_once(records: Records, shard: int, updates: int, chance: torch.Generator) -> torch.Tensor:
    """Gradients (teachers, images, values) after so many updates, weighed by room as in a vote."""
    n = records.public.n_records
    shards = deal(n, n // shard, seed=b"planning").positions[:TEACHERS]
    teachers = Teachers(
        discriminator=make_discriminator("compact", records.public.shape, records.public.n_classes),
        images=torch.from_numpy(records.images[shards]),
        labels=torch.from_numpy(records.labels[shards]),
        secret=b"planning",
        learning_rate=1e-3,
    )
    shown, labels = shown_images(records, chance)
    for step in range(updates):
        teachers.train(shown, labels, step=step)
    parts = [part for _, part in teachers.gradients(shown, labels)]
    return torch.cat(parts) * room(shown).flatten(1)


def shown_images(records: Records, chance: torch.Generator) -> tuple[torch.Tensor, torch.Tensor]:
    classes = records.public.n_classes
    labels = torch.arange(classes * PER_CLASS) % classes
    pixels = torch.from_numpy(records.images).float() / 255
    means = torch.stack([pixels[records.labels == c].mean(0) for c in range(classes)])
    noise = torch.randn(len(labels), *records.public.shape, generator=chance)
    return (means[labels] + SPREAD * noise).clamp(0, 1), labels


def paired(gradients: torch.Tensor, k: int, chance: torch.Generator) -> float:
    teachers, m, d = gradients.shape
    dice = torch.rand(teachers, m, k, generator=chance)
    places, votes = BallotRule(top_k=k, clip=1.0).vote(gradients, dice)
    tally = torch.zeros(m, d)
    by_image = (x.transpose(0, 1).flatten(1) for x in (places, votes.float()))
    tally.scatter_add_(1, next(by_image), next(by_image))
    pairs = (tally**2).sum(1) - (votes != 0).sum((0, 2))
    return float(pairs.mean() / (teachers * (teachers - 1) * k)) ** 0.5
