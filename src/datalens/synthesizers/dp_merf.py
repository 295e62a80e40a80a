"""dp-merf: one noisy mean embedding, and a generator that is fitted to it."""

import math
from dataclasses import dataclass
from hashlib import sha256
from typing import Any, ClassVar

import numpy as np
import torch
from numpy.typing import NDArray
from pydantic import Field

from datalens.data import PublicFacts, Records
from datalens.ensemble.streams import stream
from datalens.errors import DataLensError
from datalens.mechanism.embeddings import FeatureSums
from datalens.mechanism.noise import Integers
from datalens.privacy.accountants import Charge, rho_of
from datalens.privacy.calibration import budget_rho, sigma_for
from datalens.student.embedding import Waves, match
from datalens.student.generator import Generator
from datalens.synthesizers.moments import class_counts
from datalens.synthesizers.plan import Plan, class_prior
from datalens.synthesizers.protocol import Drawn, Synthesizer
from datalens.synthesizers.session import Member, Stopped
from datalens.synthesizers.settings import MOST_IMAGES, MOST_UPDATES, Settings

BOUND = 2**20
"""Grid steps to length one; each of 4000 features is some 20,000 of them."""
MOST_WAVES, MOST_SCALES = 100_000, 8
MOST_NUMBERS = 2**27
"""In a table with a row for each wave: a gigabyte of memory."""
TELL = 10
"""Updates between two words of progress."""


class DPMerfSettings(Settings):
    """A kernel, and how a generator is fitted to the embedding that the kernel gives."""

    waves: int = Field(default=2000, gt=0, le=MOST_WAVES)
    """Random frequencies; each gives two features."""
    length_scale: float = Field(default=0.4, ge=1e-3, le=1e3)
    """Of the Gaussian kernel: a root mean square difference of pixels in [0, 1]."""
    scales: int = Field(default=1, gt=0, le=MOST_SCALES)
    """Kernels that share the waves, each of half the length of the one before."""
    updates: int = Field(default=1000, gt=0, le=MOST_UPDATES)
    batch_size: int = Field(default=300, gt=0, le=MOST_IMAGES)
    learning_rate: float = Field(default=1e-2, gt=0, le=1)
    latent: int = Field(default=10, gt=0, le=4096)


@dataclass(frozen=True, kw_only=True)
class DPMerfPlan(Plan):
    """The embedding takes the budget, but for the class histogram where it is bought."""

    method: ClassVar[str] = "dp-merf"
    settings: DPMerfSettings
    start: None = None
    sums: FeatureSums

    @classmethod
    def resolve(cls, settings: DPMerfSettings, public: PublicFacts) -> "DPMerfPlan":
        _check_room(settings, public)
        rho = budget_rho(settings.epsilon, settings.delta, settings.accountant)
        counts = class_prior(settings, public, rho)
        rho -= rho_of(counts.event) if counts else 0.0
        sums = FeatureSums(bound=BOUND, sigma=sigma_for(rho, BOUND**2), n_classes=public.n_classes)
        return cls(settings=settings, public=public, counts=counts, sums=sums)

    @property
    def charges(self) -> list[Charge]:
        return [*self.first_charges, Charge(event=self.sums.event, count=1)]

    @property
    def parameters(self) -> dict[str, dict[str, Any]]:
        return super().parameters | {"feature-sums": self.sums.parameters}


class DPMerf(Synthesizer):
    """The mean embedding of every class is bought once; a generator then learns to have the same.

    Guarantee: the records are touched by at most two releases (class counts, feature sums), each
    with its own stated sensitivity; see mechanism/embeddings.py. The kernel, its frequencies and
    everything about the generator's training are public or follow from the releases.
    """

    method: ClassVar[str] = "dp-merf"
    settings_type: ClassVar[type[Settings]] = DPMerfSettings
    about: ClassVar[str] = "one noisy mean embedding, and a generator fitted to it"
    source: ClassVar[str] = "Harder, Adamczewski and Park, AISTATS 2021"
    settings: DPMerfSettings

    def resolve(self, public: PublicFacts) -> DPMerfPlan:
        return DPMerfPlan.resolve(self.settings, public)

    def _train(self, records: Records, plan: DPMerfPlan, session: Member) -> None:  # type: ignore[override]
        chosen, public = plan.settings, plan.public
        session.observer.progress("embedding", 0, 1)
        waves = Waves(
            public.shape, chosen.waves, length_scale=chosen.length_scale, scales=chosen.scales
        )
        counts = class_counts(records, session.releases, plan.counts)
        sums = _bought(records, plan, session, waves)
        session.observer.progress("embedding", 1, 1, spent=plan.spent())
        self._prior = counts / counts.sum()
        self._student = _new_generator(plan, session.secret)

        def tell(done: int, total: int) -> None:
            """All that follows the release is worked out again by one who resumes."""
            if done % TELL == 0 or done == total:
                session.observer.progress("generator", done, total)
                if done < total and session.stopping():
                    raise Stopped

        match(
            self._student,
            waves,
            torch.from_numpy(sums / plan.sums.bound).float(),
            torch.from_numpy(counts).float(),
            updates=chosen.updates,
            batch_size=chosen.batch_size,
            learning_rate=chosen.learning_rate,
            secret=session.secret,
            progress=tell,
        )
        weights = b"".join(array.tobytes() for array in self._arrays().values())
        session.ranks.agree(
            "the generator", sha256(weights).hexdigest()[:16], remedy="use machines of one kind"
        )

    def _draw(self, labels: NDArray[np.int64], seed: bytes, *, exact: bool) -> Drawn:
        net = self._student
        latents = torch.randn(len(labels), net.latent, generator=stream(seed, "sample"))
        with torch.no_grad():
            return Drawn(net(latents, torch.from_numpy(labels)).numpy(), labels)

    def _arrays(self) -> dict[str, NDArray[Any]]:
        return {name: w.numpy() for name, w in self._student.state_dict().items()}

    def _take_arrays(self, arrays: dict[str, NDArray[Any]], plan: DPMerfPlan) -> None:  # type: ignore[override]
        self._student = net = _new_generator(plan, b"loaded")
        if {n: a.shape for n, a in arrays.items()} != {
            n: tuple(w.shape) for n, w in net.state_dict().items()
        }:
            raise DataLensError("its weights do not fit the run's configuration.")
        net.load_state_dict({name: torch.from_numpy(array) for name, array in arrays.items()})


def _check_room(settings: DPMerfSettings, public: PublicFacts) -> None:
    """Refuse what no memory holds before anything is reserved for it."""
    classes, values = public.n_classes, math.prod(public.shape)
    # The frequencies; the release, whose numbers are longer; the features of a batch.
    most = MOST_NUMBERS // max(values, 16 * classes, settings.batch_size)
    if settings.waves > most:
        raise DataLensError(
            f"waves is {settings.waves}: with {classes} classes, images of {values} values and"
            f" batches of {settings.batch_size}, memory bears at most {most}."
        )


def _bought(records: Records, plan: DPMerfPlan, session: Member, waves: Waves) -> Integers:
    """The one release that everything follows from."""
    sums = session.releases.obtain(
        "feature-sums",
        plan.sums,
        lambda: plan.sums.query(records.images, records.labels, waves.of_records),
        shape=(plan.public.n_classes, 2 * plan.settings.waves),
    )
    if sums is None:
        raise session.lost()
    return sums


def _new_generator(plan: DPMerfPlan, secret: bytes) -> Generator:
    return Generator(
        plan.public.shape,
        plan.public.n_classes,
        plan.settings.latent,
        stream=stream(secret, "student", "initial"),
    )
