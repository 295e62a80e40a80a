"""Train on synthetic, test on real. Computed on real data, so the figures stay internal."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import fmean, stdev
from typing import Any

import numpy as np
from numpy.typing import NDArray

from datalens.classifiers.judge import judge
from datalens.data import Records
from datalens.errors import DataLensError

JUDGED_IMAGES = 50_000


@dataclass(frozen=True, kw_only=True)
class Accuracy:
    """The judge's figures over several seeds, as fractions. Last epoch, unless named otherwise."""

    accuracy: float
    accuracy_spread: float | None
    """Standard deviation over seeds; None for one seed."""
    accuracy_best_on_test: float
    """Chosen on the test set, hence optimistic: only for comparison with papers that do so."""
    per_class: dict[str, float]
    seeds: tuple[int, ...]
    per_seed: tuple[float, ...]
    synthetic_images: int
    test_images: int

    def to_json(self) -> dict[str, Any]:
        return {
            "accuracy": self.accuracy,
            "accuracy_spread": self.accuracy_spread,
            "accuracy_best_on_test": self.accuracy_best_on_test,
            "per_class": self.per_class,
            "seeds": list(self.seeds),
            "per_seed": list(self.per_seed),
            "synthetic_images": self.synthetic_images,
            "test_images": self.test_images,
        }


def judged_accuracy(
    images: NDArray[np.uint8],
    labels: NDArray[np.int64],
    test: Records,
    *,
    seeds: Sequence[int] = (0,),
    progress: Callable[[int, int], None] | None = None,
) -> Accuracy:
    """Let the judge learn from synthetic images and be tested on real ones, once per seed."""
    if images.shape[1:] != test.public.shape:
        raise DataLensError(
            f"The synthetic images are {images.shape[1:]} but {test.public.name} has"
            f" {test.public.shape} (channels, height, width)."
        )
    if labels.max() >= test.public.n_classes:
        raise DataLensError(
            f"The synthetic labels go up to {labels.max()} but {test.public.name} has"
            f" {test.public.n_classes} classes."
        )
    found = []
    for round_, seed in enumerate(seeds):

        def report(done: int, total: int, round_: int = round_) -> None:
            if progress is not None:
                progress(round_ * total + done, len(seeds) * total)

        found.append(
            judge(
                images,
                labels,
                test.images,
                test.labels,
                test.public.n_classes,
                seed=seed,
                progress=report,
            )
        )
    each = [judgement.accuracy for judgement in found]
    by_class = np.mean([judgement.per_class for judgement in found], axis=0)
    names = test.public.class_names
    return Accuracy(
        accuracy=fmean(each),
        accuracy_spread=stdev(each) if len(each) > 1 else None,
        accuracy_best_on_test=fmean(j.accuracy_best_on_test for j in found),
        per_class={name: float(share) for name, share in zip(names, by_class, strict=True)},
        seeds=tuple(seeds),
        per_seed=tuple(each),
        synthetic_images=len(images),
        test_images=len(test.labels),
    )
