"""Run folders: reading one back, whichever method made it."""

import json
from collections.abc import Mapping
from pathlib import Path
from reprlib import repr as shown
from typing import Any

from datalens.data.documents import read_json
from datalens.errors import DataLensError
from datalens.synthesizers import METHODS, Synthesizer
from datalens.synthesizers.learner import AnyLearner, read_config
from datalens.synthesizers.private_classifier import CLASSIFIERS, PrivateClassifier
from datalens.utility.validation import Validation
from datalens.workflows.source import Source
from datalens.workflows.suggesting import command

SOURCE = Path("internal", "source.json")


def is_private(method: str) -> bool:
    """Whether a method protects anybody; what is not known is taken for one, and refused later."""
    return method not in METHODS or METHODS[method].private


def load_run(run: Path) -> Synthesizer:
    """The fitted synthesizer of a finished run."""
    kind = METHODS[_method(run, METHODS)]
    return kind.load(run)


def load_classifier(run: Path) -> PrivateClassifier:
    """The private classifier of a finished run."""
    kind = CLASSIFIERS[_method(run, CLASSIFIERS)]
    return kind.load(run)


def holds_classifier(run: Path) -> bool:
    """Whether this is a run that made a classifier, finished or not."""
    return (run / "config.toml").is_file() and read_config(run).get("method") in list(CLASSIFIERS)


def load_any(run: Path) -> AnyLearner:
    """Whatever a finished run has made."""
    return load_classifier(run) if holds_classifier(run) else load_run(run)


def check_product(run: Path, method: Any, kinds: Mapping[str, type[AnyLearner]]) -> None:
    """Refuse a run whose product the command is not for, and name the commands that are."""
    refuse_figure(run, method)
    if not isinstance(method, str) or method not in [*METHODS, *CLASSIFIERS]:
        raise DataLensError(f"{run} was made by an unknown method, {shown(method)}.")
    if method not in kinds:
        made, use = "images", "fit, sample and evaluate"
        if method in CLASSIFIERS:
            made, use = "a classifier", "classify, predict and evaluate"
        raise DataLensError(f"{run} is a run of {method}, which makes {made}; use datalens {use}.")


def refuse_figure(run: Path, method: Any) -> None:
    """What `evaluate --private-validation` has bought looks like a run, and is none."""
    if method == Validation.method:
        raise DataLensError(
            f"{run} holds one accuracy, not a run: publish the folder as it is, and let others"
            " check it with datalens verify."
        )


def _method(run: Path, kinds: Mapping[str, type[AnyLearner]]) -> str:
    method = read_config(run).get("method")
    check_product(run, method, kinds)
    if not (run / "certificate.json").is_file():
        verb = "classify" if method in CLASSIFIERS else "fit"
        resume = command(verb, *_source_of(run), "--out", run, "--resume")
        if not (run / f"{kinds[str(method)].product}.safetensors").is_file():
            raise DataLensError(f"{run} is not finished; go on with {resume}.")
        anew = f", or write it anew with {resume}" if (run / "internal").is_dir() else ""
        raise DataLensError(
            f"{run} is finished, but its certificate.json is missing: put it back from an export or"
            f" a copy{anew}."
        )
    return str(method)


def keep_source(run: Path, source: Source) -> None:
    """Keep the words that name the data, in the private half."""
    words = [source.name, *source.options]
    (run / SOURCE).write_text(json.dumps({"words": words}))


def _source_of(run: Path) -> list[str]:
    """The words that `keep_source` has kept, where they are there."""
    try:
        return [str(word) for word in read_json(run / SOURCE)["words"]]
    except (DataLensError, KeyError, TypeError):
        return ["..."]
