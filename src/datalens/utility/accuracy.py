"""Train on synthetic, test on real. Computed on real data, so the figures stay internal."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import fmean, stdev
from typing import Any

import numpy as np
from numpy.typing import NDArray

from datalens.classifiers.judge import Judgement, NetworkName, Progress, judge
from datalens.classifiers.simple import MOST_IMAGES, SimpleName, simple_predictions, subset
from datalens.data import Records
from datalens.errors import DataLensError

JUDGED_IMAGES = 50_000

Images = NDArray[np.uint8]
Labels = NDArray[np.int64]
Judging = Callable[[Images, Labels, Records, int, Progress], Judgement]
"""From training images and labels, real test records, a seed and a listener to a judgement."""


@dataclass(frozen=True, kw_only=True)
class Accuracy:
    """A classifier's figures over several seeds, as fractions. Last epoch, unless named so."""

    accuracy: float
    accuracy_spread: float | None
    """Standard deviation over seeds; None for one seed."""
    accuracy_best_on_test: float | None
    """Chosen on the test set, hence optimistic: only for comparison with papers that do so. None
    for classifiers that have no epochs."""
    per_class: dict[str, float]
    seeds: tuple[int, ...]
    per_seed: tuple[float, ...]
    confusion: tuple[tuple[int, ...], ...]
    """By true class (rows) and answer (columns), added up over seeds."""
    training_images: int
    """Of which each classifier has learned."""
    test_images: int

    def to_json(self) -> dict[str, Any]:
        per_class = {n: None if math.isnan(s) else s for n, s in self.per_class.items()}
        return {
            "accuracy": self.accuracy,
            "accuracy_spread": self.accuracy_spread,
            "accuracy_best_on_test": self.accuracy_best_on_test,
            "per_class": per_class,
            "seeds": list(self.seeds),
            "per_seed": list(self.per_seed),
            "confusion": [list(row) for row in self.confusion],
            "training_images": self.training_images,
            "test_images": self.test_images,
        }


def _by_network(
    network: NetworkName,
    images: Images,
    labels: Labels,
    test: Records,
    seed: int,
    progress: Progress,
) -> Judgement:
    return judge(
        images,
        labels,
        test.images,
        test.labels,
        test.public.n_classes,
        network=network,
        seed=seed,
        progress=progress,
    )


def _simply(
    name: SimpleName, images: Images, labels: Labels, test: Records, seed: int, progress: Progress
) -> Judgement:
    chosen = subset(len(images), MOST_IMAGES, seed)
    said = simple_predictions(name, images[chosen], labels[chosen], test.images, seed=seed)
    progress(1, 1)
    return Judgement.of(said, test.labels, test.public.n_classes, learned_from=len(chosen))


CLASSIFIERS: dict[str, Judging] = {
    "cnn": lambda *given: _by_network("cnn", *given),
    "logistic-regression": lambda *given: _simply("logistic-regression", *given),
    "random-forest": lambda *given: _simply("random-forest", *given),
    "residual": lambda *given: _by_network("residual", *given),
}
"""By name, the paper's first: it is the judge."""


def judged_accuracy(
    images: Images,
    labels: Labels,
    test: Records,
    *,
    classifier: str = "cnn",
    seeds: Sequence[int] = (0,),
    progress: Progress | None = None,
) -> Accuracy:
    """Let a classifier learn from these images and be tested on real ones, once per seed.

    Where seeds change nothing, it learns once: a spread of 0 would not speak of chance.
    """
    check_fits(images, labels, test)
    if classifier == "logistic-regression" and len(images) <= MOST_IMAGES:
        seeds = seeds[:1]
    found = []
    for round_, seed in enumerate(seeds):

        def report(done: int, total: int, round_: int = round_) -> None:
            if progress is not None:
                progress(round_ * total + done, len(seeds) * total)

        found.append(CLASSIFIERS[classifier](images, labels, test, seed, report))
    return summed_up(found, test, seeds)


def summed_up(found: Sequence[Judgement], test: Records, seeds: Sequence[int]) -> Accuracy:
    """What the judgements of several seeds come to."""
    each = [judgement.accuracy for judgement in found]
    best = [j.accuracy_best_on_test for j in found if j.accuracy_best_on_test is not None]
    by_class = np.mean([judgement.per_class for judgement in found], axis=0)
    confusion = np.sum([judgement.confusion for judgement in found], axis=0)
    names = test.public.class_names
    return Accuracy(
        accuracy=fmean(each),
        accuracy_spread=stdev(each) if len(each) > 1 else None,
        accuracy_best_on_test=fmean(best) if best else None,
        per_class={name: float(share) for name, share in zip(names, by_class, strict=True)},
        seeds=tuple(seeds),
        per_seed=tuple(each),
        confusion=tuple(tuple(map(int, row)) for row in confusion),
        training_images=found[0].learned_from,
        test_images=len(test.labels),
    )


def check_fits(images: Images, labels: Labels, test: Records) -> None:
    """Refuse synthetic images of another size, or of more classes, than the real ones."""
    if images.shape[1:] != test.public.shape:
        _, height, width = images.shape[1:]
        remedy = f"; try --image-size {height}" if height == width != test.public.shape[1] else ""
        raise DataLensError(
            f"The synthetic images are {images.shape[1:]} but {test.public.name} has"
            f" {test.public.shape} (channels, height, width){remedy}."
        )
    if labels.max() >= test.public.n_classes:
        raise DataLensError(
            f"The synthetic labels go up to {labels.max()} but {test.public.name} has"
            f" {test.public.n_classes} classes."
        )
