"""What is bought before any vote: a mixture of Gaussians for each class, and who labels images.

Without votes it is the whole of `datalens`; with them it is where the student starts.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray

from datalens.classifiers.labeller import Labeller, LabellerPlan, steps_borne
from datalens.data import PublicFacts, Records
from datalens.errors import DataLensError
from datalens.privacy.accountants import Charge
from datalens.privacy.releases import Door
from datalens.student.gaussian import GaussianModel
from datalens.student.mixture import MixtureModel
from datalens.synthesizers.clusters import ClusterPlan
from datalens.synthesizers.moments import MomentPlan
from datalens.synthesizers.settings import LEAST_SHARE, SUMS_SHARE, DataLensSettings


@dataclass(frozen=True, kw_only=True)
class WarmStartPlan:
    """Moments first, then clusters in the directions that the moments show, then the labeller."""

    public: PublicFacts
    moments: MomentPlan
    clusters: ClusterPlan | None
    """None where the noise bears one cluster only."""
    labeller: LabellerPlan | None

    @classmethod
    def within(
        cls, rho: float, *, public: PublicFacts, settings: DataLensSettings
    ) -> "WarmStartPlan":
        """At the least noise that costs at most `rho` in all."""
        clusters, left = None, rho
        labeller = _labeller(rho * settings.label_share, public, settings)
        if labeller is not None:
            left -= rho * settings.label_share
        share = left * settings.cluster_share
        if settings.clusters != 1:
            clusters = ClusterPlan.within(share, public=public, clusters=settings.clusters)
        if clusters is not None and clusters.clusters > 1:
            left -= share
        else:
            clusters = None
        moments = MomentPlan.within(left, public=public, sums_share=SUMS_SHARE, rank=settings.rank)
        return cls(public=public, moments=moments, clusters=clusters, labeller=labeller)

    @property
    def charges(self) -> list[Charge]:
        return [charge for plan in self._parts() for charge in plan.charges]

    @property
    def steps(self) -> int:
        """In which it is bought: the moments, the clusters, and each of the labeller's."""
        return 2 + (self.labeller.steps if self.labeller else 0)

    def charges_after(self, steps: int) -> list[Charge]:
        """What is paid when so many of them have been taken."""
        paid = self.moments.charges if steps > 0 else []
        if self.clusters and steps > 1:
            paid = paid + self.clusters.charges
        if self.labeller and steps > 2:
            paid = paid + self.labeller.charges_after(steps - 2)
        return paid

    @property
    def parameters(self) -> dict[str, dict[str, int]]:
        """What the sensitivities follow from."""
        return {what: told for plan in self._parts() for what, told in plan.parameters.items()}

    @property
    def decided(self) -> dict[str, int]:
        """The settings that were open, as they were chosen."""
        return {
            "clusters": self.clusters.clusters if self.clusters else 1,
            "label_steps": self.labeller.steps if self.labeller else 0,
        }

    def buy_model(
        self,
        records: Records,
        releases: Door,
        counts: NDArray[np.float64],
        chance: torch.Generator,
        *,
        progress: Callable[[int], None],
        agree: Callable[[GaussianModel], None],
    ) -> MixtureModel | None:
        """The first two steps: the model, or None if a crash lost what it rests on.

        Nothing more is bought then. `agree` is asked to see to it that all ranks have the same
        directions, `progress` is told the steps taken. All chance comes from `chance`, so that one
        who buys again what is bought already gets the same.
        """
        model = self.moments.buy(records, releases, counts)
        progress(1)
        mixture = None
        if model is not None:
            agree(model)
            mixture = (
                self.clusters.buy(records, releases, model, chance)
                if self.clusters
                else MixtureModel.of(model)
            ).enlarged(self.public.shape)
        progress(2)
        return mixture

    def buy_labeller(
        self, records: Records, releases: Door, *, progress: Callable[[int], None]
    ) -> Labeller | None:
        """The other steps, if there are any."""
        if self.labeller is None:
            return None
        return self.labeller.buy(records, releases, lambda done, _: progress(2 + done))

    def _parts(self) -> list[MomentPlan | ClusterPlan | LabellerPlan]:
        return [plan for plan in (self.moments, self.clusters, self.labeller) if plan is not None]


def _labeller(rho: float, public: PublicFacts, settings: DataLensSettings) -> LabellerPlan | None:
    """None where nobody wants one, or noise would make it one that should not label anything."""
    share, steps = settings.label_share, settings.label_steps
    if 0 < share < LEAST_SHARE or (share == 0 and steps):
        raise DataLensError(
            f"label_share is {share:g}: it must be 0, with no label_steps, or at least"
            f" {LEAST_SHARE:g}."
        )
    if steps is None and share > 0:
        steps = steps_borne(rho, public)
    return LabellerPlan.within(rho, public=public, steps=steps) if steps else None
