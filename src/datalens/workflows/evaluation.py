"""`datalens evaluate`: judge a run, or a file or folder of synthetic images.

All figures are computed on real records without noise: they are internal.
"""

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray
from rich.console import Console
from rich.progress import Progress

from datalens.classifiers.judge import Judgement
from datalens.classifiers.judge_cnn import places
from datalens.classifiers.simple import subset
from datalens.data import Records
from datalens.errors import DataLensError
from datalens.utility.accuracy import (
    CLASSIFIERS,
    JUDGED_IMAGES,
    check_fits,
    judged_accuracy,
    summed_up,
)
from datalens.utility.domain import SEED, DomainClassifier
from datalens.utility.inception import Inception
from datalens.utility.measures import MEASURED_IMAGES, measured
from datalens.utility.membership import attacked
from datalens.utility.nearest import nearest
from datalens.workflows.cache import Cache
from datalens.workflows.judged import (
    check_classes,
    is_run,
    learned_from,
    samples_of,
    was_trained_on,
)
from datalens.workflows.runs import load_classifier, load_run
from datalens.workflows.source import Source, Tested
from datalens.workflows.writing import EVALUATION, keep_internal

T = TypeVar("T")
Images = NDArray[np.uint8]
Labels = NDArray[np.int64]

ITS_OWN = (
    "The records are those that {} has learned from, which flatters every figure: hold some out, in"
    " a folder as train/ and test/, before the next fit."
)
NO_TEST_SPLIT = (
    "{} has no test split, so nothing is said of training records, and the domain classifier has"
    " learned from five sixths of it and is asked about the rest."
)


@dataclass(frozen=True, kw_only=True)
class Effort:
    """How much is computed."""

    judged: int = JUDGED_IMAGES
    """Synthetic images that a classifier learns from, at most."""
    work: float = 60_000 * places((1, 28, 28))
    """Places that the judge looks at in all images that one network learns from, at most: learning
    takes most of the time, which grows with them. By default those of MNIST, which are all images
    of 28x28, and 8,632 of 64x64."""
    measured: int = MEASURED_IMAGES
    """Images of each kind that are compared, at most."""
    classifiers: tuple[str, ...] = ("cnn", "logistic-regression")
    baselines: bool = False
    """Train every classifier on real records too."""

    def learned(self, images: int, shape: tuple[int, int, int]) -> int:
        """Images of this shape that a network learns from, where there are so many."""
        return int(min(images, self.work / places(shape)))


USUAL = Effort()
QUICK = Effort(judged=10_000, work=20_000 * places((1, 28, 28)), measured=2_000)
EVERYTHING = Effort(work=math.inf, classifiers=tuple(CLASSIFIERS), baselines=True)


def evaluate_classifier(run: Path, source: Source) -> dict[str, Any]:
    """How often a private classifier is right. Kept under RUN/internal, never published."""
    classifier, tested = load_classifier(run), source.tested()
    test = tested.records
    check_classes(run, classifier.class_names, test.public)
    said = classifier.predict(test.images).labels
    n_records = classifier.certificate["data"]["n_records"]
    judgement = Judgement.of(said, test.labels, test.public.n_classes, learned_from=n_records)
    shares = zip(classifier.class_names, judgement.per_class, strict=True)
    result = {
        "run": str(run),
        "on": source.name,
        "internal": True,
        "accuracy": judgement.accuracy,
        "per_class": {name: None if np.isnan(share) else share for name, share in shares},
        "confusion": [list(row) for row in judgement.confusion],
        "test_images": len(test.labels),
        "notes": [ITS_OWN.format(run)] if learned_from(run, tested) else [],
    }
    keep_internal(run, EVALUATION, result)
    return result


def evaluate_synthetic(
    synthetic: Path,
    source: Source,
    *,
    seeds: int = 1,
    effort: Effort = USUAL,
    features: Path | None = None,
) -> dict[str, Any]:
    """Every figure. For a run they are also kept under RUN/internal, never published.

    `features` is a file with the weights of Inception-v3; without it, distances are taken in the
    features of the domain classifier.
    """
    if seeds < 1:
        raise DataLensError(f"--seeds must be at least 1, got {seeds}.")
    inception = Inception.read(features) if features is not None else None
    with _stages() as stage:
        stage("real records")
        tested = source.tested()
        real = Real.of(source, tested)
        public = real.test.public
        stage("synthetic images")
        at_most = effort.learned(effort.judged, public.shape)
        images, labels = samples_of(
            synthetic, public, at_most=at_most, image_size=source.image_size
        )
        check_fits(images, labels, real.test)
        notes = [NO_TEST_SPLIT.format(source.name)] if tested.whole else []
        notes += [ITS_OWN.format(synthetic)] if learned_from(synthetic, tested) else []
        few = effort.learned(len(real.learned.labels), public.shape)
        some = _part(real.learned, subset(len(real.learned.labels), few, SEED))
        domain = Cache().domain(some, progress=stage("domain classifier"))
        judged = _classified(images, labels, real, domain, range(seeds), effort, stage)
        measuring = stage("measures")
        if inception is not None:
            inception.progress = measuring
        look = partial(measured, features=inception, at_most=effort.measured)
        found = _noted(notes, "measures", lambda: look(images, real.unseen.images, domain))
        stage("training records")
        copying = _copying(images, _training_records(synthetic, real, notes), real, notes)
    figures = found.to_json() if found else dict[str, Any]()
    result = {
        "synthetic": str(synthetic),
        "on": source.name,
        "internal": True,
        **judged["cnn"]["synthetic"],
        "synthetic_images": len(images),
        "classifiers": judged,
        **{name: figures.get(name) for name in ("inception_score", "fid", "prdc")},
        "measures": figures or None,
        "domain": _domain(domain, real),
        **copying,
        "notes": notes,
    }
    if is_run(synthetic):
        keep_internal(synthetic, EVALUATION, result)
    return result


@dataclass(frozen=True, kw_only=True)
class Real:
    """The real records, by what they are for."""

    test: Records
    """What classifiers are tested on."""
    train: Records | None
    """None where the data have no test split, and all of them are tested on."""
    learned: Records = field(repr=False)
    """What the domain classifier learns from."""
    unseen: Records = field(repr=False)
    """What synthetic images are compared with: the domain classifier has not seen them."""

    @classmethod
    def of(cls, source: Source, tested: Tested) -> "Real":
        test = tested.records
        if tested.whole:
            if len(test.labels) < 2:
                raise DataLensError(
                    f"{source.name} has one record, and evaluate needs two at least: one to learn"
                    " from and one to be asked about."
                )
            order = np.random.default_rng(SEED).permutation(len(test.labels))
            kept = len(order) * 5 // 6
            learned, unseen = _part(test, order[:kept]), _part(test, order[kept:])
            return cls(test=test, train=None, learned=learned, unseen=unseen)
        train = source.records()
        if train.public.shape != test.public.shape:
            raise DataLensError(
                f"{source.name} has training images of {train.public.shape} and test images of"
                f" {test.public.shape} (channels, height, width); bring them to one shape."
            )
        return cls(test=test, train=train, learned=train, unseen=test)


def _part(records: Records, chosen: NDArray[np.int64]) -> Records:
    if len(chosen) == len(records.labels):
        return records
    chosen = np.sort(chosen)
    return Records(
        images=records.images[chosen],
        labels=records.labels[chosen],
        public=replace(records.public, n_records=len(chosen)),
    )


def _classified(
    images: Images,
    labels: Labels,
    real: Real,
    domain: DomainClassifier,
    seeds: range,
    effort: Effort,
    stage: "Stage",
) -> dict[str, dict[str, Any]]:
    """Each classifier, trained on synthetic images and, where that is known, on real ones."""
    found: dict[str, dict[str, Any]] = {}
    for name in effort.classifiers:
        accuracy = judged_accuracy(
            images, labels, real.test, classifier=name, seeds=seeds, progress=stage(name)
        )
        found[name] = {"synthetic": accuracy.to_json(), "real": None}
        if effort.baselines and real.train is not None:
            found[name]["real"] = Cache().baseline(
                name, real.train, real.test, seeds=seeds, progress=stage(f"{name} on real")
            )
    if found["cnn"]["real"] is None and real.train is not None:  # the same network, already there
        found["cnn"]["real"] = summed_up([domain.tested(real.test)], real.test, [SEED]).to_json()
    return found


def _domain(domain: DomainClassifier, real: Real) -> dict[str, Any]:
    """What the classifier behind the measures is worth."""
    return {
        "accuracy": domain.tested(real.unseen).accuracy if len(real.unseen.labels) else None,
        "training_images": domain.trained_on,
        "test_images": len(real.unseen.labels),
        "seed": SEED,
    }


def _training_records(synthetic: Path, real: Real, notes: list[str]) -> Records | None:
    """What the images were made from, as far as anyone can tell."""
    train = real.train
    if train is None or not is_run(synthetic):
        return train
    if was_trained_on(load_run(synthetic), train.public):
        return train
    notes.append(
        f"{synthetic} was not trained on {train.public.name}, so nothing is said of its training"
        " records."
    )
    return None


def _copying(images: Images, train: Records | None, real: Real, notes: list[str]) -> dict[str, Any]:
    """Whether images are nearer to training records than they should be."""
    if train is None:
        return {"nearest": None, "membership": None}
    held_out = real.test.images
    near = nearest(synthetic=images, held_out=held_out, train=train.images)
    attacks = _noted(notes, "membership", lambda: attacked(images, train.images, held_out))
    return {
        "nearest": near.to_json(),
        "membership": [attack.to_json() for attack in attacks] if attacks else None,
    }


def _noted(notes: list[str], what: str, work: Callable[[], T]) -> T | None:
    """A figure that these data are too few for is left out, and a note says why."""
    try:
        return work()
    except DataLensError as error:
        notes.append(f"No {what}: {error}")
        return None


Stage = Callable[[str], Callable[[int, int], None]]


@contextmanager
def _stages() -> Iterator[Stage]:
    """A line on stderr for each stage that is begun; on a terminal bars that go away."""
    console = Console(stderr=True)
    with Progress(console=console, transient=True, disable=not console.is_terminal) as bars:

        def stage(name: str) -> Callable[[int, int], None]:
            if not console.is_terminal:
                console.print(f"{name} ...", highlight=False)
            task = bars.add_task(name, total=None, visible=False)

            def report(done: int, total: int) -> None:
                bars.update(task, completed=done, total=total, visible=True)

            return report

        yield stage
