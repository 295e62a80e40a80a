"""What every plan is: settings with nothing left open, public facts, and the whole cost."""

import hashlib
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, ClassVar

import tomli_w

from datalens.data import PublicFacts
from datalens.mechanism.noise import NoiseKind
from datalens.privacy.accountants import Charge, epsilon
from datalens.synthesizers.settings import Budget


@dataclass(frozen=True, kw_only=True)
class FrozenPlan(ABC):
    """Fixed before any record is seen. The ledger reserves what it costs."""

    method: ClassVar[str]
    noise: ClassVar[NoiseKind] = "exact"
    """What a private run draws: exact, or float-secure where steps are on floating-point sums."""

    settings: Budget
    public: PublicFacts

    @property
    def charges(self) -> list[Charge]:
        """The whole cost, as it is reserved."""
        return self.charges_after(self.facts["steps"])

    @abstractmethod
    def charges_after(self, steps: int) -> list[Charge]:
        """What is paid when so many steps have been taken."""

    @property
    def parameters(self) -> dict[str, dict[str, Any]]:
        """For each kind of release, the numbers its sensitivity follows from."""
        return {}

    @property
    def facts(self) -> dict[str, Any]:
        """What the certificate says beside the costs."""
        return {"steps": 0, "teachers": None}

    @property
    def data(self) -> dict[str, Any]:
        """What is public about the records, as ledger and certificate state it."""
        return {
            "name": self.public.name,
            "n_records": self.public.n_records,
            "shape": list(self.public.shape),
            "classes": list(self.public.class_names),
        }

    def spent(self) -> float:
        """Epsilon when all is done, by the accountant that sizes the run."""
        return epsilon(self.charges, self.settings.delta, self.settings.accountant)

    def spent_after(self, steps: int) -> float:
        """Epsilon after so many steps, by that accountant."""
        return epsilon(self.charges_after(steps), self.settings.delta, self.settings.accountant)

    def to_toml(self) -> str:
        """config.toml: what was run, readable and complete."""
        return tomli_w.dumps(
            {
                "method": self.method,
                "settings": self.settings.model_dump(exclude_none=True),
                "data": {
                    "name": self.public.name,
                    "n_records": self.public.n_records,
                    "shape": list(self.public.shape),
                    "class_names": list(self.public.class_names),
                },
            }
        )

    @property
    def sha256(self) -> str:
        """The configuration's hash, as certificate and ledger name it."""
        return hashlib.sha256(self.to_toml().encode()).hexdigest()
