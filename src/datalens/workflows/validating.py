"""`datalens evaluate --private-validation`: one figure that may be published."""

import hashlib
import math
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from rich.console import Console
from rich.status import Status

from datalens.classifiers.judge import taught
from datalens.data import PublicFacts, Records, fingerprint
from datalens.errors import DataLensError
from datalens.privacy.ledger import ledger_name_for
from datalens.synthesizers.session import temporary_session
from datalens.utility.accuracy import JUDGED_IMAGES, check_fits
from datalens.utility.validation import PublicClassifier, Validation
from datalens.workflows.evaluation import USUAL
from datalens.workflows.judged import Images, check_classes, is_run, learned_from, samples_of
from datalens.workflows.progress import careful
from datalens.workflows.runs import holds_classifier, load_any, load_classifier
from datalens.workflows.source import Source

FOLDER = "validation"
SEED = 0
VERY_RECORDS = "{} holds the very records of {}; give images that are public."


def validate(
    synthetic: Path,
    source: Source,
    *,
    epsilon: float,
    ledger: str | None = None,
    out: Path | None = None,
) -> dict[str, Any]:
    """Buy how often the judge of these images, or a private classifier, is right.

    The ledger of the held-out records is charged. Nothing else about them is computed. What was
    bought goes to a folder of its own, which `datalens verify` can check.
    """
    if out is None and not is_run(synthetic):
        raise DataLensError("Name a folder for the certificate with --out.")
    folder = out or synthetic / FOLDER
    _refuse_what_is_not_public(synthetic, source)
    held_out = source.tested()
    if learned_from(synthetic, held_out):
        raise DataLensError(
            f"{source.name} has no test split, and its records are those that {synthetic} has"
            " learned from; name records with --on that were held out."
        )
    records = held_out.records
    part = "" if held_out.whole else "-test"
    name = ledger or ledger_name_for(records.public.name) + part
    teacher = _teacher(synthetic, records, source.image_size)
    validation = Validation(teacher, epsilon=epsilon)
    validation.resolve(records.public)  # what can be wrong is wrong before this point
    try:
        folder.mkdir(parents=True)  # nothing is bought that could not be kept
    except FileExistsError:
        raise DataLensError(f"{folder} exists already; name another --out.") from None
    except OSError as error:
        raise DataLensError(f"{folder} cannot be written ({error.strerror}).") from None
    try:
        with (
            _at_work() as status,
            careful(lambda words: _say(status.console, words)),
            temporary_session(
                ledger=name,
                named=ledger is not None,
                seed=None,
                allow_large_delta=True,  # Laplace noise of this scale holds at delta 0 as well
            ) as session,
        ):
            validation.fit(records, session=session)
    except BaseException:
        shutil.rmtree(folder)
        raise
    validation.save(folder)
    return _result(synthetic, source, validation, name, folder)


def _at_work() -> Status:
    return Console(stderr=True).status("A judge learns from the synthetic images ...")


def _say(console: Console, sentence: str) -> None:
    """A word to the user, on stderr."""
    console.print(sentence, highlight=False, markup=False, soft_wrap=True)


def _refuse_what_is_not_public(synthetic: Path, source: Source) -> None:
    """A classifier that knows the held-out records moves with each of them, noise or not."""
    if is_run(synthetic):
        if not load_any(synthetic).certificate["private"]:
            raise DataLensError(
                f"{synthetic} is NOT PRIVATE, so that what learns from it may know records by"
                " heart; validate a run that protects them."
            )
    elif fingerprint(synthetic) == fingerprint(source.name, data_dir=source.data_dir):
        raise DataLensError(VERY_RECORDS.format(synthetic, source.name))


def _teacher(
    synthetic: Path, records: Records, image_size: int | None
) -> Callable[[], PublicClassifier]:
    """Makes the classifier from public things; records are looked at only to refuse them."""
    public = records.public
    if holds_classifier(synthetic):
        classifier = _private_classifier(synthetic, public)
        return lambda: classifier
    at_most = USUAL.learned(JUDGED_IMAGES, public.shape)
    images, labels = samples_of(synthetic, public, at_most=at_most, image_size=image_size)
    check_fits(images, labels, records)
    published = is_run(synthetic)  # of a file, only its owner knows whether it may be
    if not published and _digests(images) <= _digests(records.images):
        raise DataLensError(VERY_RECORDS.format(synthetic, public.name))

    def teach() -> PublicClassifier:
        judge = taught(images, labels, public.n_classes, seed=SEED)
        return PublicClassifier(
            predict=lambda pixels: judge.predict(torch.from_numpy(pixels)).numpy(),
            weights={name: weight.detach().numpy() for name, weight in judge.weights.items()}
            if published
            else {},
        )

    return teach


def _digests(images: Images) -> set[bytes]:
    """Of each image, whatever their order, number and labels."""
    return {hashlib.blake2b(image.tobytes()).digest() for image in images}


def _private_classifier(run: Path, public: PublicFacts) -> PublicClassifier:
    classifier = load_classifier(run)
    check_classes(run, classifier.class_names, public)
    return PublicClassifier(
        predict=lambda pixels: classifier.predict(pixels).labels, weights=classifier._arrays()
    )


def _result(
    synthetic: Path, source: Source, validation: Validation, ledger: str, folder: Path
) -> dict[str, Any]:
    certificate, plan = validation.certificate, validation.plan
    if plan is None:
        raise TypeError("a validation that was bought has a plan")
    n_records = plan.public.n_records
    return {
        "synthetic": str(synthetic),
        "on": source.name,
        "internal": False,
        "accuracy": validation.accuracy,
        "accuracy_interval": list(validation.interval),
        "noise_deviation": math.sqrt(2) * plan.mechanism.scale / n_records,
        "right_answers": validation.right,
        "test_images": n_records,
        "private": certificate["private"],
        "epsilon": certificate["epsilon"],
        "epsilon_replace": certificate["epsilon_replace"],
        "delta": certificate["delta"],
        "ledger": ledger,
        "out": str(folder),
    }
