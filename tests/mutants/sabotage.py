"""Twelve ways to break the guarantee, each a small patch of the true code."""

from collections.abc import Callable, Iterable
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from datalens.data import Shards
from datalens.ensemble.adam import Adam
from datalens.ensemble.discriminator import Discriminator
from datalens.ensemble.workers import Workers
from datalens.mechanism.ballots import BallotRule
from datalens.mechanism.noise import ExactNoise, Integers, Noise, SeededNoise, Shape
from datalens.mechanism.topagg import TopAgg
from datalens.privacy.ledger import Ledger
from datalens.privacy.releases import NEW, Releases

Patch = pytest.MonkeyPatch


def shards_wrap_around(patch: Patch) -> None:
    """As in the public code: the last teachers get records of the first."""

    def deal(n_records: int, n_teachers: int, *, seed: bytes) -> Shards:
        size = n_records // n_teachers
        order = np.arange(n_teachers * size) % (n_records - n_records // 4)
        return Shards(positions=order.reshape(n_teachers, size), left_over=0)

    patch.setattr("datalens.synthesizers.voting.deal", deal)


def moments_are_shared(patch: Patch) -> None:
    """As in the public code: teachers take turns with one set of moments."""
    own_step = Adam.step

    def step(self: Adam, rows: slice, gradient: Tensor) -> None:
        own_step(self, rows, gradient)
        for moment in (self.first, self.second):
            moment[rows] = moment[rows].mean(0, keepdim=True)

    patch.setattr(Adam, "step", step)


def batch_statistics_are_shared(patch: Patch) -> None:
    def batch_norm(x: Tensor, scale: Tensor, shift: Tensor) -> Tensor:
        axes = (0, 1, 3, 4)  # the first is the teacher
        normal = (x - x.mean(axes, keepdim=True)) / (x.var(axes, keepdim=True) + 1e-5).sqrt()
        wide = (slice(None), None, slice(None), None, None)
        return normal * scale[wide] + shift[wide]

    patch.setattr("datalens.ensemble.reference.batch_norm", batch_norm)


def threads_are_taken_back(patch: Patch) -> None:
    """Workers choose one thread for themselves; then the process has its own number again."""
    true_share = Workers.share

    def share(self: Workers, items: Iterable[Any], work: Callable[..., Any]) -> list[Any]:
        try:
            return true_share(self, items, work)
        finally:
            torch.set_num_threads(torch.get_num_threads())

    alone = partial(torch.set_num_threads, 1)
    patch.setattr("datalens.ensemble.workers.compute_alone", alone)
    patch.setattr(Workers, "share", share)


def conversions_are_shared(patch: Patch) -> None:
    """Weights in bfloat16 are kept where every thread that is done empties the memory of all."""

    def products(self: Discriminator, device: torch.device) -> torch.autocast:
        lower = self.precision != torch.float32
        return torch.autocast(device.type, dtype=torch.bfloat16, enabled=lower)

    patch.setattr(Discriminator, "_products", products)


def noise_is_half(patch: Patch) -> None:
    def draw(self: TopAgg, shape: Shape, *, noise: Noise, key: str) -> Integers:
        return noise.draw(shape, sigma=self.event.sigma / 2, key=key)

    patch.setattr(TopAgg, "draw", draw)


def ballots_have_2k_entries(patch: Patch) -> None:
    true_vote = BallotRule.vote

    def vote(self: BallotRule, gradients: Tensor, uniforms: Tensor) -> tuple[Tensor, Tensor]:
        wider = replace(self, top_k=2 * self.top_k)
        return true_vote(wider, gradients, uniforms.repeat_interleave(2, dim=-1))

    patch.setattr(BallotRule, "vote", vote)


def ballots_let_nan_through(patch: Patch) -> None:
    """Entries below the k-th largest are put to zero. None is below NaN, so then all vote."""

    def vote(self: BallotRule, gradients: Tensor, uniforms: Tensor) -> tuple[Tensor, Tensor]:
        size = gradients.abs()
        least = size.topk(self.top_k, dim=-1).values[..., -1:]
        votes = torch.where(size < least, 0, torch.where(gradients > 0, 1, -1))
        places = torch.arange(gradients.shape[-1]).expand(gradients.shape)
        return places, votes.to(torch.int16)

    patch.setattr(BallotRule, "vote", vote)


def charge_comes_after_its_release(patch: Patch) -> None:
    def obtain(self: Releases, key: str, mechanism: Any, query: Any, *, shape: Any = None) -> Any:
        value = query()
        release = value + mechanism.draw(value.shape, noise=self.noise, key=key)
        count = mechanism.releases_in(value)
        self.ledger.spend(self.run, key, mechanism.event, count=count)
        return release

    patch.setattr(Releases, "obtain", obtain)


def noise_is_drawn_again_on_resume(patch: Patch) -> None:
    """A resumed run forgets what it has drawn; the charge is made once, as it should be."""
    true_spend = Ledger.spend

    def spend(self: Ledger, run: str, key: str, event: Any, *, count: int) -> None:
        if not self.has_spent(run, key):
            true_spend(self, run, key, event, count=count)

    patch.setattr(Releases, "_recall", lambda self, key: NEW)
    patch.setattr(Ledger, "spend", spend)


def noise_comes_from_a_fixed_seed(patch: Patch) -> None:
    seeded = SeededNoise(b"0")
    patch.setattr(ExactNoise, "draw", lambda self, *args, **named: seeded.draw(*args, **named))


def a_step_is_charged_once(patch: Patch) -> None:
    true_spend = Ledger.spend

    def spend(self: Ledger, run: str, key: str, event: Any, *, count: int) -> None:
        true_spend(self, run, key, event, count=1)

    patch.setattr(Ledger, "spend", spend)
