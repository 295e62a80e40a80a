"""class-gaussian: noisy class means and one noisy covariance, sampled as Gaussians.

No network and no votes: seconds of work. It is the honest floor for every other method, and
the student's warm start in `datalens`.
"""

from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from datalens.data import PublicFacts, Records
from datalens.ensemble.streams import stream
from datalens.errors import DataLensError
from datalens.student.gaussian import GaussianModel, Grain
from datalens.synthesizers.moments import block_side, class_counts
from datalens.synthesizers.plan import ClassGaussianPlan, Plan
from datalens.synthesizers.protocol import Drawn, Synthesizer
from datalens.synthesizers.session import Member
from datalens.synthesizers.settings import ClassGaussianSettings, Settings


class ClassGaussian(Synthesizer):
    """A Gaussian per class, from bought moments.

    Guarantee: the records are touched by at most three releases (class counts, class sums,
    second moments), each with its own stated sensitivity; see mechanism/moments.py.
    """

    method: ClassVar[str] = "class-gaussian"
    settings_type: ClassVar[type[Settings]] = ClassGaussianSettings
    about: ClassVar[str] = "noisy class means and one noisy covariance: the honest floor"
    source: ClassVar[str] = "no paper; a standard estimator"
    settings: ClassGaussianSettings

    def resolve(self, public: PublicFacts) -> ClassGaussianPlan:
        return ClassGaussianPlan.resolve(self.settings, public)

    def _train(self, records: Records, plan: ClassGaussianPlan, session: Member) -> None:  # type: ignore[override]
        session.observer.progress("moments", 0, 1)
        counts = class_counts(records, session.releases, plan.counts)
        model = plan.start.buy(records, session.releases, counts)
        if model is None:
            raise session.lost()
        self._model = model.enlarged(plan.public.shape)
        self._prior = counts / counts.sum()
        session.observer.progress("moments", 1, 1, spent=plan.spent())

    def _draw(self, labels: NDArray[np.int64], seed: bytes, *, exact: bool) -> Drawn:
        return Drawn(self._model.sample(labels, stream(seed, "sample")), labels)

    def _grain(self) -> Grain:
        return Grain(deviation=self._model.grain, block=block_side(self._model.shape))

    def _arrays(self) -> dict[str, NDArray[Any]]:
        return self._model.arrays()

    def _take_arrays(self, arrays: dict[str, NDArray[Any]], plan: Plan) -> None:
        model = GaussianModel.from_arrays(arrays, shape=plan.public.shape)
        if len(model.means) != plan.public.n_classes:
            raise DataLensError(f"it must have {plan.public.n_classes} class means.")
        self._model = model
