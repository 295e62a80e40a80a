"""All teachers of an ensemble: private shards in, gradients on synthetic images out."""

from collections.abc import Callable, Iterator

import torch
import torch.nn.functional as F
from torch import Tensor

from datalens.ensemble.adam import Adam
from datalens.ensemble.checks import check_between, check_shards, check_synthetic
from datalens.ensemble.discriminator import Discriminator
from datalens.ensemble.streams import stream
from datalens.errors import DataLensError

BLOCK_NUMBERS = 5_000_000
"""Parameters and pixels in a block by default, at most. Measured: 8 reference teachers, or 32
compact ones with 100 records, are as fast as any; larger blocks leave the cache."""


class Teachers:
    """One small discriminator per shard, trained and queried in blocks of stacked tensors.

    **Guarantee**: teacher i is a function of shard i, of the secret, and of the synthetic images it
    was shown. Changing any of shard i's records changes no bit of another teacher's parameters,
    moments or gradients, whatever the values, NaN included.

    At a fixed block size and number of threads results are the same bit for bit; at another they
    differ by rounding.
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
    ) -> None:
        """``images`` are uint8 (teachers, shard, c, h, w) and ``labels`` int64 (teachers, shard).

        In an update a teacher sees ``real_batch`` records of its shard (all by default), and with
        ``mismatch`` (by default as the discriminator has it) the same under wrong labels, as
        negatives. ``moments`` is the precision of Adam's. ``first_teacher`` is the number of the
        first of these teachers, where they are part of a larger ensemble.
        """
        check_shards(discriminator, images, labels)
        self.discriminator = discriminator
        self.images = images.to(device)
        self.labels = labels.to(device, torch.int64)
        self.n_teachers, shard = labels.shape
        self.secret = secret
        self.first_teacher = first_teacher
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
        self.parameters = self._fresh(device)
        self.adam = Adam(self.parameters, learning_rate=learning_rate, betas=betas, moments=moments)

    def train(
        self,
        synthetic: Tensor,
        labels: Tensor,
        *,
        step: int,
        updates: int = 1,
        progress: Callable[[int], None] | None = None,
    ) -> None:
        """Every teacher learns to tell its shard from the synthetic images (m, c, h, w) in [0, 1].

        ``step`` says which of the run's steps this is: with the secret and the teacher's number it
        fixes what the teacher draws at random. ``progress`` is told how many teachers are done.
        """
        synthetic, labels = self._received(synthetic, labels)
        check_between("updates", updates, 0)
        for block in self._blocks():
            for update in range(updates):
                self._update(block, synthetic, labels, step, update)
            if progress is not None:
                progress(block.stop)

    def gradients(self, synthetic: Tensor, labels: Tensor) -> Iterator[tuple[range, Tensor]]:
        """For block after block of teachers, d log D(x) / dx of every synthetic image.

        Yields the teachers' numbers and (teachers, m, c * h * w). Following it makes the image look
        more real to that teacher. Where a discriminator normalises over its batch, log D is summed
        over the batch before it is differentiated.
        """
        synthetic, labels = self._received(synthetic, labels)
        for block in self._blocks():
            params = {name: p[block] for name, p in self.parameters.items()}
            seen = synthetic.expand(block.stop - block.start, *synthetic.shape)
            seen = seen.detach().requires_grad_()
            real = F.logsigmoid(self.discriminator.logits(params, seen, labels))
            (gradient,) = torch.autograd.grad(real.sum(), seen)
            numbers = range(self.first_teacher + block.start, self.first_teacher + block.stop)
            yield numbers, gradient.flatten(2)

    def state(self) -> dict[str, Tensor]:
        """All that training changes, for a checkpoint: the tensors themselves, not copies."""
        kinds = {"parameter": self.parameters, "first": self.adam.first, "second": self.adam.second}
        state = {f"{kind}.{k}": t for kind, tensors in kinds.items() for k, t in tensors.items()}
        return state | {"steps": self.adam.steps}

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

    def _fresh(self, device: str | torch.device) -> dict[str, Tensor]:
        parameters = {
            name: torch.empty(self.n_teachers, *shape, device=device)
            for name, shape in self.discriminator.parameter_shapes().items()
        }
        for row in range(self.n_teachers):
            own = stream(self.secret, "initial", self.first_teacher + row)
            for name, value in self.discriminator.initial(own).items():
                parameters[name][row] = value
        return parameters

    @property
    def _dtype(self) -> torch.dtype:
        return next(iter(self.parameters.values())).dtype

    def _blocks(self) -> Iterator[slice]:
        for start in range(0, self.n_teachers, self.block_size):
            yield slice(start, min(start + self.block_size, self.n_teachers))

    def _update(
        self, block: slice, synthetic: Tensor, labels: Tensor, step: int, update: int
    ) -> None:
        """One step down the GAN loss: each teacher's own, as the gradients of a sum are."""
        params = {k: p[block].detach().requires_grad_() for k, p in self.parameters.items()}
        real, right = self._records(block, step, update)
        (teachers, r), m = right.shape, len(labels)
        images = torch.cat([real, synthetic.expand(teachers, *synthetic.shape)], dim=1)
        shown = torch.cat([right, labels.expand(teachers, m)], dim=1)
        seen, batches = self.discriminator.features(params, images), [r, m]
        if self.mismatch:
            shown = torch.cat([shown, self._wrong(right, block, step, update)], dim=1)
            seen, batches = torch.cat([seen, seen[..., :r]], dim=-1), [r, m, r]
        logits = self.discriminator.judge(params, seen, shown, batches)
        positive, *negatives = logits.split(batches, dim=1)
        loss = F.softplus(-positive).mean(1)
        for negative in negatives:
            loss = loss + F.softplus(negative).mean(1) / len(negatives)
        gradients = torch.autograd.grad(loss.sum(), list(params.values()))
        self.adam.step(block, dict(zip(params, gradients, strict=True)))

    def _records(self, block: slice, step: int, update: int) -> tuple[Tensor, Tensor]:
        """The records that each teacher looks at in this update: images in [0, 1], and labels."""
        images, labels = self.images[block], self.labels[block]
        shard = labels.shape[1]
        if self.real_batch < shard:
            chosen = [
                torch.randperm(shard, generator=own)[: self.real_batch]
                for own in self._streams("records", block, step, update)
            ]
            records = torch.stack(chosen).to(labels)
            rows = torch.arange(len(labels), device=labels.device).unsqueeze(1)
            images, labels = images[rows, records], labels[rows, records]
        # The layers want the images innermost. Turn them as bytes, which are cheap to move.
        turned = images.permute(0, 2, 3, 4, 1).contiguous()
        return turned.to(self._dtype).div_(255).permute(0, 4, 1, 2, 3), labels

    def _wrong(self, labels: Tensor, block: slice, step: int, update: int) -> Tensor:
        """For each label another one, all others being equally likely."""
        n_classes, count = self.discriminator.n_classes, labels.shape[1]
        offsets = [
            torch.randint(1, n_classes, (count,), generator=own)
            for own in self._streams("wrong labels", block, step, update)
        ]
        return (labels + torch.stack(offsets).to(labels)) % n_classes

    def _received(self, synthetic: Tensor, labels: Tensor) -> tuple[Tensor, Tensor]:
        check_synthetic(self.discriminator, synthetic, labels)
        device = self.labels.device
        return synthetic.detach().to(device, self._dtype), labels.to(device, torch.int64)

    def _streams(
        self, purpose: str, block: slice, step: int, update: int
    ) -> Iterator[torch.Generator]:
        """Each teacher's own dice, for one purpose in one update."""
        for row in range(block.start, block.stop):
            yield stream(self.secret, purpose, self.first_teacher + row, step, update)


def default_block_size(discriminator: Discriminator, real_batch: int) -> int:
    """How many teachers a block holds unless told: a power of two, from the configuration alone."""
    c, h, w = discriminator.shape
    per_teacher = discriminator.n_parameters + real_batch * c * h * w
    return 1 << max(0, (BLOCK_NUMBERS // per_teacher).bit_length() - 1)
