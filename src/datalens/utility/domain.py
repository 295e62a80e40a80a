"""The domain's own features: a classifier of the real images, and its penultimate layer.

ImageNet's features know little of digits or of X-ray pictures; those of a classifier that was
trained on such images do. It has seen real records, so it and what it says stay internal.
"""

from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from safetensors.torch import load, save

from datalens.classifiers.judge import EPOCHS, Judgement, Progress, new_judge, taught
from datalens.classifiers.judges import Judge
from datalens.data import Records

Images = NDArray[np.uint8]
Floats = NDArray[np.float64]

SEED = 0


@dataclass(frozen=True, eq=False)
class DomainClassifier:
    """The paper's network, trained on real records for as long as any judge."""

    judge: Judge
    trained_on: int
    """Records."""

    name = "domain classifier"

    @classmethod
    def learn(cls, train: Records, *, progress: Progress | None = None) -> "DomainClassifier":
        """One seed, all records: the same for everything that is measured on this data set."""

        def after(judge: Judge, epoch: int) -> None:
            if progress is not None:
                progress(epoch, EPOCHS)

        n_classes = train.public.n_classes
        judge = taught(train.images, train.labels, n_classes, epochs=EPOCHS, seed=SEED, after=after)
        return cls(judge, len(train.labels))

    def features(self, images: Images) -> Floats:
        """(n, 64)."""
        return self.judge.features(torch.from_numpy(images)).double().numpy()

    def probabilities(self, images: Images) -> Floats:
        """What each image shows: (n, classes)."""
        return self.judge.probabilities(torch.from_numpy(images)).numpy()

    def tested(self, test: Records) -> Judgement:
        """How often it is right: what its opinion of synthetic images is worth."""
        said = self.judge.predict(torch.from_numpy(test.images)).numpy()
        n_classes = test.public.n_classes
        return Judgement.of(said, test.labels, n_classes, learned_from=self.trained_on)

    def to_bytes(self) -> bytes:
        """Weights as a safetensors file."""
        weights = self.judge.weights.items()
        return save({name: weight.detach().contiguous() for name, weight in weights})

    @classmethod
    def from_bytes(cls, content: bytes, train: Records) -> "DomainClassifier":
        """The inverse of `to_bytes`, for the records that it was trained on."""
        judge = new_judge("cnn", train.public.shape, train.public.n_classes, seed=SEED)
        judge.take(load(content))
        return cls(judge, len(train.labels))
