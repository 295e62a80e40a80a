"""How long a plan will take on this machine, and how much memory: measured rates, times counts.

What is measured is done with random pixels; no record is needed.
"""

import math
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from datalens.classifiers.features import BOUND, features, n_features
from datalens.classifiers.labeller import RESIDUALS
from datalens.data import PublicFacts, shard_size
from datalens.ensemble import Teachers, make_discriminator, stream
from datalens.mechanism.gradients import GradientSums
from datalens.mechanism.moments import SecondMoments
from datalens.mechanism.noise import ExactNoise
from datalens.student.gaussian import SMOOTHNESS
from datalens.synthesizers.kept import grid_values
from datalens.synthesizers.plan import Plan, VotingPlan
from datalens.synthesizers.warm_start import WarmStartPlan

NOISES, RECORDS, TEACHERS, SHARD, IMAGES = 20_000, 512, 16, 20, 32


@dataclass(frozen=True, kw_only=True)
class Rates:
    """Seconds on this machine, for images of one shape."""

    noise: float
    """A value of exact noise."""
    moment: float
    """A record in the second moments."""
    eigen: float
    """The directions of a covariance."""
    feature: float
    """A record's features."""
    gradient: float
    """A record in one gradient of the labeller."""
    update: float
    """One teacher's update, for each record and image that it sees."""
    ballot: float
    """One teacher's gradients, for each image."""


def calibrate(public: PublicFacts) -> Rates:
    """Measure this machine, each thing once after it has warmed up: about ten seconds."""
    values, classes = grid_values(public.shape), public.n_classes
    chance = np.random.default_rng(0)
    images = chance.integers(0, 256, (RECORDS, *public.shape), dtype=np.uint8)
    labels = np.arange(RECORDS) % classes
    small = images.reshape(RECORDS, -1)[:, :values]
    centres = np.full((classes, values), 128)
    second = SecondMoments(bound=10**6, sigma=1.0, centres=centres)
    seen = features(images)
    wrong = np.ones((RECORDS, classes), dtype=np.int16)
    gradients = GradientSums(features=BOUND, residuals=RESIDUALS, sigma=1.0)
    cloud = chance.normal(size=(values, values))
    update, ballot = _teachers(public)
    return Rates(
        noise=_timed(lambda: ExactNoise().draw((NOISES,), sigma=1e4, key="plan")) / NOISES,
        moment=_timed(lambda: second.query(small, labels)) / RECORDS,
        eigen=_timed(lambda: np.linalg.eigh(cloud + cloud.T)),
        feature=_timed(lambda: features(images)) / RECORDS,
        gradient=_timed(lambda: gradients.query(seen, wrong)) / RECORDS,
        update=update,
        ballot=ballot,
    )


def seconds(plan: Plan, rates: Rates) -> float:
    """What `fit` will take, clusters and the student's own learning left out."""
    total, n = 0.0, plan.public.n_records
    values, grid = math.prod(plan.public.shape), grid_values(plan.public.shape)
    if plan.start is not None:
        total += n * rates.moment + len(SMOOTHNESS) * rates.eigen
        total += rates.noise * grid * (plan.public.n_classes + (grid + 1) / 2)
    if isinstance(plan.start, WarmStartPlan) and plan.start.labeller is not None:
        entries = n_features(plan.public.shape[0]) * plan.public.n_classes
        each = n * rates.gradient + entries * rates.noise
        total += n * rates.feature + plan.start.labeller.steps * each
    if isinstance(plan, VotingPlan):
        shard = shard_size(n, plan.n_teachers)
        updates = plan.settings.teacher_warm_up + plan.steps * plan.settings.teacher_updates
        seen = min(plan.settings.real_batch or shard, shard) + plan.batch_size
        images = plan.steps * plan.batch_size
        teaching = updates * seen * rates.update + images * rates.ballot
        total += plan.n_teachers * teaching + images * values * rates.noise
    return total


def memory(plan: Plan) -> int:
    """Bytes of records, moments, features and teachers at once; the program itself comes on top."""
    n, values = plan.public.n_records, math.prod(plan.public.shape)
    total = n * values
    if plan.start is not None:
        total += 4 * 8 * grid_values(plan.public.shape) ** 2
    if isinstance(plan.start, WarmStartPlan) and plan.start.labeller is not None:
        total += 2 * n * n_features(plan.public.shape[0])
    if isinstance(plan, VotingPlan):
        discriminator = make_discriminator(
            plan.settings.discriminator, plan.public.shape, plan.public.n_classes
        )
        each = 4 + 2 * (2 if plan.settings.moments == "bfloat16" else 4)
        total += plan.n_teachers * discriminator.layout.size * each
        total += plan.n_teachers * shard_size(n, plan.n_teachers) * values
    return total


def _teachers(public: PublicFacts) -> tuple[float, float]:
    """Seconds of an update for each image it sees, and of a ballot for each image."""
    g = stream(b"plan", "calibration")
    shape = (TEACHERS, SHARD, *public.shape)
    labels = torch.randint(0, public.n_classes, (TEACHERS, SHARD), generator=g)
    teachers = Teachers(
        discriminator=make_discriminator("compact", public.shape, public.n_classes),
        images=torch.randint(0, 256, shape, generator=g, dtype=torch.uint8),
        labels=labels,
        secret=b"plan",
    )
    images = torch.rand(IMAGES, *public.shape, generator=g)
    shown = torch.randint(0, public.n_classes, (IMAGES,), generator=g)
    update = _timed(lambda: teachers.train(images, shown, step=0))
    ballot = _timed(lambda: teachers.ask(images, shown, _nothing))
    return update / TEACHERS / (SHARD + IMAGES), ballot / TEACHERS / IMAGES


def _nothing(asked: Iterator[tuple[range, Tensor]]) -> None:
    for _ in asked:
        pass


def _timed(work: Callable[[], object]) -> float:
    """The second time: the first compiles and fetches."""
    work()
    started = time.perf_counter()
    work()
    return time.perf_counter() - started
