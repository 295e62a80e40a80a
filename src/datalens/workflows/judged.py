"""What is judged: a run, or a file or folder of synthetic images."""

from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from datalens.classifiers.simple import subset
from datalens.data import NoClasses, PublicFacts, holds_pictures, load
from datalens.data.documents import reading
from datalens.errors import DataLensError
from datalens.synthesizers.learner import AnyLearner, read_config
from datalens.workflows.runs import load_any, load_run
from datalens.workflows.source import Source, Tested

Images = NDArray[np.uint8]
Labels = NDArray[np.int64]


def is_run(synthetic: Path) -> bool:
    return (synthetic / "config.toml").is_file()


def sized_as(synthetic: Path, source: Source) -> Source:
    """With pictures of the size and colour that a run has."""
    if not is_run(synthetic):
        return source
    with reading(synthetic / "config.toml"):
        return source.as_in(read_config(synthetic))


def samples_of(
    synthetic: Path, real: PublicFacts, *, at_most: int, image_size: int | None = None
) -> tuple[Images, Labels]:
    """Drawn from a run, or what a file or folder holds: the same at each call.

    With an `image_size` what is not drawn is brought to it, as real images are; and pictures are
    read in grey or colour as those are.
    """
    if is_run(synthetic):
        run = load_run(synthetic)
        check_classes(synthetic, run.class_names, real)
        return run.sample(at_most, seed=0)
    channels = real.shape[0] if holds_pictures(synthetic) else None
    try:
        found = load(synthetic, image_size=image_size, channels=channels)
    except NoClasses:
        found = load(synthetic, image_size=image_size, channels=channels, n_classes=real.n_classes)
    check_classes(synthetic, found.public.class_names, real)
    chosen = subset(len(found.labels), at_most, seed=0)
    return found.images[chosen], found.labels[chosen]


def check_classes(synthetic: Path, names: tuple[str, ...], real: PublicFacts) -> None:
    """Refuse what has another number of classes, or numbers the same ones differently.

    Other names are fine: those of folders that `datalens sample` writes are numbered.
    """
    if len(names) != real.n_classes:
        raise DataLensError(
            f"{synthetic} has {len(names)} classes and {real.name} has {real.n_classes};"
            " name data of the same classes with --on."
        )
    if names != real.class_names and set(names) == set(real.class_names):
        label = next(i for i, name in enumerate(names) if name != real.class_names[i])
        raise DataLensError(
            f"Class {label} is {names[label]} in {synthetic} and {real.class_names[label]} in"
            f" {real.name}: bring the classes into one order."
        )


def learned_from(synthetic: Path, tested: Tested) -> bool:
    """Whether a run is tested on the records that it has learned from, for want of others."""
    return (
        tested.whole
        and is_run(synthetic)
        and was_trained_on(load_any(synthetic), tested.records.public)
    )


def was_trained_on(learner: AnyLearner, public: PublicFacts) -> bool:
    """Whether these are its records, as far as public facts tell."""
    data = learner.certificate["data"]
    told = (data["name"], data["n_records"], tuple(data["shape"]), tuple(data["classes"]))
    return told == (public.name, public.n_records, public.shape, public.class_names)
