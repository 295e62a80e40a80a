"""What a user may choose. Frozen, keyword-only, and only what may be published.

A value left at None is chosen from public facts (see plan.py).
"""

from collections.abc import Mapping
from reprlib import repr as shown
from typing import Any, Literal, TypeVar

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    SerializerFunctionWrapHandler,
    ValidationError,
    model_serializer,
)

from datalens.errors import DataLensError, printable

LEVELS = 64
"""Grid steps of an entry when signs are switched off."""
SUMS_SHARE = 0.15
"""Share of what is spent on moments that the class sums get; second moments get the rest."""

# A slip of the pen, or a hostile file, must not reserve a budget for a run that cannot end.
MOST_UPDATES = 1_000_000
MOST_STEPS = 50_000
MOST_CLUSTERS = 1000
MOST_IMAGES = 10_000
"""In a batch."""
LEAST_SHARE = 1e-6
"""Of a budget: with less, the noise would have no end."""


class Budget(BaseModel):
    """What every method has."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=False, allow_inf_nan=False)

    epsilon: float = Field(gt=0, le=10_000)
    delta: float = Field(default=1e-5, ge=1e-100, lt=1)
    accountant: Literal["certified", "paper", "pld"] = "certified"

    @property
    def budget(self) -> dict[str, Any]:
        """Nothing, for a method that protects nobody."""
        return self.model_dump(include={"epsilon", "delta", "accountant"}, exclude_none=True)


class Settings(Budget):
    """What every method has that makes images."""

    accountant: Literal["certified", "paper"] = "certified"
    """Noise on counts is discrete, for which pld is no bound."""
    label_prior: Literal["uniform", "bought"] = "uniform"


class Unprotected(Settings):
    """No budget: for methods that protect nobody."""

    epsilon: None = None  # type: ignore[assignment]
    delta: None = None  # type: ignore[assignment]
    accountant: None = None  # type: ignore[assignment]
    label_prior: Literal["uniform"] = "uniform"


class ClassGaussianSettings(Settings):
    """A Gaussian per class: noisy class sums and one noisy second-moment matrix."""

    sums_share: float = Field(default=SUMS_SHARE, ge=LEAST_SHARE, lt=1)
    """Share of the budget for the class sums; the second moments get the rest."""
    rank: int | None = Field(default=None, gt=0)
    """Directions kept of the covariance."""


class TeacherSettings(Settings):
    """An ensemble of teachers, each with its own shard."""

    discriminator: Literal["compact", "reference"] = "compact"
    n_teachers: int | None = Field(default=None, gt=0)
    teacher_updates: int = Field(default=1, ge=0, le=MOST_UPDATES)
    """Training updates of every teacher before each vote."""
    teacher_warm_up: int = Field(default=20, ge=0, le=MOST_UPDATES)
    """Updates before the first vote, against the student as it starts."""
    teacher_learning_rate: float = Field(default=1e-3, gt=0, le=1)
    starts: int | None = Field(default=None, gt=0)
    """Different initial weights among all teachers; None gives each teacher its own."""
    real_batch: int | None = Field(default=None, gt=0)
    """Records of its shard that a teacher sees in one update; None is the whole shard."""
    precision: Literal["float32", "bfloat16"] = "float32"
    """Of the teachers' matrix products. bfloat16 is for hardware that is quicker with it."""
    moments: Literal["float32", "bfloat16"] | None = None
    """Precision of the teachers' Adam moments; None is whichever fits in memory."""
    block_size: int | None = Field(default=None, gt=0)
    """Teachers computed at once, and the least a rank can have. Part of the result, by rounding."""


class VoteSettings(TeacherSettings):
    """Algorithms 1 to 3."""

    compressor: Literal["topagg", "d2pfed", "fetchsgd"] = "topagg"
    """What makes ballots of gradients: docs/methods/compressors.md."""
    levels: int | None = Field(default=None, ge=2, le=2**15)
    """Of d2pfed: evenly spaced values that an entry of a ballot can have."""
    sketch_rows: int | None = Field(default=None, gt=0, le=99)
    """Of fetchsgd: an odd number."""
    sketch_columns: int | None = Field(default=None, gt=0)
    ballot_bound: int | None = Field(default=None, gt=0, le=2**31)
    """Of d2pfed and fetchsgd: the largest norm of a ballot; one that is longer is not cast."""

    top_k: int | None = Field(default=None, gt=0)
    """Entries that a ballot names; d2pfed names all."""
    keep_all: bool = False
    """No top-k: every entry votes."""
    quantise: bool = True
    """Signs. Without it, entries are rounded to a grid of LEVELS steps."""
    clip: float = Field(default=1.0, gt=0)
    clip_mode: Literal["raw", "relative"] = "relative"
    weigh_room: bool = True
    """Weigh gradients by the room a pixel has in [0, 1], the same for both signs."""
    sigma: float | None = Field(default=None, ge=1e-9)
    """Noise in ballots. Given: the budget decides the steps. None: the steps decide it."""
    quorum: float | None = Field(default=None, ge=0)
    threshold: bool = True

    fakes: Literal["voted", "own-labels"] = "voted"
    """What teachers learn to tell from their records: the images that are voted on, or images of
    the same latent vectors with the labels of the teacher's own records."""
    balanced_labels: bool = False
    """Each class as often in a step as its share says, up to one image. Else labels are drawn."""
    batch_size: int | None = Field(default=None, gt=0, le=MOST_IMAGES)
    steps: int | None = Field(default=None, gt=0, le=MOST_STEPS)
    step_size: float = Field(default=0.05, gt=0, le=100)
    cut_targets: bool = True
    """Cut the moved images to [0, 1] before the student follows them."""
    student_updates: int = Field(default=5, gt=0, le=MOST_UPDATES)
    student_learning_rate: float = Field(default=1e-3, gt=0, le=1)
    student_beta1: float = Field(default=0.9, ge=0, lt=1)
    """Of the student's Adam."""
    generator: Literal["small", "dcgan"] = "small"
    latent: int = Field(default=64, gt=0, le=4096)
    moving_average: float = Field(default=0.9, ge=0, lt=1)
    """How much of the averaged generator stays at each step; 0 is the last generator."""

    @model_serializer(mode="wrap")
    def _without_the_usual_compressor(self, write: SerializerFunctionWrapHandler) -> dict[str, Any]:
        """Configurations from when there was no choice name none; they stay what they are."""
        written: dict[str, Any] = write(self)
        if self.compressor == "topagg":
            written.pop("compressor", None)
        return written


class DataLensSettings(VoteSettings):
    """Votes, and what is bought before them."""

    warm_start: bool = True
    """Buy moments, clusters and a labeller before any vote. Without it votes take the budget."""
    vote_share: float | None = Field(default=None, ge=0, le=1)
    """Share of the budget for votes. None: none, unless something about votes is asked for."""
    label_share: float = Field(default=0.25, ge=0, le=1 - LEAST_SHARE)
    """Share of the rest that buys the labeller; 0 is none, and images keep the labels they had."""
    label_steps: int | None = Field(default=None, ge=0, le=MOST_STEPS)
    cluster_share: float = Field(default=0.6, ge=LEAST_SHARE, le=1 - LEAST_SHARE)
    """Share of what then is left that buys clusters, if there are any; moments get the rest."""
    clusters: int | None = Field(default=None, gt=0, le=MOST_CLUSTERS)
    """In each class."""
    rank: int | None = Field(default=None, gt=0)
    """Directions kept of the covariance."""
    spread: float = Field(default=1.25, ge=0, le=10)
    """How wide clusters are drawn, in their own width: wide ones show the labeller more."""
    own_label: float = Field(default=1.5, ge=0, le=100)
    """Nats by which the labeller favours the class that an image was drawn as."""


S = TypeVar("S", bound=Budget)


def within_limits(settings: S, values: Mapping[str, Any]) -> S:
    """The settings with what a plan has decided, within the same limits as what is asked for.

    Else a run could be paid for whose own configuration is refused when it is read again.
    """
    return checked(type(settings), {**settings.model_dump(), **values})


def checked(kind: type[S], values: dict[str, Any]) -> S:
    """Settings from plain values; what is wrong with them comes as one sentence."""
    try:
        return kind(**values)
    except ValidationError as error:
        problems = []
        for item in error.errors():
            name = printable(".".join(str(part) for part in item["loc"]))[:50] or "settings"
            if item["type"] == "extra_forbidden":
                problems.append(f"{name} is no setting")
            elif item["type"] == "missing":
                problems.append(f"{name} must be given")
            elif item["type"] == "none_required":
                problems.append(f"{name} cannot be given to a method that is NOT PRIVATE")
            else:
                problems.append(f"{name} is {shown(item['input'])}: {item['msg'].lower()}")
        unknown = any(item["type"] == "extra_forbidden" for item in error.errors())
        known = f" (known: {', '.join(kind.model_fields)})" if unknown else ""
        raise DataLensError("; ".join(problems[:3]) + f"{known}.") from None
