"""What was learned from real records and is needed again. Private, as the records are.

It lies in DATALENS_HOME/cache, which nobody else can enter, and may be deleted at any time.
"""

import fcntl
import hashlib
import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from safetensors import SafetensorError

from datalens import classifiers, utility
from datalens.classifiers.judge import Progress
from datalens.data import Records
from datalens.data.documents import read_json
from datalens.errors import DataLensError
from datalens.files import replace_file
from datalens.privacy.ledger import default_home
from datalens.utility.accuracy import judged_accuracy
from datalens.utility.domain import DomainClassifier

SOURCES = {
    classifiers: ("judge", "judges", "judge_cnn", "judge_residual", "simple"),
    utility: ("accuracy", "domain"),
}
"""Whatever decides on what is learned."""


class Cache:
    """Each thing is named after the records and the code that it comes from."""

    def __init__(self, folder: Path | None = None) -> None:
        self._folder = folder or default_home() / "cache"

    def domain(self, train: Records, *, progress: Progress | None = None) -> DomainClassifier:
        """The classifier of these records, learned now if it is not there."""
        name = _name("domain", [train])

        def learn() -> DomainClassifier:
            learned = DomainClassifier.learn(train, progress=progress)
            replace_file(self._folder / f"{name}.safetensors", learned.to_bytes())
            return learned

        with self._alone_with(name):
            try:
                content = (self._folder / f"{name}.safetensors").read_bytes()
                return DomainClassifier.from_bytes(content, train)
            except (FileNotFoundError, SafetensorError, ValueError):  # or a damaged one
                return learn()

    def baseline(
        self,
        classifier: str,
        train: Records,
        test: Records,
        *,
        seeds: Sequence[int],
        progress: Progress | None = None,
    ) -> dict[str, Any]:
        """How well a classifier does that has learned from real records."""
        name = _name(f"{classifier}-{len(seeds)}", [train, test])
        file = self._folder / f"{name}.json"
        with self._alone_with(name):
            try:
                return read_json(file)
            except DataLensError:  # not there, or damaged
                found = judged_accuracy(
                    train.images,
                    train.labels,
                    test,
                    classifier=classifier,
                    seeds=seeds,
                    progress=progress,
                ).to_json()
                replace_file(file, json.dumps(found).encode())
                return found

    @contextmanager
    def _alone_with(self, name: str) -> Iterator[None]:
        """Two processes do not learn the same thing: one waits, and then finds it."""
        try:
            self._folder.mkdir(parents=True, exist_ok=True)
            self._folder.chmod(0o700)
            lock = (self._folder / f"{name}.lock").open("w")
        except OSError as error:
            raise DataLensError(
                f"{self._folder} cannot be written ({error.strerror}); set DATALENS_HOME to a"
                " folder you may write to."
            ) from None
        with lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield


def _name(what: str, groups: Sequence[Records]) -> str:
    digest = hashlib.sha256()
    for package, modules in SOURCES.items():
        for module in modules:
            digest.update((Path(package.__path__[0]) / f"{module}.py").read_bytes())
    for records in groups:
        digest.update(records.fingerprint())
        digest.update(json.dumps(records.public.class_names).encode())
    return f"{what}-{digest.hexdigest()[:24]}"
