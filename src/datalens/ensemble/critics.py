"""Many Wasserstein critics at once, each on a shard of its own.

A critic is a layer of leaky units and a head for each class. So few layers that the gradient
penalty needs no second differentiation: everything is a handful of batched products.
"""

from collections.abc import Callable, Iterator, Sequence
from itertools import chain
from typing import TypeVar

import torch
from torch import Tensor

from datalens.ensemble.adam import Adam
from datalens.ensemble.checks import check_between
from datalens.ensemble.layout import Layout
from datalens.ensemble.streams import stream
from datalens.ensemble.workers import Workers

Result = TypeVar("Result")

SLOPE = 0.2
PENALTY = 10.0
"""Weight of the gradient penalty, as in Gulrajani et al. 2017."""
BETAS = (0.5, 0.9)
BLOCK = 16
"""Critics computed at once. Part of the result, by rounding."""


class Critics:
    """One critic per shard: how real an image looks as one of its class.

    **Guarantee**: critic i is a function of shard i, of its own random stream, and of the images
    that all critics were shown. Changing a record of shard i changes no bit of another critic, and
    to ask a critic changes nothing: what it was asked, and whether, leaves no trace in its state.
    Whatever the number of threads, results are the same bit for bit.
    """

    first_teacher = 0

    def __init__(
        self,
        *,
        images: Tensor,
        labels: Tensor,
        n_classes: int,
        width: int,
        learning_rate: float,
        real_batch: int,
        secret: bytes,
    ) -> None:
        """``images`` are uint8 (critics, shard, ...) and ``labels`` int64 (critics, shard).

        In an update a critic sees ``real_batch`` records of its shard.
        """
        self.n_teachers, shard = labels.shape
        check_between("real_batch", real_batch, 1, shard)
        self._images, self._labels = images.flatten(2), labels
        self._real_batch, self._secret = real_batch, secret
        pixels = self._images.shape[2]
        self._layout = Layout(
            {"see": (width, pixels), "bias": (width,), "heads": (n_classes, width)}
        )
        self._workers = Workers(labels.device)
        weights = torch.zeros(self.n_teachers, self._layout.size)
        self._adam = Adam(weights, learning_rate=learning_rate, betas=BETAS)
        for critic, own in enumerate(weights):
            self._begin(own, stream(secret, "critic", critic, "initial"))

    def state(self) -> dict[str, Tensor]:
        """All that training changes, for a checkpoint: the tensors themselves, not copies."""
        adam = self._adam
        names = ("weights", "first", "second", "steps")
        return {name: getattr(adam, name) for name in names}

    def train(self, synthetic: Tensor, labels: Tensor, *, update: int) -> None:
        """One update of every critic against synthetic images (m, ...) in [0, 1].

        ``update`` says which of the run's updates this is: with the secret and a critic's number
        it fixes what that critic draws at random.
        """
        made = synthetic.detach().flatten(1)

        def train(blocks: Iterator[slice]) -> None:
            for rows in blocks:
                gradient = torch.zeros(rows.stop - rows.start, self._layout.size)
                loss_gradient(
                    self._layout.views(self._adam.weights[rows]),
                    self._layout.views(gradient),
                    **self._shown(rows, made, update),
                    made=made,
                    made_labels=labels,
                )
                self._adam.step(rows, gradient)

        self._workers.share(self._blocks(), train)

    def ask(self, who: Sequence[int], images: Tensor, labels: Tensor) -> Tensor:
        """d realism / d image, (m, pixels): following it, an image looks more real.

        Each image in the eyes of the critic that `who` names for it.
        """
        weights = self._layout.views(self._adam.weights[list(who)])
        x = images.detach().flatten(1).unsqueeze(1)

        def answer(batches: Iterator[tuple[Tensor, Tensor]]) -> list[Tensor]:
            return [_direction(weights, x, y).squeeze(1) for x, y in batches]

        (found,) = chain(*self._workers.share([(x, labels.unsqueeze(1))], answer))
        return found

    def ask_all(
        self,
        images: Tensor,
        labels: Tensor,
        count: Callable[[Iterator[tuple[range, Tensor]]], Result],
    ) -> list[Result]:
        """What ``count`` makes of every critic's gradients on every image.

        It is given blocks of critics, their numbers and (critics, m, pixels), and runs in several
        threads at once, each with other blocks; the results of all are returned.
        """
        x = images.detach().flatten(1)

        def asked(blocks: Iterator[slice]) -> Iterator[tuple[range, Tensor]]:
            for rows in blocks:
                weights, some = self._layout.views(self._adam.weights[rows]), rows.stop - rows.start
                found = _direction(weights, x.expand(some, -1, -1), labels.expand(some, -1))
                yield range(rows.start, rows.stop), found

        return self._workers.share(self._blocks(), lambda blocks: count(asked(blocks)))

    def _blocks(self) -> Iterator[slice]:
        for start in range(0, self.n_teachers, BLOCK):
            yield slice(start, min(start + BLOCK, self.n_teachers))

    def _begin(self, weights: Tensor, chance: torch.Generator) -> None:
        views = self._layout.views(weights.unsqueeze(0))
        for name in ("see", "heads"):
            fan_in = views[name].shape[-1]
            views[name].normal_(0.0, (2 / fan_in) ** 0.5, generator=chance)

    def _shown(self, rows: slice, synthetic: Tensor, update: int) -> dict[str, Tensor]:
        """Records and mixtures of them with synthetic images, all drawn from critics' streams."""
        chosen, partners, shares = [], [], []
        size, shard = self._real_batch, self._labels.shape[1]
        for critic in range(rows.start, rows.stop):
            chance = stream(self._secret, "critic", critic, update)
            chosen.append(torch.randperm(shard, generator=chance)[:size])
            partners.append(torch.randint(len(synthetic), (size,), generator=chance))
            shares.append(torch.rand(size, generator=chance))
        which = torch.stack(chosen)
        critics = torch.arange(rows.start, rows.stop).unsqueeze(1)
        real = self._images[critics, which].float() / 255
        mixed = torch.lerp(real, synthetic[torch.stack(partners)], torch.stack(shares)[..., None])
        return {"real": real, "real_labels": self._labels[critics, which], "mixed": mixed}


def loss_gradient(
    weights: dict[str, Tensor],
    gradient: dict[str, Tensor],
    *,
    real: Tensor,
    real_labels: Tensor,
    mixed: Tensor,
    made: Tensor,
    made_labels: Tensor,
) -> None:
    """Fill in the gradient of: mean of made - mean of real + penalty for slopes that are not 1.

    Real and mixed images are (critics, n, pixels), made ones (m, pixels) the same for all. Slopes
    are taken at the mixtures, as images of the records' classes.
    """
    critics, m = len(real), len(made)
    _judge(weights, gradient, real, real_labels, -1 / real.shape[1])
    _judge(weights, gradient, made.expand(critics, -1, -1), made_labels.expand(critics, m), 1 / m)

    see = weights["see"]
    before = _before(weights, mixed)
    slopes = _slopes(weights, before, real_labels)
    gradients = torch.bmm(slopes, see)
    norms = gradients.norm(dim=2, keepdim=True).clamp_min(1e-12)
    pull = gradients * (2 * PENALTY / mixed.shape[1] * (1 - 1 / norms))
    gradient["see"].baddbmm_(slopes.transpose(1, 2), pull)
    back = torch.bmm(pull, see.transpose(1, 2)) * _leak(before)
    _add_to_heads(gradient, real_labels, back)


def _judge(
    weights: dict[str, Tensor], gradient: dict[str, Tensor], x: Tensor, labels: Tensor, by: float
) -> None:
    """Add `by` times the gradient of the summed realism of images."""
    before = _before(weights, x)
    slopes = _slopes(weights, before, labels) * by
    gradient["see"].baddbmm_(slopes.transpose(1, 2), x)
    gradient["bias"].add_(slopes.sum(1))
    _add_to_heads(gradient, labels, before * _leak(before) * by)


def _before(weights: dict[str, Tensor], x: Tensor) -> Tensor:
    """What the units get: (critics, n, width)."""
    return torch.baddbmm(weights["bias"].unsqueeze(1), x, weights["see"].transpose(1, 2))


def _direction(weights: dict[str, Tensor], x: Tensor, labels: Tensor) -> Tensor:
    """d realism / d image, (critics, n, pixels)."""
    return torch.bmm(_slopes(weights, _before(weights, x), labels), weights["see"])


def _leak(before: Tensor) -> Tensor:
    return torch.where(before > 0, 1.0, SLOPE)


def _slopes(weights: dict[str, Tensor], before: Tensor, labels: Tensor) -> Tensor:
    """d realism / d what the units get."""
    critics = torch.arange(len(labels)).unsqueeze(1)
    return weights["heads"][critics, labels] * _leak(before)


def _add_to_heads(gradient: dict[str, Tensor], labels: Tensor, part: Tensor) -> None:
    """A part (critics, n, width) goes to the heads of its labels."""
    where = labels.unsqueeze(2).expand(part.shape)
    gradient["heads"].scatter_add_(1, where, part)
