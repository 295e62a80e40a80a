"""Training in many small noisy steps: paid, taken and stored a block at a time.

A release of its own for each of thousands of steps would fill a disk. A block of steps is charged
before its first, and the state after its last, which is public, is stored. A crash in between
loses the block and never its charge: the run goes on from the state before it.
"""

from collections.abc import Callable, Iterable, Mapping

import torch
from safetensors.torch import load, save
from torch import Tensor, nn

from datalens.data.documents import read_whole
from datalens.errors import DataLensError, brief
from datalens.mechanism.events import Event
from datalens.privacy.releases import LARGEST_FILE
from datalens.synthesizers.session import Member, Session, Stopped

SHOWN = 10
"""Steps between two signs of life."""
DONE = "done"
"""Where a state that nobody paid for says how many steps led to it."""
ROOM = 2**20
"""Bytes that a stored state may have beside its numbers."""


class Trainee:
    """Modules, their optimisers, and averages of weights: all that training changes."""

    def __init__(
        self,
        modules: Mapping[str, nn.Module],
        optimisers: Mapping[str, torch.optim.Optimizer],
        averages: Mapping[str, dict[str, Tensor]],
    ) -> None:
        self._modules, self._optimisers, self._averages = modules, optimisers, averages

    def state(self) -> dict[str, Tensor]:
        """By name; the tensors are not copies."""
        found: dict[str, Tensor] = {}
        for name, module in self._modules.items():
            found |= {f"{name}.{n}": p.detach() for n, p in module.named_parameters()}
        for name, average in self._averages.items():
            found |= {f"{name}.{n}": weight for n, weight in average.items()}
        for name, optimiser in self._optimisers.items():
            for n, parameter in enumerate(_parameters(optimiser)):
                kept = optimiser.state[parameter]
                found |= {f"{name}.{n}.{word}": kept[word] for word in kept}
        return found

    def load_state(self, state: dict[str, Tensor]) -> None:
        """Go on, bit for bit, where the one that gave `state` left off."""
        kept: dict[nn.Parameter, dict[str, Tensor]] = {}
        for name, optimiser in self._optimisers.items():
            for n, parameter in enumerate(_parameters(optimiser)):
                start = f"{name}.{n}."
                words = [full.removeprefix(start) for full in state if full.startswith(start)]
                kept[parameter] = {word: state[start + word].clone() for word in words}
                for word, tensor in kept[parameter].items():
                    _fits(start + word, tensor, parameter.shape, torch.Size())
        for optimiser in self._optimisers.values():
            optimiser.state.clear()
        own = self.state()
        for name, tensor in own.items():
            _fits(name, state.get(name), tensor.shape)
            tensor.copy_(state[name])
        for optimiser in self._optimisers.values():
            for parameter in _parameters(optimiser):
                if kept[parameter]:
                    optimiser.state[parameter] = kept[parameter]


def _fits(name: str, tensor: Tensor | None, *shapes: torch.Size) -> None:
    if tensor is None or tensor.dtype != torch.float32 or tensor.shape not in shapes:
        raise DataLensError(f"This state is of another run, or damaged: {name!r} does not fit.")


def take_steps(
    session: Session,
    trainee: Trainee,
    step: Callable[[int], None],
    *,
    event: Event,
    steps: int,
    block: int,
    spent: Callable[[int], float],
    releases: int = 1,
    before: Callable[[int, bool], None] | None = None,
) -> None:
    """All the steps that a plan has, each of so many `releases`, from the first not stored.

    `before` is told the first step of each block and whether the block is paid already, so that
    none of its steps will be taken. It sees every state from the first on, also when a run is
    resumed: states are then kept until all steps are taken.

    Guarantee: each step is charged before it is taken, and none is taken twice. The trainee ends
    in a state that follows from paid steps alone.
    """
    size = 4 * sum(tensor.nbytes for tensor in trainee.state().values()) + ROOM
    stored: list[str] = []
    for first in range(0, steps, block):
        last = min(first + block, steps)
        key = f"steps/{first}"
        if before is not None:
            before(first, session.ledger.has_spent(session.run, key))

        def work(first: int = first, last: int = last) -> bytes:
            for number in range(first, last):
                step(number)
                if number % SHOWN == 0:
                    session.observer.progress("steps", number, steps)
            return save({name: each.contiguous() for name, each in trainee.state().items()})

        count = (last - first) * releases
        state = session.releases.take_steps(key, event, count, work, size=size)
        if state is not None:  # one that is lost, or superfluous, is passed over
            trainee.load_state(_tensors(state, key))
            stored.append(key)
        if before is None or last == steps:
            while len(stored) > 1:
                session.releases.forget(stored.pop(0))
        session.observer.progress("steps", last, steps, spent=spent(last))
        if last < steps and session.stopping():
            raise Stopped


def take_free_steps(
    session: Member, trainee: Trainee, step: Callable[[int], None], *, steps: int, block: int
) -> None:
    """All the steps of a method that protects nobody: nothing is charged, so any may be redone.

    After each block the state is kept, so that the run can go on from there.
    """
    kept = session.checkpoint.with_suffix(".safetensors")
    done = 0
    if kept.exists():
        state = _tensors(read_whole(kept, at_most=LARGEST_FILE), kept.name)
        done = int(state.pop(DONE, torch.zeros(1))[0])
        trainee.load_state(state)
    for number in range(done, steps):
        step(number)
        if (number + 1) % SHOWN == 0 or number + 1 == steps:
            session.observer.progress("steps", number + 1, steps)
        if (number + 1) % block == 0:
            now = trainee.state() | {DONE: torch.tensor([float(number + 1)])}
            part = kept.with_suffix(".part")
            part.write_bytes(save({name: each.contiguous() for name, each in now.items()}))
            part.replace(kept)
            if number + 1 < steps and session.stopping():
                raise Stopped
    kept.unlink(missing_ok=True)


def _tensors(state: bytes, key: str) -> dict[str, Tensor]:
    try:
        return load(state)
    except Exception as error:  # of a damaged file, its reader says many things
        raise DataLensError(f"The stored state {key} cannot be read ({brief(error)}).") from None


def _parameters(optimiser: torch.optim.Optimizer) -> Iterable[nn.Parameter]:
    return [p for group in optimiser.param_groups for p in group["params"]]
