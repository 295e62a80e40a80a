"""What is to be measured: the paper's tables as cells, those that must hold first."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal

from classifying.printed import TABLE_8A, TABLE_8B, TABLE_9, TABLE_10
from classifying.table11 import KEEPS, TABLE_11, RecipeName
from datalens.classifiers.topagg import Variant
from datalens.errors import DataLensError
from datalens.workflows.bench.utility.cells import plain

Network = Literal["cnn", "wavelets", "efficientnet-lite0", "resnet18"]
"""The Opacus example's, or a linear model on fixed features of that name."""
BACKBONES: tuple[Network, ...] = ("efficientnet-lite0", "resnet18", "wavelets")

HELD = (0.1, 0.2, 0.5, 1.0)
"""Epsilons at which keep 0.8 must reach the paper's figure, or come near."""
SMALL = (0.05, *HELD)
BESIDE = (0.2, 1.0, 10.0)
"""Epsilons at which synthetic data was judged."""
GREY = ("mnist", "fashion-mnist")
OF_MOMENTS = (0.5, 0.7, 1.0)
"""Epsilons that 32 moments can show at all: log(1 / delta) / 32 is 0.36."""


@dataclass(frozen=True, kw_only=True)
class Cell:
    """One place in the tables, of which there are repetitions."""

    dataset: str
    network: Network = "cnn"
    variant: Variant = "topagg"
    keep: float = 0.8
    epsilon: float | None
    """None for no noise at all. A variant without noise takes the steps of its epsilon."""
    recipe: RecipeName = "searched"

    @property
    def stem(self) -> str:
        """What its file is called."""
        return (
            f"{self.dataset}-{self.network}-{self.recipe}-{self.variant}"
            f"-keep-{plain(self.keep)}-epsilon-{plain(self.epsilon)}"
        )

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


def mnist(keep: float, epsilon: float | None, variant: Variant = "topagg") -> Cell:
    """Without noise where there is no epsilon."""
    return Cell(
        dataset="mnist",
        keep=keep,
        epsilon=epsilon,
        variant="no-noise" if epsilon is None else variant,
    )


def dpdl(epsilon: float) -> Cell:
    """DP-SGD, sized by the moments accountant: the paper's DPDL."""
    return Cell(dataset="mnist", keep=1.0, epsilon=epsilon, recipe="dpdl")


def product(dataset: str, network: Any, epsilon: float) -> Cell:
    """As `datalens classify` does it when nothing else is said."""
    keep = 0.8 if network == "cnn" else 1.0
    return Cell(dataset=dataset, network=network, keep=keep, epsilon=epsilon, recipe="default")


def cifar(network: Network, keep: float, epsilon: float | None) -> Cell:
    return Cell(
        dataset="cifar10",
        network=network,
        keep=keep,
        epsilon=epsilon,
        variant="no-noise" if epsilon is None else "topagg",
    )


def tables(backbones: Sequence[Network] = ("efficientnet-lite0",)) -> dict[str, list[Cell]]:
    """By name, in the order in which they are worth having. Some cells are in several."""
    return {
        "must": [mnist(0.8, epsilon) for epsilon in HELD],
        "plain": [mnist(1.0, epsilon) for epsilon in HELD],
        "10": [
            mnist(keep, epsilon, variant)  # type: ignore[arg-type]
            for epsilon in TABLE_10
            for variant, keep in TABLE_10[0.1]
        ],
        "scatter": [product(dataset, "wavelets", e) for dataset in GREY for e in SMALL],
        "beside": [product(d, n, e) for d in GREY for e in BESIDE for n in ("cnn", "wavelets")],
        "8a": [mnist(keep, epsilon) for epsilon in (*SMALL, None) for keep in KEEPS],
        "dpdl": [dpdl(epsilon) for epsilon in OF_MOMENTS],
        "9": [mnist(k, e, "dimensions") for e, row in TABLE_9.items() for k in row],
        "8b": [cifar(each, k, e) for each in backbones for e in TABLE_8B for k in KEEPS],
        "11": _printed("mnist", "cnn")
        + (_printed("cifar10", "resnet18") if "resnet18" in backbones else []),
        "rest": [mnist(keep, e) for e in TABLE_8A if e not in (*SMALL, None) for keep in KEEPS],
    }


def wanted(names: Sequence[str], backbones: Sequence[Network]) -> list[Cell]:
    """The cells of these tables, each once; of all of them if none is named."""
    known = tables(backbones)
    for name in names:
        if name not in known:
            raise DataLensError(f"There is no table {name!r}; there are {', '.join(known)}.")
    return list(dict.fromkeys(cell for name in names or known for cell in known[name]))


def _printed(dataset: str, network: Network) -> list[Cell]:
    return [
        Cell(dataset=dataset, network=network, keep=keep, epsilon=epsilon, recipe="printed")
        for epsilon, row in TABLE_11[dataset].items()
        for keep in row
    ]
