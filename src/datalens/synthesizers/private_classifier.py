"""Private classifiers: one model, trained on the records by noisy steps, instead of images.

For who wants a model and no data. A run of theirs is like any other: planned, charged to the data
set's ledger, resumed, certified and verified in the same way.
"""

from typing import Any, ClassVar, NamedTuple

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray

from datalens.classifiers.networks import new_network, probabilities
from datalens.data import PublicFacts, Records
from datalens.data.arrays import as_images
from datalens.ensemble.streams import stream
from datalens.errors import DataLensError
from datalens.privacy.certificate import Product
from datalens.synthesizers.classifier_plan import (
    ClassifierPlan,
    ClassifierSettings,
    DpSgdPlan,
    ScatterPlan,
    TopAggPlan,
    TopAggSettings,
)
from datalens.synthesizers.learner import Learner
from datalens.synthesizers.session import Member, Session
from datalens.synthesizers.settings import Budget
from datalens.synthesizers.stepping import Trainee, take_steps

BLOCK = 100
"""Steps that are paid, and stored, together."""


class Predictions(NamedTuple):
    """What images show, as a classifier sees it."""

    labels: NDArray[np.int64]
    """(n,): the likeliest class of each."""
    probabilities: NDArray[np.float32]
    """(n, classes)."""


class PrivateClassifier(Learner[ClassifierPlan]):
    """A learner whose product is a classifier.

    Guarantee: that of a learner. Records are touched by noisy steps alone: in each of them a record
    takes part with the stated probability, and what it adds to the sum has a norm of at most the
    unit that noise is measured in. The classifier is public, so predictions cost nothing.
    """

    product: ClassVar[Product] = "classifier"
    settings_type: ClassVar[type[Budget]] = ClassifierSettings
    plan_type: ClassVar[type[ClassifierPlan]]
    accounting: ClassVar[str] = "privacy loss of the subsampled Gaussian, floating-point noise"
    many_ranks: ClassVar[bool] = False
    settings: ClassifierSettings

    def resolve(self, public: PublicFacts) -> ClassifierPlan:
        return self.plan_type.resolve(self.settings, public)

    def predict(self, images: ArrayLike) -> Predictions:
        """The likeliest class of each image, and how likely each is. Free."""
        pixels = as_images(images)
        if pixels.shape[1:] != self.shape or not len(pixels):
            raise DataLensError(
                f"These images are {pixels.shape}, but the classifier was trained on"
                f" {('any number', *self.shape)} (images, channels, height, width)."
            )
        found = probabilities(self._network, pixels)
        return Predictions(found.argmax(1).astype(np.int64), found)

    def _train(self, records: Records, plan: ClassifierPlan, session: Member) -> None:
        from datalens.classifiers.training import PrivateTraining

        if not isinstance(session, Session):
            raise TypeError(f"{self.method} runs on one rank")
        effort, public = plan.effort, plan.public
        start = stream(session.secret, "classifier", "initial")
        training = PrivateTraining(
            new_network(plan.network, public.shape, public.n_classes, stream=start),
            records,
            secret=session.secret,
            noise=session.float_noise,
            noise_multiplier=plan.event.noise_multiplier,
            batch_size=effort.batch_size,
            steps=effort.steps,
            max_grad_norm=effort.max_grad_norm,
            learning_rate=effort.learning_rate,
            keep=plan.settings.keep if isinstance(plan.settings, TopAggSettings) else 1.0,
            at_once=plan.settings.at_once,
        )
        take_steps(
            session,
            Trainee(modules={"classifier": training.network}, optimisers={}, averages={}),
            training.step,
            event=plan.event,
            steps=effort.steps,
            block=BLOCK,
            spent=plan.spent_after,
        )
        self._network = training.network

    def _arrays(self) -> dict[str, NDArray[Any]]:
        return {n: weight.detach().numpy() for n, weight in self._network.named_parameters()}

    def _take_arrays(self, arrays: dict[str, NDArray[Any]], plan: ClassifierPlan) -> None:
        public, start = plan.public, stream(b"loaded")
        network = new_network(plan.network, public.shape, public.n_classes, stream=start)
        weights = dict(network.named_parameters())
        shapes = {name: tuple(weight.shape) for name, weight in weights.items()}
        if {name: array.shape for name, array in arrays.items()} != shapes:
            raise DataLensError("its weights do not fit the run's configuration.")
        with torch.no_grad():
            for name, weight in weights.items():
                weight.copy_(torch.from_numpy(arrays[name]))
        self._network = network


class DpSgd(PrivateClassifier):
    """A small convolutional network under DP-SGD."""

    method: ClassVar[str] = "dpsgd"
    plan_type: ClassVar[type[ClassifierPlan]] = DpSgdPlan
    about: ClassVar[str] = "a small convolutional network trained by DP-SGD"
    source: ClassVar[str] = "Abadi et al. 2016"


class TopAggSgd(PrivateClassifier):
    """The same under DP-SGD with TopAgg: Algorithm 4."""

    method: ClassVar[str] = "topagg"
    settings_type: ClassVar[type[Budget]] = TopAggSettings
    plan_type: ClassVar[type[ClassifierPlan]] = TopAggPlan
    about: ClassVar[str] = "the same network trained by DP-SGD on compressed gradients"
    source: ClassVar[str] = "Wang et al. 2021, appendix A"


class Scatter(PrivateClassifier):
    """A linear model on fixed features under DP-SGD."""

    method: ClassVar[str] = "scatter"
    plan_type: ClassVar[type[ClassifierPlan]] = ScatterPlan
    about: ClassVar[str] = "a linear model on fixed wavelet features, trained by DP-SGD"
    source: ClassVar[str] = "Tramer and Boneh 2021"


CLASSIFIERS: dict[str, type[PrivateClassifier]] = {
    kind.method: kind for kind in (TopAggSgd, DpSgd, Scatter)
}
"""By name."""
