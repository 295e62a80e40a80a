"""Steps in blocks: charged before they are taken, never taken twice, resumed bit for bit."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import load, save
from torch import nn

from datalens.errors import DataLensError
from datalens.mechanism.events import SampledGaussianRelease
from datalens.privacy.accountants import Charge
from datalens.privacy.ledger import BudgetExceeded
from datalens.synthesizers.session import Session, Silent, Stopped
from datalens.synthesizers.stepping import Trainee, take_steps

EVENT = SampledGaussianRelease(what="dp-sgd", sampling_probability=0.1, noise_multiplier=1.0)
STEPS, BLOCK = 11, 3


class Learner:
    """One layer under RMSprop with momentum: its state is weights, averages and moments."""

    def __init__(self, session: Session) -> None:
        self.session, self.taken = session, list[int]()
        self.charged_at = list[int]()
        self.layer = nn.Linear(3, 2)
        self.average = {"mean": torch.zeros(2, 3)}
        with torch.no_grad():
            for p in self.layer.parameters():
                p.fill_(0.5)
        self.optimiser = torch.optim.RMSprop(self.layer.parameters(), lr=0.1, momentum=0.5)
        self.trainee = Trainee(
            modules={"layer": self.layer},
            optimisers={"of-layer": self.optimiser},
            averages={"average": self.average},
        )

    def step(self, number: int) -> None:
        self.taken.append(number)
        self.charged_at.append(sum(c.count for c in self.session.ledger.charges(self.session.run)))
        noise = torch.from_numpy(
            self.session.float_noise.add(np.zeros(3), sigma=1.0, key=f"step/{number}")
        )
        self.optimiser.zero_grad()
        self.layer(noise.float()).sum().backward()
        self.optimiser.step()
        self.average["mean"].lerp_(self.layer.weight.detach(), 0.5)

    def run(self, *, steps: int = STEPS) -> "Learner":
        take_steps(
            self.session,
            self.trainee,
            self.step,
            event=EVENT,
            steps=steps,
            block=BLOCK,
            spent=float,
        )
        return self

    def result(self) -> list[torch.Tensor]:
        return [*self.layer.parameters(), *self.average.values()]


def new_session(folder: Path, observer: Silent | None = None, *, reserved: int = STEPS) -> Session:
    session = Session.start(ledger="x", folder=folder / "internal", seed=1, observer=observer)
    plan = [Charge(event=EVENT, count=reserved)]
    session.ledger.reserve(session.run, plan, facts={"method": "m", "noise": "n", "config": "c"})
    return session


def alike(one: Learner, other: Learner) -> bool:
    return all(torch.equal(a, b) for a, b in zip(one.result(), other.result(), strict=True))


class StopAfter(Silent):
    def __init__(self, steps: int) -> None:
        self.steps, self.done = steps, 0

    def progress(self, stage: str, done: int, total: int, *, spent: float | None = None) -> None:
        self.done = done

    def stopping(self) -> bool:
        return self.done >= self.steps


def test_a_block_is_charged_before_its_first_step(tmp_path: Path) -> None:
    learner = Learner(new_session(tmp_path)).run()
    assert learner.taken == list(range(STEPS))
    assert learner.charged_at == [3] * 3 + [6] * 3 + [9] * 3 + [11] * 2


def test_what_was_not_reserved_is_not_taken(tmp_path: Path) -> None:
    learner = Learner(new_session(tmp_path, reserved=STEPS - 1))
    with pytest.raises(BudgetExceeded):
        learner.run()
    assert learner.taken == list(range(9))


@pytest.mark.parametrize("stop", [3, 6, 9])
def test_a_resumed_run_equals_an_uninterrupted_one(tmp_path: Path, stop: int) -> None:
    whole = Learner(new_session(tmp_path / "whole")).run()
    session = new_session(tmp_path / "parts", StopAfter(stop))
    with pytest.raises(Stopped):
        Learner(session).run()
    rest = Learner(Session.resume(folder=session.folder)).run()
    assert rest.taken == list(range(stop, STEPS))  # none is taken twice
    assert alike(rest, whole)
    finished = Learner(Session.resume(folder=session.folder)).run()
    assert finished.taken == [] and alike(finished, whole)


def test_states_are_not_kept_for_ever(tmp_path: Path) -> None:
    session = new_session(tmp_path)
    Learner(session).run()
    assert [file.name for file in session.releases.folder.iterdir()] == ["steps-9.safetensors"]


def breaking(at: int, learner: Learner) -> Callable[[int], None]:
    taken = learner.step

    def step(number: int) -> None:
        if number == at:
            raise KeyboardInterrupt
        taken(number)

    return step


def test_a_lost_block_is_passed_over_and_stays_charged(tmp_path: Path) -> None:
    """Two of its steps were taken when the crash came: what they led to is never seen again."""
    session = new_session(tmp_path)
    learner = Learner(session)
    learner.step = breaking(5, learner)  # type: ignore[method-assign]
    with pytest.raises(KeyboardInterrupt):
        learner.run()
    rest = Learner(Session.resume(folder=session.folder)).run()
    assert rest.taken == list(range(6, STEPS))
    assert rest.charged_at[0] == 9
    assert sum(c.count for c in session.ledger.charges(session.run)) == STEPS
    without = Learner(new_session(tmp_path / "other"))
    for number in (0, 1, 2, *range(6, STEPS)):
        without.step(number)
    assert alike(rest, without)
    assert not alike(rest, Learner(new_session(tmp_path / "whole")).run())


def test_a_crash_between_storing_and_forgetting_is_mended(tmp_path: Path) -> None:
    session = new_session(tmp_path, StopAfter(6))
    with pytest.raises(Stopped):
        Learner(session).run()
    (newest,) = session.releases.folder.iterdir()
    older = session.releases.folder / "steps-0.safetensors"
    older.write_bytes(newest.read_bytes())
    Learner(Session.resume(folder=session.folder)).run()
    assert not older.exists()


def test_a_state_that_is_damaged_or_of_another_run_is_one_sentence(tmp_path: Path) -> None:
    session = new_session(tmp_path, StopAfter(3))
    with pytest.raises(Stopped):
        Learner(session).run()
    (file,) = session.releases.folder.iterdir()
    good = file.read_bytes()
    tensors = load(good)
    damages = [
        good[: len(good) // 2],
        b"",
        save({n: t for n, t in tensors.items() if n != "layer.bias"}),
        save(tensors | {"layer.bias": torch.zeros(5)}),
        save(tensors | {"layer.bias": torch.zeros(2, dtype=torch.float64)}),
        save(tensors | {"of-layer.0.square_avg": torch.zeros(7, 7)}),
    ]
    for damage in damages:
        file.write_bytes(damage)
        with pytest.raises(DataLensError, match=r"stored state|This state"):
            Learner(Session.resume(folder=session.folder)).run()
    file.write_bytes(good)
    Learner(Session.resume(folder=session.folder)).run()
