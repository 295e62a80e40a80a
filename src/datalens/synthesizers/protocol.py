"""What every method that makes images offers, beside what learners do: sample."""

import hashlib
import secrets
from abc import abstractmethod
from collections.abc import Iterator
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from datalens.ensemble.streams import stream
from datalens.errors import DataLensError
from datalens.privacy.certificate import Product
from datalens.student.gaussian import Grain
from datalens.synthesizers.learner import Learner
from datalens.synthesizers.plan import Plan
from datalens.synthesizers.settings import Settings

SAMPLE_CHUNK = 1000


class Synthetic(NamedTuple):
    """Synthetic images, uint8 (count, channels, height, width), and their labels."""

    images: NDArray[np.uint8]
    labels: NDArray[np.int64]


class Drawn(NamedTuple):
    """The same, in the making: images are floats in [0, 1]."""

    images: NDArray[np.float32]
    labels: NDArray[np.int64]


class Synthesizer(Learner[Plan]):
    """A learner whose product is a generator, which samples are drawn from.

    Guarantee: that of a learner. The generator is public, so samples cost nothing.
    """

    product: ClassVar[Product] = "generator"
    settings_type: ClassVar[type[Settings]]
    settings: Settings
    _prior: NDArray[np.float64] | None = None

    @abstractmethod
    def _draw(self, labels: NDArray[np.int64], seed: bytes, *, exact: bool) -> Drawn:
        """Images in [0, 1] of these classes, all randomness from the seed, and their labels.

        The labels may turn out to be others, if it need not be `exact`.
        """

    def _grain(self) -> Grain | None:
        """The noise that may be painted on the images, if the generator knows how much."""
        return None

    def _contents(self) -> dict[str, NDArray[Any]]:
        return {**self._arrays(), "prior": self._class_prior()}

    def _take_contents(self, contents: dict[str, NDArray[Any]], plan: Plan) -> None:
        self._prior = _prior(contents.pop("prior"), plan.public.n_classes)
        super()._take_contents(contents, plan)

    def sample(
        self,
        count: int,
        labels: ArrayLike | None = None,
        *,
        seed: int | None = None,
        grain: float = 0.0,
    ) -> Synthetic:
        """Draw images. Free: the generator is public.

        Without labels, classes are drawn in the proportions of the prior; where a method has a
        labeller, an image that turns out to show another class is labelled so. `grain`, between 0
        and 1, paints random noise on the images: 1 is as much as the model left unexplained.
        """
        parts = self.stream(count, labels, seed=seed, grain=grain)
        images = np.empty((count, *self.shape), dtype=np.uint8)
        numbers = np.empty(count, dtype=np.int64)
        done = 0
        for part in parts:
            here = slice(done, done + len(part.labels))
            images[here], numbers[here] = part
            done = here.stop
        return Synthetic(images, numbers)

    def stream(
        self,
        count: int,
        labels: ArrayLike | None = None,
        *,
        seed: int | None = None,
        grain: float = 0.0,
    ) -> Iterator[Synthetic]:
        """The images of `sample`, at most `SAMPLE_CHUNK` at a time: no more are ever held."""
        plan = self._fitted()
        whole = isinstance(count, int | np.integer) and not isinstance(count, bool)
        if not whole or count < 1:
            raise DataLensError(f"count must be a whole number of at least 1, got {count!r:.50}.")
        wanted = self._labels(count) if labels is None else np.asarray(labels)
        if wanted.ndim != 1 or not np.issubdtype(wanted.dtype, np.integer):
            raise DataLensError("labels must be a list of class numbers.")
        if len(wanted) != count:
            wanted = np.resize(wanted, count)
        if wanted.min() < 0 or wanted.max() >= plan.public.n_classes:
            raise DataLensError(f"labels must lie between 0 and {plan.public.n_classes - 1}.")
        if not isinstance(grain, int | float) or not 0 <= grain <= 1:  # NaN fails this too
            raise DataLensError(f"grain must lie between 0 and 1, got {grain!r:.50}.")
        if grain > 0 and self._grain() is None:
            raise DataLensError(f"This {self.method} generator has no grain; leave grain at 0.")
        root = secrets.token_bytes(16) if seed is None else str(seed).encode()
        return self._stream(wanted.astype(np.int64), root, exact=labels is not None, share=grain)

    def _stream(
        self, wanted: NDArray[np.int64], root: bytes, *, exact: bool, share: float
    ) -> Iterator[Synthetic]:
        grain = self._grain()
        for start in range(0, len(wanted), SAMPLE_CHUNK):
            key = hashlib.sha256(root + start.to_bytes(8, "big")).digest()
            drawn = self._draw(wanted[start : start + SAMPLE_CHUNK], key, exact=exact)
            if not np.isfinite(drawn.images).all():
                raise DataLensError("This generator's weights are too large to draw images with.")
            images = drawn.images
            if grain is not None and share > 0:
                images = grain.on(images, share, stream(key, "grain"))
            yield Synthetic(np.rint(images * 255).astype(np.uint8), drawn.labels)

    def _class_prior(self) -> NDArray[np.float64]:
        classes = self._fitted().public.n_classes
        return np.full(classes, 1 / classes) if self._prior is None else self._prior

    def _labels(self, count: int) -> NDArray[np.int64]:
        """`count` labels in the prior's proportions, classes in turn."""
        edges = np.rint(np.cumsum(self._class_prior()) * count).astype(int)
        labels = np.searchsorted(edges, np.arange(count), side="right")
        step = max(1, round(count / max(1, len(edges))))
        order = np.argsort(np.arange(count) % step, kind="stable")
        return np.minimum(labels, len(edges) - 1)[order].astype(np.int64)


def _prior(shares: NDArray[Any], n_classes: int) -> NDArray[np.float64]:
    """How often each class is drawn, if these are shares of one."""
    fits = shares.shape == (n_classes,) and shares.dtype == np.float64
    if not fits or not ((shares >= 0).all() and abs(shares.sum() - 1) < 1e-6):  # nor NaN
        raise DataLensError(f"its prior must be {n_classes} shares that add up to 1.")
    return shares
