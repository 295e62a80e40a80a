"""A loader whose batches are drawn as the proof wants it: each record by a coin of its own."""

from collections.abc import Callable, Iterator
from typing import Any

from torch.utils.data import (
    DataLoader,
    IterableDataset,
    RandomSampler,
    Sampler,
    SequentialSampler,
)

from datalens.classifiers.dpsgd import poisson_sample
from datalens.classifiers.empty import CollateOrEmpty
from datalens.errors import DataLensError


class PoissonBatches(Sampler[list[int]]):
    """Batches of positions, some of them empty. No two passes draw the same ones.

    Guarantee: in each batch every record takes part with `probability`, independently of all others
    and of all batches before; nobody without the `secret` can tell who did.
    """

    def __init__(self, n_records: int, *, probability: float, batches: int, secret: bytes) -> None:
        self._n_records, self._batches = n_records, batches
        self.probability = probability
        self.on_begin: Callable[[], None] | None = None
        """Is called when a pass begins."""
        self._secret, self.drawn = secret, 0

    def __len__(self) -> int:
        return self._batches

    def __iter__(self) -> Iterator[list[int]]:
        if self.on_begin is not None:
            self.on_begin()
        for _ in range(self._batches):
            number, self.drawn = self.drawn, self.drawn + 1
            yield poisson_sample(self._n_records, self.probability, self._secret, number).tolist()


def poisson_loader(loader: DataLoader[Any], secret: bytes) -> DataLoader[Any]:
    """The same records, as many batches in a pass, of the same size on average."""
    if not isinstance(loader, DataLoader):
        raise DataLensError(
            f"loader must be a torch.utils.data.DataLoader, got {type(loader).__name__}."
        )
    size, n_records = _batch_size(loader), len(loader.dataset)  # type: ignore[arg-type]
    return DataLoader(
        loader.dataset,
        batch_sampler=PoissonBatches(
            n_records, probability=size / n_records, batches=len(loader), secret=secret
        ),
        collate_fn=CollateOrEmpty(loader.collate_fn, loader.dataset[0]),
        num_workers=loader.num_workers,
        pin_memory=loader.pin_memory,
        timeout=loader.timeout,
        worker_init_fn=loader.worker_init_fn,
        multiprocessing_context=loader.multiprocessing_context,
        prefetch_factor=loader.prefetch_factor,
        persistent_workers=loader.persistent_workers,
    )


def _batch_size(loader: DataLoader[Any]) -> int:
    if isinstance(loader.dataset, IterableDataset):
        raise DataLensError(
            "A stream of records cannot be sampled; give the loader a data set with positions."
        )
    if loader.batch_size is None or not isinstance(
        loader.sampler, RandomSampler | SequentialSampler
    ):
        raise DataLensError(
            "The loader has a sampler of its own, but every record must have the same chance; give"
            " it a batch_size and no sampler."
        )
    n_records = len(loader.dataset)  # type: ignore[arg-type]
    if not 0 < loader.batch_size <= n_records or not len(loader):
        raise DataLensError(
            f"batch_size is {loader.batch_size} but there are only {n_records} records; use fewer."
        )
    return loader.batch_size
