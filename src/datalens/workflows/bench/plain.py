"""Teachers as one would write them first: a module each, in a loop; and the same under vmap."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from math import ceil
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.func import functional_call, grad, stack_module_state, vmap

Batch = tuple[Tensor, Tensor]
"""Images (m, c, h, w) and labels (m,)."""


class PlainReference(nn.Module):
    """Label planes are built; batch norm uses the batch's own statistics."""

    def __init__(self, shape: tuple[int, int, int], n_classes: int) -> None:
        super().__init__()
        c, h, w = shape
        self.n_classes = n_classes
        first, second = c + n_classes, 32 + n_classes
        self.conv1 = nn.Conv2d(c + n_classes, first, 5, stride=2)
        self.conv2 = nn.Conv2d(first + n_classes, second, 5, stride=2)
        self.norm2 = nn.BatchNorm2d(second, track_running_stats=False)
        self.hidden = nn.Linear(ceil(h / 4) * ceil(w / 4) * second + n_classes, 256)
        self.norm3 = nn.BatchNorm1d(256, track_running_stats=False)
        self.out = nn.Linear(256 + n_classes, 1)

    def forward(self, images: Tensor, labels: Tensor) -> Tensor:
        y = _one_hot(labels, self.n_classes, images.dtype)
        x = F.leaky_relu(self.conv1(_padded(_with_planes(images, y))), 0.2)
        x = F.leaky_relu(self.norm2(self.conv2(_padded(_with_planes(x, y)))), 0.2)
        x = F.leaky_relu(self.norm3(self.hidden(torch.cat([x.flatten(1), y], dim=1))), 0.2)
        logits: Tensor = self.out(torch.cat([x, y], dim=1)).squeeze(1)
        return logits


class PlainCompact(nn.Module):
    """A hidden layer and a head for every class."""

    def __init__(self, shape: tuple[int, int, int], n_classes: int) -> None:
        super().__init__()
        c, h, w = shape
        self.hidden = nn.Linear(c * h * w, 64)
        self.head = nn.Linear(64, n_classes)

    def forward(self, images: Tensor, labels: Tensor) -> Tensor:
        x = F.leaky_relu(self.hidden(images.flatten(1)), 0.2)
        y = _one_hot(labels, self.head.out_features, x.dtype)
        return (self.head(x) * y).sum(1)


MODULES: dict[str, Callable[[tuple[int, int, int], int], nn.Module]] = {
    "reference": PlainReference,
    "compact": PlainCompact,
}


class Baseline:
    """Shards, and a module for each."""

    def __init__(
        self, name: str, images: Tensor, labels: Tensor, n_classes: int, mismatch: bool
    ) -> None:
        self.images, self.labels, self.mismatch = images, labels, mismatch
        self.n_classes = n_classes
        shape = (images.shape[2], images.shape[3], images.shape[4])
        self.modules = [MODULES[name](shape, n_classes) for _ in labels]


class Loop(Baseline):
    """One teacher after another, each with a torch.optim.Adam of its own."""

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self.optimisers = [
            torch.optim.Adam(module.parameters(), lr=2e-4, betas=(0.5, 0.999), fused=True)
            for module in self.modules
        ]

    def train(self, synthetic: Tensor, labels: Tensor, updates: int) -> None:
        for t, (module, optimiser) in enumerate(zip(self.modules, self.optimisers, strict=True)):
            real = self.images[t].float().div_(255)
            for _ in range(updates):
                batches = batches_of((real, self.labels[t]), (synthetic, labels), self._wrong(t))
                optimiser.zero_grad()
                loss_of(module, batches).backward()
                optimiser.step()

    def ballots(self, synthetic: Tensor, labels: Tensor) -> None:
        for module in self.modules:
            x = synthetic.clone().requires_grad_()
            torch.autograd.grad(F.logsigmoid(module(x, labels)).sum(), x)

    def _wrong(self, t: int) -> Tensor | None:
        return (self.labels[t] + 1) % self.n_classes if self.mismatch else None


class LoopOnOneThread(Loop):
    """The same with each operation on one thread: small ones are often quicker so."""

    def train(self, synthetic: Tensor, labels: Tensor, updates: int) -> None:
        with one_thread():
            super().train(synthetic, labels, updates)

    def ballots(self, synthetic: Tensor, labels: Tensor) -> None:
        with one_thread():
            super().ballots(synthetic, labels)


@contextmanager
def one_thread() -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


class Vmapped(Baseline):
    """All teachers at once by torch.func.vmap, with one fused Adam over the stacked weights."""

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self.params, _ = stack_module_state(self.modules)
        self.module, *_ = self.modules
        self.modules = []  # their weights are in the stack
        self.optimiser = torch.optim.Adam(
            self.params.values(), lr=2e-4, betas=(0.5, 0.999), fused=True
        )

    def train(self, synthetic: Tensor, labels: Tensor, updates: int) -> None:
        real = self.images.float().div_(255)

        def loss(params: dict[str, Any], images: Tensor, right: Tensor) -> Tensor:
            wrong = (right + 1) % self.n_classes if self.mismatch else None
            call = lambda x, y: functional_call(self.module, params, (x, y))
            return loss_of(call, batches_of((images, right), (synthetic, labels), wrong))

        for _ in range(updates):
            gradients = vmap(grad(loss))(self.params, real, self.labels)
            for key, gradient in gradients.items():
                self.params[key].grad = gradient
            self.optimiser.step()

    def ballots(self, synthetic: Tensor, labels: Tensor) -> None:
        def realism(x: Tensor, params: dict[str, Any]) -> Tensor:
            return F.logsigmoid(functional_call(self.module, params, (x, labels))).sum()

        frozen = {key: p.detach() for key, p in self.params.items()}
        vmap(grad(realism), in_dims=(None, 0))(synthetic, frozen)


def batches_of(real: Batch, synthetic: Batch, wrong: Tensor | None) -> list[Batch]:
    """The real batch; then those that are not: synthetic, and real images under wrong labels."""
    return [real, synthetic] + ([] if wrong is None else [(real[0], wrong)])


def loss_of(judge: Callable[[Tensor, Tensor], Tensor], batches: list[Batch]) -> Tensor:
    real, *others = batches
    loss = F.softplus(-judge(*real)).mean()
    for batch in others:
        loss = loss + F.softplus(judge(*batch)).mean() / len(others)
    return loss


def _one_hot(labels: Tensor, n_classes: int, dtype: torch.dtype) -> Tensor:
    """F.one_hot, which vmap does not take."""
    return (labels.unsqueeze(1) == torch.arange(n_classes)).to(dtype)


def _with_planes(x: Tensor, onehot: Tensor) -> Tensor:
    return torch.cat([x, onehot[:, :, None, None].expand(-1, -1, *x.shape[2:])], dim=1)


def _padded(x: Tensor) -> Tensor:
    pads: list[int] = []
    for n in (x.shape[3], x.shape[2]):
        total = max((-(-n // 2) - 1) * 2 + 5 - n, 0)
        pads += [total // 2, total - total // 2]
    return F.pad(x, pads)
