"""dpgan: what one record moves, what a plan fixes, and how a run goes on."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from datalens.classifiers.dpsgd import PrivateOptimizer
from datalens.data import Records
from datalens.errors import DataLensError
from datalens.synthesizers import dpgan
from datalens.synthesizers.dpgan import DpGan, PrivateGan
from datalens.synthesizers.session import Session, Silent, Stopped

SMALL: dict[str, Any] = {"epsilon": 10.0, "steps": 12, "batch_size": 6, "latent": 4, "width": 2}
BOUND = 0.25


def records(n: int = 60) -> Records:
    images = np.random.default_rng(0).integers(0, 256, (n, 1, 8, 8), dtype=np.uint8)
    return Records.from_arrays(images, np.arange(n) % 3, n_classes=3, name="spots")


def gan(folder: Path, **changes: Any) -> PrivateGan:
    made = DpGan(**{**SMALL, "max_grad_norm": BOUND, **changes})
    session = Session.start(ledger="x", folder=folder / "internal", seed=1)
    return PrivateGan(made.resolve(records().public), records(), session, torch.full((3,), 1 / 3))


@pytest.fixture
def sums(monkeypatch: pytest.MonkeyPatch) -> list[Tensor]:
    """What would have been noised, step by step."""
    seen: list[Tensor] = []

    def add_noise(self: PrivateOptimizer) -> None:
        seen.append(torch.cat([p.summed_grad.flatten().clone() for p in self.params]))
        for p in self.params:
            p.grad = torch.zeros_like(p)

    monkeypatch.setattr(PrivateOptimizer, "add_noise", add_noise)
    return seen


def by_turn(self: PrivateGan, drawn: np.ndarray, number: int) -> Tensor:
    """The mutant: latent vectors by a record's place in the batch, which others decide too."""
    return self._latents(len(drawn), number, "against")


@pytest.mark.parametrize("partners, holds", [(PrivateGan._partners, True), (by_turn, False)])
def test_a_record_moves_the_sum_by_no_more_than_the_bound(
    partners: Callable[..., Tensor],
    holds: bool,
    tmp_path: Path,
    sums: list[Tensor],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(PrivateGan, "_partners", partners)
    made, drawn = gan(tmp_path), np.arange(0, 40)
    for absent in range(40):
        made._criticise(drawn, 0)
        made._criticise(np.delete(drawn, absent), 0)
    moved = [float((a - b).norm()) for a, b in zip(sums[::2], sums[1::2], strict=True)]
    assert max(moved) > 0.9 * BOUND  # the bound is reached
    assert (max(moved) <= BOUND) is holds


def test_an_example_is_a_record_up_and_its_partner_down(tmp_path: Path, sums: list[Tensor]) -> None:
    made, drawn = gan(tmp_path, max_grad_norm=1e3), np.array([3, 17, 44])
    made._criticise(drawn, 5)
    labels = torch.from_numpy(records().labels[drawn])
    real = torch.from_numpy(records().images[drawn]).float() / 255
    fake = made.generator(made._partners(drawn, 5), labels).detach()
    made._watched.disable_hooks()
    loss = made._critic(fake, labels).sum() - made._critic(real, labels).sum()
    slow = torch.autograd.grad(loss, list(made._critic.parameters()))
    assert torch.allclose(
        sums[0], torch.cat([g.flatten() for g in slow]).double(), rtol=1e-3, atol=1e-4
    )


def test_weights_of_the_critic_stay_within_the_clip(tmp_path: Path) -> None:
    made = gan(tmp_path, weight_clip=0.02)
    for number in range(3):
        made.step(number)
        assert max(float(w.detach().abs().max()) for w in made._critic.parameters()) <= 0.02


def test_the_generator_moves_after_every_few_steps_and_the_critic_not_by_it(tmp_path: Path) -> None:
    made = gan(tmp_path, critic_steps=3)
    moved = []
    for number in range(6):
        before = [w.detach().clone() for w in made.generator.parameters()]
        made.step(number)
        after = made.generator.parameters()
        moved.append(any(not torch.equal(a, b) for a, b in zip(before, after, strict=True)))
    assert moved == [False, False, True, False, False, True]
    critic = [w.detach().clone() for w in made._critic.parameters()]
    made._generate(99)
    assert all(torch.equal(a, b) for a, b in zip(critic, made._critic.parameters(), strict=True))
    assert all(w.grad is None for w in made._critic.parameters())


def test_a_plan_is_the_same_from_its_own_configuration() -> None:
    plan = DpGan(**SMALL).resolve(records().public)
    again = DpGan(**plan.settings.model_dump()).resolve(records().public)
    assert again.sha256 == plan.sha256 and again.event == plan.event
    assert plan.event.sampling_probability == 6 / 60


@pytest.mark.parametrize(
    "changes, sentence",
    [
        ({"batch_size": 61}, "only 60 records"),
        ({"noise_multiplier": 0.1}, "too little for 12 steps"),
    ],
)
def test_impossible_plans_cost_nothing(
    changes: dict[str, Any], sentence: str, own_home: Path
) -> None:
    with pytest.raises(DataLensError, match=sentence):
        DpGan(**{**SMALL, **changes}).fit(records())
    assert not own_home.exists()


def test_noise_that_is_enough_for_the_steps_alone_is_refused_beside_bought_counts() -> None:
    public, bought = records().public, {**SMALL, "label_prior": "bought"}
    alone = DpGan(**SMALL).resolve(public).event.noise_multiplier
    beside = DpGan(**bought).resolve(public).event.noise_multiplier
    assert beside > alone
    assert DpGan(**bought, noise_multiplier=beside).resolve(public).spent() <= SMALL["epsilon"]
    with pytest.raises(DataLensError, match="too little for 12 steps"):
        DpGan(**bought, noise_multiplier=alone).resolve(public)


class StopAfter(Silent):
    def __init__(self, steps: int) -> None:
        self.steps, self.done = steps, 0

    def progress(self, stage: str, done: int, total: int, *, spent: float | None = None) -> None:
        self.done = done if stage == "steps" else 0

    def stopping(self) -> bool:
        return self.done >= self.steps


def test_a_resumed_run_equals_an_uninterrupted_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(dpgan, "BLOCK", 4)
    whole = DpGan(**SMALL).fit(records(), seed=4)
    folder = tmp_path / "run" / "internal"
    session = Session.start(ledger="x", folder=folder, seed=4, observer=StopAfter(4))
    with pytest.raises(Stopped):
        DpGan(**SMALL).fit(records(), session=session)
    assert sum(charge.count for charge in session.ledger.charges(session.run)) == 4
    resumed = DpGan(**SMALL).fit(records(), session=Session.resume(folder=folder))
    for name, array in whole._arrays().items():
        assert np.array_equal(array, resumed._arrays()[name]), name
    assert resumed.certificate["epsilon"] == whole.certificate["epsilon"]
