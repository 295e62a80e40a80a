"""What is bought before any vote: a mixture of Gaussians for each class, and who labels images.

Without votes it is the whole of `datalens`; with them it is where the student starts.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray

from datalens.classifiers.labeller import Labeller, LabellerPlan
from datalens.data import PublicFacts, Records
from datalens.privacy.accountants import Charge
from datalens.privacy.releases import Door
from datalens.student.mixture import MixtureModel
from datalens.synthesizers.clusters import ClusterPlan
from datalens.synthesizers.moments import MomentPlan
from datalens.synthesizers.settings import SUMS_SHARE, DataLensSettings


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
        labeller, clusters, left = None, None, rho
        if settings.label_share > 0 and settings.label_steps != 0:
            labeller = LabellerPlan.within(
                rho * settings.label_share, public=public, steps=settings.label_steps
            )
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

    def buy(
        self,
        records: Records,
        releases: Door,
        counts: NDArray[np.float64],
        chance: torch.Generator,
        progress: Callable[[int, int], None] = lambda done, total: None,
    ) -> tuple[MixtureModel | None, Labeller | None]:
        """The model, None if a crash lost what it rests on, and the labeller.

        All chance comes from `chance`, so that one who buys again what is bought already gets the
        same.
        """
        total = 2 + (self.labeller.steps if self.labeller else 0)
        progress(0, total)
        model = self.moments.buy(records, releases, counts)
        progress(1, total)
        mixture = None
        if model is not None:
            mixture = (
                self.clusters.buy(records, releases, model, chance)
                if self.clusters
                else MixtureModel.of(model)
            ).enlarged(self.public.shape)
        progress(2, total)
        if self.labeller is None:
            return mixture, None
        bought = self.labeller.buy(records, releases, lambda done, _: progress(2 + done, total))
        return mixture, bought

    def _parts(self) -> list[MomentPlan | ClusterPlan | LabellerPlan]:
        return [plan for plan in (self.moments, self.clusters, self.labeller) if plan is not None]
