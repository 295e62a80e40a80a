"""All teachers of an ensemble: private shards in, gradients on synthetic images out."""

from collections.abc import Callable, Iterator
from functools import cache
from itertools import chain
from typing import Any, TypeVar

import torch
from torch import Tensor

from datalens.ensemble.adam import Adam
from datalens.ensemble.checks import check_between, check_by_class, check_shards, check_synthetic
from datalens.ensemble.discriminator import Discriminator, Shown
from datalens.ensemble.stacked import images_first, rows_first
from datalens.ensemble.streams import stream
from datalens.ensemble.workers import Workers
from datalens.errors import DataLensError

Result = TypeVar("Result")


class Teachers:
    """One small discriminator per shard, trained and queried in blocks of stacked tensors.

    **Guarantee**: teacher i is a function of shard i, of the secret, and of the synthetic images it
    was shown. Changing any of shard i's records changes no bit of another teacher's parameters,
    moments or gradients, whatever the values, NaN included.

    At a fixed block size results are the same bit for bit, whatever the number of threads; at
    another they differ by rounding.
    """

    def __init__(
        self,
        *,
        discriminator: Discriminator,
        images: Tensor,
        labels: Tensor,
        secret: bytes,
        block_size: int | None = None,
        learning_rate: float = 2e-4,
        betas: tuple[float, float] = (0.5, 0.999),
        real_batch: int | None = None,
        mismatch: bool | None = None,
        moments: torch.dtype = torch.float32,
        device: str | torch.device = "cpu",
        first_teacher: int = 0,
        starts: int | None = None,
    ) -> None:
        """``images`` are uint8 (teachers, shard, c, h, w) and ``labels`` int64 (teachers, shard).

        In an update a teacher sees ``real_batch`` records of its shard (all by default), and with
        ``mismatch`` (by default as the discriminator has it) the same under wrong labels, as
        negatives. ``moments`` is the precision of Adam's. ``first_teacher`` is the number of the
        first of these teachers, where they are part of a larger ensemble. With ``starts``, so many
        different initial weights are dealt to all teachers in turn; each has its own otherwise.
        """
        check_shards(discriminator, images, labels)
        self.discriminator = discriminator
        self.images = rows_first(images).contiguous().to(device)
        self.labels = labels.to(device, torch.int64)
        self.n_teachers, shard = labels.shape
        self.secret = secret
        self.first_teacher = first_teacher
        if starts is not None:
            check_between("starts", starts, 1)
        self.starts = starts
        self.real_batch = shard if real_batch is None else real_batch
        check_between("real_batch", self.real_batch, discriminator.smallest_batch, shard)
        self.mismatch = discriminator.mismatch if mismatch is None else mismatch
        if block_size is None:
            block_size = default_block_size(discriminator, self.real_batch)
        check_between("block_size", block_size, 1)
        self.block_size = block_size
        check_between("learning_rate", learning_rate, 0, 1)
        for beta in betas:
            check_between("each of betas", beta, 0, 0.99999)
        if moments not in (torch.float32, torch.bfloat16):
            raise DataLensError(f"moments are float32 or bfloat16, got {moments}.")
        self.workers = Workers(self.labels.device)
        self.layout = discriminator.layout
        weights = torch.zeros(self.n_teachers, self.layout.size, device=device)
        self.adam = Adam(weights, learning_rate=learning_rate, betas=betas, moments=moments)
        self._begin()

    def train(
        self,
        synthetic: Tensor,
        labels: Tensor,
        *,
        step: int,
        updates: int = 1,
        by_class: Tensor | None = None,
    ) -> None:
        """Every teacher learns to tell its shard from the synthetic images (m, c, h, w) in [0, 1].

        ``step`` says which of the run's steps this is: with the secret and the teacher's number it
        fixes what the teacher draws at random. Given images ``by_class`` (m, classes, c, h, w), a
        teacher learns from those with the labels of its own records instead, one for each record.
        """
        images, labels = self._received(synthetic, labels)
        check_between("updates", updates, 0)
        choice = None
        if by_class is not None:
            check_by_class(self.discriminator, by_class)
            choice = rows_first(by_class.detach().flatten(0, 1)).contiguous().to(self.labels.device)

        def train(blocks: Iterator[slice]) -> None:
            for block in blocks:
                self._train(block, images, labels, step, updates, choice)

        self.workers.share(self._blocks(), train)

    def ask(
        self,
        synthetic: Tensor,
        labels: Tensor,
        count: Callable[[Iterator[tuple[range, Tensor]]], Result],
    ) -> list[Result]:
        """What ``count`` makes of the gradients d log D(x) / dx of every synthetic image.

        It is given blocks of teachers, their numbers and (teachers, m, c * h * w), and runs in
        several threads at once, each with other blocks; the results of all are returned. Following
        a gradient makes the image look more real to that teacher. Where a discriminator normalises
        over its batch, log D is summed over the batch before it is differentiated.
        """
        images, labels = self._received(synthetic, labels)
        return self.workers.share(
            self._blocks(), lambda blocks: count(self._gradients(blocks, images, labels))
        )

    def gradients(self, synthetic: Tensor, labels: Tensor) -> list[tuple[range, Tensor]]:
        """All blocks' gradients at once: see ``ask``, which need not hold them all."""
        found = chain.from_iterable(self.ask(synthetic, labels, list))
        return sorted(found, key=lambda part: part[0].start)

    def logits(self, synthetic: Tensor, labels: Tensor) -> Tensor:
        """How real every synthetic image looks to every teacher under its label, (teachers, m)."""
        images, labels = self._received(synthetic, labels)
        weights = self.adam.weights
        found = weights.new_empty(self.n_teachers, len(labels))

        def answer(blocks: Iterator[slice]) -> None:
            for block in blocks:
                found[block] = self.discriminator.answers(weights[block], images, labels)

        self.workers.share(self._blocks(), answer)
        return found

    @property
    def parameters(self) -> dict[str, Tensor]:
        """The teachers' weights by name, as views."""
        return self.layout.views(self.adam.weights)

    def state(self) -> dict[str, Tensor]:
        """All that training changes, for a checkpoint: the tensors themselves, not copies."""
        adam = self.adam
        return {
            "weights": adam.weights,
            "first": adam.first,
            "second": adam.second,
            "steps": adam.steps,
        }

    def load_state(self, state: dict[str, Tensor]) -> None:
        """Go on, bit for bit, where the ensemble that gave ``state`` left off."""
        own = self.state()
        for name in own.keys() | state.keys():
            kinds = [(t.shape, t.dtype) for t in (own.get(name), state.get(name)) if t is not None]
            if len(kinds) < 2 or kinds[0] != kinds[1]:
                raise DataLensError(
                    f"this state is of another ensemble of teachers: {name!r} does not fit."
                )
        for name, tensor in own.items():
            tensor.copy_(state[name])

    def _begin(self) -> None:
        def begin(blocks: Iterator[slice]) -> None:
            for block in blocks:
                views = self.layout.views(self.adam.weights[block])
                for row in range(block.start, block.stop):
                    number = self.first_teacher + row
                    start = number if self.starts is None else number % self.starts
                    own = stream(self.secret, "initial", start)
                    for name, value in self.discriminator.initial(own).items():
                        views[name][row - block.start] = value

        self.workers.share(self._blocks(), begin)

    def _blocks(self) -> Iterator[slice]:
        for start in range(0, self.n_teachers, self.block_size):
            yield slice(start, min(start + self.block_size, self.n_teachers))

    def _train(
        self,
        block: slice,
        synthetic: Any,
        labels: Tensor,
        step: int,
        updates: int,
        by_class: Tensor | None,
    ) -> None:
        """Steps down the GAN loss: each teacher's own, as the gradients of a sum are."""
        for update in range(updates):
            if update == 0 or self.real_batch < self.labels.shape[1]:
                records, right = self._records(block, step, update)
                if by_class is not None:
                    synthetic, labels = self._prepared(self._own_class(by_class, right)), right
                images = [self._prepared(records), synthetic]
            shown: Shown = [(0, right), (1, labels)]
            if self.mismatch:
                shown = [*shown, (0, self._wrong(right, block, step, update))]
            aims = aims_of(tuple(y.shape[-1] for _, y in shown), self.adam.weights)
            self.discriminator.learn(self.adam, block, images, shown, *aims)

    def _gradients(
        self, blocks: Iterator[slice], synthetic: Any, labels: Tensor
    ) -> Iterator[tuple[range, Tensor]]:
        for block in blocks:
            slopes = self.discriminator.realism(self.adam.weights[block], synthetic, labels)
            numbers = range(self.first_teacher + block.start, self.first_teacher + block.stop)
            yield numbers, images_first(slopes).flatten(2)

    def _records(self, block: slice, step: int, update: int) -> tuple[Tensor, Tensor]:
        """The records that each teacher looks at in this update: images, as bytes, and labels."""
        images, labels = self.images[block], self.labels[block]
        shard = labels.shape[1]
        if self.real_batch < shard:
            chosen = [
                torch.randperm(shard, generator=own)[: self.real_batch].to(labels)
                for own in self._streams("records", block, step, update)
            ]
            rows = zip(images, chosen, strict=True)
            images = torch.stack([image.index_select(-1, records) for image, records in rows])
            labels = labels.gather(1, torch.stack(chosen))
        return images, labels

    def _own_class(self, by_class: Tensor, labels: Tensor) -> Tensor:
        """For each record the synthetic image of its class, (teachers, h, c, w, records)."""
        n_classes, count = self.discriminator.n_classes, labels.shape[1]
        place = torch.arange(count, device=labels.device) % (by_class.shape[-1] // n_classes)
        return by_class[..., place * n_classes + labels].movedim(3, 0).contiguous()

    def _wrong(self, labels: Tensor, block: slice, step: int, update: int) -> Tensor:
        """For each label another one, all others being equally likely."""
        n_classes, count = self.discriminator.n_classes, labels.shape[1]
        offsets = [
            torch.randint(1, n_classes, (count,), generator=own)
            for own in self._streams("wrong labels", block, step, update)
        ]
        return (labels + torch.stack(offsets).to(labels)) % n_classes

    def _received(self, synthetic: Tensor, labels: Tensor) -> tuple[Any, Tensor]:
        check_synthetic(self.discriminator, synthetic, labels)
        device = self.labels.device
        rows = rows_first(synthetic.detach().unsqueeze(0)).contiguous()
        return self._prepared(rows.to(device)), labels.to(device, torch.int64)

    def _prepared(self, images: Tensor) -> Any:
        return self.discriminator.prepare(images, self.adam.weights.dtype)

    def _streams(
        self, purpose: str, block: slice, step: int, update: int
    ) -> Iterator[torch.Generator]:
        """Each teacher's own dice, for one purpose in one update."""
        for row in range(block.start, block.stop):
            yield stream(self.secret, purpose, self.first_teacher + row, step, update)


def aims_of(sizes: tuple[int, ...], like: Tensor) -> tuple[Tensor, Tensor]:
    """What the images of some batches should look like (1 is real), and how much each counts.

    The first batch is real. The others are not, and count together as much as it does.
    """
    return _aims_of(sizes, like.dtype, like.device)


@cache
def _aims_of(
    sizes: tuple[int, ...], dtype: torch.dtype, device: torch.device
) -> tuple[Tensor, Tensor]:
    real, *others = sizes
    is_real = [1.0] * real + [0.0] * sum(others)
    weight = [1 / real] * real + [1 / (n * len(others)) for n in others for _ in range(n)]
    one, two = (torch.tensor(values, dtype=dtype, device=device) for values in (is_real, weight))
    return one, two


def default_block_size(discriminator: Discriminator, real_batch: int) -> int:
    """How many teachers a block holds unless told: a power of two, from the configuration alone."""
    c, h, w = discriminator.shape
    per_teacher = discriminator.n_parameters + real_batch * c * h * w
    return 1 << max(0, (discriminator.block_numbers // per_teacher).bit_length() - 1)
