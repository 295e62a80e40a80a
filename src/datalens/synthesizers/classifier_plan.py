"""From settings and public facts to the frozen plan of a private classifier: its noisy steps."""

import math
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, Self

from pydantic import Field

from datalens.classifiers.networks import NetworkName
from datalens.data import PublicFacts
from datalens.mechanism.events import SampledGaussianRelease, noise_scale
from datalens.mechanism.noise import NoiseKind
from datalens.privacy.accountants import Charge
from datalens.synthesizers.frozen import FrozenPlan
from datalens.synthesizers.sampled import sampled_step
from datalens.synthesizers.settings import MOST_IMAGES, MOST_UPDATES, Budget, within_limits
from datalens.synthesizers.training_rule import Effort, effort_for


class ClassifierSettings(Budget):
    """DP-SGD. What is left out follows from the number of records and epsilon: training_rule.py."""

    accountant: Literal["certified", "paper", "pld"] = "pld"
    """Which one sizes the run: pld is the tightest."""
    batch_size: int | None = Field(default=None, gt=0, le=MOST_IMAGES)
    """Records that take part in a step, on average."""
    steps: int | None = Field(default=None, gt=0, le=MOST_UPDATES)
    """Each is a release."""
    epochs: float | None = Field(default=None, gt=0, le=MOST_UPDATES)
    """Steps in other words: how often each record takes part, on average."""
    noise_multiplier: float | None = Field(default=None, ge=1e-6)
    """Noise, in the largest norm of what a record adds. None: the least that the budget allows."""
    max_grad_norm: float | None = Field(default=None, gt=0, le=1e6)
    """Where a record's gradient is clipped."""
    learning_rate: float | None = Field(default=None, gt=0, le=1e6)
    """At the first step; it falls to 0 in a straight line."""
    at_once: int = Field(default=256, gt=0, le=MOST_IMAGES)
    """Records whose gradients are in memory together. Part of the result, by rounding."""


class TopAggSettings(ClassifierSettings):
    """DP-SGD on compressed gradients."""

    keep: float = Field(default=0.8, gt=0, le=1)
    """Share of a clipped gradient's squared norm that is kept; 1 is DP-SGD."""


@dataclass(frozen=True, kw_only=True)
class ClassifierPlan(FrozenPlan):
    """Steps on random parts of the records, and nothing else."""

    noise: ClassVar[NoiseKind] = "float-secure"
    network: ClassVar[NetworkName] = "cnn"
    what: ClassVar[str] = "dp-sgd"

    settings: ClassifierSettings
    effort: Effort
    event: SampledGaussianRelease

    @classmethod
    def resolve(cls, settings: ClassifierSettings, public: PublicFacts) -> Self:
        effort = effort_for(
            cls.network,
            epsilon=settings.epsilon,
            n_records=public.n_records,
            batch_size=settings.batch_size,
            steps=settings.steps,
            epochs=settings.epochs,
            max_grad_norm=settings.max_grad_norm,
            learning_rate=settings.learning_rate,
        )
        event = sampled_step(
            cls.what,
            settings,
            public,
            batch_size=effort.batch_size,
            steps=effort.steps,
            noise_multiplier=settings.noise_multiplier,
        )
        decided = {
            "batch_size": effort.batch_size,
            "steps": effort.steps,
            "epochs": None,
            "noise_multiplier": event.noise_multiplier,
            "max_grad_norm": effort.max_grad_norm,
            "learning_rate": effort.learning_rate,
        }
        settings = within_limits(settings, decided)
        plan = cls(settings=settings, public=public, effort=effort, event=event)
        noise_scale(noise=plan.bound * event.noise_multiplier)  # refused now, not when it is paid
        return plan

    @property
    def bound(self) -> float:
        """The norm of the most that a record adds to a step."""
        return self.effort.max_grad_norm

    def charges_after(self, steps: int) -> list[Charge]:
        return [Charge(event=self.event, count=steps)]

    @property
    def parameters(self) -> dict[str, dict[str, Any]]:
        return {self.what: {}}

    @property
    def facts(self) -> dict[str, Any]:
        return super().facts | {"steps": self.effort.steps}


class DpSgdPlan(ClassifierPlan):
    method: ClassVar[str] = "dpsgd"


class ScatterPlan(ClassifierPlan):
    method: ClassVar[str] = "scatter"
    network: ClassVar[NetworkName] = "fixed-features"


@dataclass(frozen=True, kw_only=True)
class TopAggPlan(ClassifierPlan):
    """A record adds at most sqrt(keep) times the clipping norm; noise is in units of that."""

    method: ClassVar[str] = "topagg"
    what: ClassVar[str] = "topagg-sgd"
    settings: TopAggSettings

    @property
    def parameters(self) -> dict[str, dict[str, Any]]:
        keep, clip = self.settings.keep, self.effort.max_grad_norm
        return {self.what: {"keep": keep, "max_grad_norm": clip, "bound": self.bound}}

    @property
    def bound(self) -> float:
        return math.sqrt(self.settings.keep) * self.effort.max_grad_norm
