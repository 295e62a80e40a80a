"""What a configuration must have reserved, derived a second time: the verifier's own view.

One rule for each kind of release (how far a record moves it) and one for each method (what it
buys). Nothing here is shared with the methods themselves.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from datalens.privacy.recompute import laplace_within, rho_within

Named = dict[str, Any]

GRID = 64
"""Levels of a vote that is not a sign."""
ROUNDS = 3
"""Cluster sums of a run that has clusters."""
UNIT = 2**20
"""Grid steps of features that are as long as they may be."""
LONGEST = (0.4, 0.25)
"""Root mean square of the longest record, and of the longest one less the mean of its class."""
MOST_VALUES = 1024
"""Of a record in class sums and moments."""
ROW, WEIGHT = 1024, 512
"""Grid steps of the longest row of a cluster, and of a record's being there."""
FEATURES, RESIDUALS = 4096, 256
"""Grid steps of the longest features and residuals of a labeller."""
COUNTS_SHARE, SUMS_SHARE, SPREAD_SHARE = 0.01, 0.15, 0.15
"""Of the whole budget, for class counts; of that for moments, for class sums; of that for clusters,
for how they spread."""
ROUNDED_UP, EXACT = 2e-4, 1e-6
"""How far a noise scale may lie above the one derived, and below: the writer rounds up to five
digits, and a budget down on a grid of orders."""
LEAST_SHARD = 2
"""Records of a teacher."""


def sensitivities(what: str, parameters: Named) -> tuple[float, float]:
    """Squared sensitivity with a record blanked, and with a record replaced."""
    if any(isinstance(v, bool) or not isinstance(v, int) or v < 1 for v in parameters.values()):
        raise ValueError(f"impossible parameters of {what}")
    if what not in _SENSITIVITIES:
        raise ValueError(f"unknown mechanism {what!r}")
    return _SENSITIVITIES[what](parameters)


def _of_sum(squared: float) -> tuple[float, float]:
    """A record that is blanked takes its part away; one that is replaced may also turn it round."""
    return squared, 4 * squared


def _of_outer_products(bound: int) -> tuple[float, float]:
    """q q^T with |q| <= bound: 29 grid steps on the diagonal, 41 beside it, and 41^2 < 2 * 29^2.

    Such matrices never point away from each other.
    """
    squared = (29 * bound**2) ** 2
    return squared, 2 * squared


def _of_ballots(squared: float) -> tuple[float, float]:
    """One ballot becomes any other, in both cases alike."""
    return squared, squared


_SENSITIVITIES: dict[str, Callable[[Named], tuple[float, float]]] = {
    "class-counts": lambda p: (1, 2),
    # pixels are not negative: no record can turn another round
    "class-sums": lambda p: (p["bound"] ** 2, 2 * p["bound"] ** 2),
    "second-moments": lambda p: _of_outer_products(p["bound"]),
    # a row, and a weight for being there, which cancels when the cluster stays the same
    "cluster-sums": lambda p: (
        p["bound"] ** 2 + p["weight"] ** 2,
        max(4 * p["bound"] ** 2, 2 * (p["bound"] ** 2 + p["weight"] ** 2)),
    ),
    "cluster-moments": lambda p: _of_outer_products(p["bound"]),
    # a row, in the sum of one class
    "feature-sums": lambda p: _of_sum(p["bound"] ** 2),
    # an outer product is as long as its two sides multiplied
    "gradient-sums": lambda p: _of_sum((p["features"] * p["residuals"]) ** 2),
    # a bit of one teacher
    "real-votes": lambda p: (1, 1),
    # whether a public classifier has one record right
    "right-answers": lambda p: (1, 1),
    # twice the norm of a ballot
    "votes": lambda p: _of_ballots(4 * p["top_k"] * p["levels"] ** 2),
    # the fullest bin of each histogram gains or loses a vote
    "vote-checks": lambda p: _of_ballots(p["projected"]),
    # each histogram loses a vote in one bin and gains one in another
    "binned-votes": lambda p: _of_ballots(2 * p["projected"]),
    # likewise, where the norm itself is bounded: over padding, over all rows of a sketch
    "rotated-votes": lambda p: _of_ballots(4 * p["bound"] ** 2),
    "sketched-votes": lambda p: _of_ballots(4 * p["bound"] ** 2),
}


COUNTS = frozenset({"real-votes", "right-answers"})
"""One number each, which moves alike by any norm: all that may be bought with Laplace noise."""


def _compressed(parameters: Named) -> bool:
    """Entries that hold a share `keep` of a clipped gradient's squared norm, and no more."""
    keep, clip, bound = (parameters[name] for name in ("keep", "max_grad_norm", "bound"))
    if any(type(value) not in (int, float) for value in (keep, clip, bound)):
        raise ValueError("impossible parameters of topagg-sgd")
    sound = len(parameters) == 3 and 0 < keep <= 1 and 0 < clip < math.inf
    return sound and bool(bound == math.sqrt(keep) * clip)


SAMPLED: dict[str, Callable[[Named], bool]] = {
    "dp-sgd": lambda p: p == {},
    "drawn-critic": lambda p: p == {},
    "topagg-sgd": _compressed,
}
"""Kinds of steps on a sample of the records, and whether their parameters make sense.

Their noise is in units of the most that a record adds, so no sensitivity follows from these.
"""


@dataclass(frozen=True)
class Derived:
    """A noise scale that follows from the budget: claimed ones are rounded up to five digits."""

    scale: float

    def fits(self, claimed: Any) -> bool:
        """Neither less noise than was paid for, nor a claim of more than the budget needs."""
        return type(claimed) in (int, float) and -EXACT <= claimed / self.scale - 1 <= ROUNDED_UP


def planned(told: Named) -> dict[str, Named] | None:
    """The releases that a configuration decides on, and what it decides of each: how often, the
    bounds that its sensitivity follows from, and its noise.

    None for a method that is not one of ours: nobody here knows what it should release.
    """
    if told["method"] not in OURS:
        return None
    data, settings = told["data"], told["settings"]
    budget = _Budget.of(settings)
    plan: dict[str, Named] = {}
    if settings.get("label_prior") == "bought":
        plan["class-counts"] = budget.share(COUNTS_SHARE, "class-counts")
        budget = budget.less(COUNTS_SHARE)
    return plan | _PLANS[told["method"]](settings, data, budget)


def impossible(told: Named) -> list[str]:
    """What no run of ours has, whatever its budget: a sentence each."""
    data, settings = told["data"], told["settings"]
    n_teachers, n_records = settings.get("n_teachers", 1), data["n_records"]
    top_k, values = settings.get("top_k", 1), math.prod(data["shape"])
    found = []
    if n_teachers * LEAST_SHARD > n_records:
        found.append(f"config.toml has {n_teachers} teachers, too many for {n_records} records.")
    if top_k > values or (settings.get("keep_all") is True and top_k != values):
        found.append(f"config.toml has top_k {top_k}, which is not that of {values} values.")
    return found


@dataclass(frozen=True)
class _Budget:
    """What is left to spend, in zero-concentrated cost; 0 where noise does not follow from it."""

    rho: float

    @classmethod
    def of(cls, settings: Named) -> "_Budget":
        if settings.get("accountant") not in ("certified", "paper"):
            return cls(0.0)
        return cls(rho_within(settings["epsilon"], settings["delta"], settings["accountant"]))

    def share(self, share: float, what: str, *, count: int = 1, **bounds: int) -> Named:
        """So many releases of a kind with these bounds, at the noise that this share pays for."""
        squared, _ = sensitivities(what, bounds)
        sigma = Derived(math.sqrt(squared * count / (2 * self.rho * share)))
        return {"count": count, "sigma": sigma, **bounds}

    def less(self, share: float) -> "_Budget":
        return _Budget(self.rho * (1 - share))


def _class_gaussian(settings: Named, data: Named, budget: _Budget) -> dict[str, Named]:
    return _moments(settings["sums_share"], data, budget)


def _moments(sums_share: float, data: Named, budget: _Budget) -> dict[str, Named]:
    """Images are averaged in blocks first, until a record has few enough values."""
    channels, height, width = data["shape"]
    side = 1
    while channels * math.ceil(height / side) * math.ceil(width / side) > MOST_VALUES:
        side += 1
    values = channels * math.ceil(height / side) * math.ceil(width / side)
    sums, second = (int(share * 255 * math.sqrt(values)) for share in LONGEST)
    return {
        "class-sums": budget.share(sums_share, "class-sums", bound=sums),
        "second-moments": budget.share(1 - sums_share, "second-moments", bound=second),
    }


def _datalens(settings: Named, data: Named, budget: _Budget) -> dict[str, Named]:
    plan: dict[str, Named] = {}
    if settings["warm_start"]:
        left = budget.less(settings["vote_share"])
        steps, label_share = settings["label_steps"], settings["label_share"]
        labeller = {}
        if steps > 0:
            bounds = {"features": FEATURES, "residuals": RESIDUALS}
            labeller["gradient-sums"] = left.share(
                label_share, "gradient-sums", count=steps, **bounds
            )
            left = left.less(label_share)
        if settings["clusters"] > 1:
            share = settings["cluster_share"]
            plan["cluster-sums"] = left.share(
                share * (1 - SPREAD_SHARE), "cluster-sums", count=ROUNDS, bound=ROW, weight=WEIGHT
            )
            plan["cluster-moments"] = left.share(share * SPREAD_SHARE, "cluster-moments", bound=ROW)
            left = left.less(share)
        plan |= _moments(SUMS_SHARE, data, left) | labeller
    if settings["vote_share"] > 0:
        what, unit, bounded = _ballots(settings)
        plan[what] = {
            "count": settings["steps"] * settings["batch_size"],  # each image is one release
            "sigma": settings["sigma"] * unit,
            **bounded,
        }
    return plan


def _dp_merf(settings: Named, data: Named, budget: _Budget) -> dict[str, Named]:
    return {"feature-sums": budget.share(1, "feature-sums", bound=UNIT)}


def _gpate(settings: Named, data: Named, budget: _Budget) -> dict[str, Named]:
    """Every image is checked, and its histograms are paid for whether it passes or not."""
    each = {
        "count": settings["steps"] * settings["batch_size"],
        "projected": settings["projected"],
    }
    plan = {"binned-votes": each | {"sigma": settings["sigma"]}}
    if settings["threshold"] > 0:  # otherwise every coordinate is answered, unchecked
        plan["vote-checks"] = each | {"sigma": settings["sigma"] * settings["check_noise"]}
    return plan


def _ballots(settings: Named) -> tuple[str, int, Named]:
    """What votes are called, a whole vote on their grid, and what bounds a ballot."""
    signs = 1 if settings["quantise"] else GRID
    compressor = settings.get("compressor", "topagg")
    if compressor == "topagg":
        return "votes", signs, {"top_k": settings["top_k"], "levels": signs}
    bounded = {"bound": settings["ballot_bound"]}
    if compressor == "fetchsgd":
        return "sketched-votes", signs, bounded
    if compressor != "d2pfed":
        raise ValueError(f"unknown compressor {compressor!r}")
    highest = settings["levels"] - 1  # of an even number of levels, which are odd
    return "rotated-votes", highest // 2 if highest % 2 == 0 else highest, bounded


def _pategan(settings: Named, data: Named, budget: _Budget) -> dict[str, Named]:
    noise = {"gaussian": "sigma", "laplace": "scale"}[settings["noise"]]
    return {
        "real-votes": {
            "event": settings["noise"],
            "count": settings["steps"] * settings["batch_size"],  # each image is one release
            noise: settings["scale"],
        }
    }


def _dp_sgd(settings: Named, data: Named, budget: _Budget) -> dict[str, Named]:
    steps = {
        "count": settings["steps"],
        "sampling_probability": settings["batch_size"] / data["n_records"],
        "noise_multiplier": settings["noise_multiplier"],
    }
    return {"dp-sgd": steps}


def _topagg(settings: Named, data: Named, budget: _Budget) -> dict[str, Named]:
    steps = _dp_sgd(settings, data, budget)["dp-sgd"]
    bounded = {name: settings[name] for name in ("keep", "max_grad_norm")}
    return {"topagg-sgd": steps | bounded}


def _dcgan(settings: Named, data: Named, budget: _Budget) -> dict[str, Named]:
    return {}  # it looks at the records themselves


def _gswgan(settings: Named, data: Named, budget: _Budget) -> dict[str, Named]:
    images = {
        # for each image one critic in n is drawn, and twice that is what the proof needs
        "count": settings["steps"] * settings["batch_size"],
        "sampling_probability": min(1.0, 2 / settings["n_teachers"]),
        "noise_multiplier": settings["noise_multiplier"],
    }
    return {"drawn-critic": images}


def _validation(settings: Named, data: Named, budget: _Budget) -> dict[str, Named]:
    derived = Derived(laplace_within(settings["epsilon"], settings["delta"]))
    scale = settings["scale"] if derived.fits(settings["scale"]) else derived
    return {"right-answers": {"event": "laplace", "count": 1, "scale": scale}}


_PLANS: dict[str, Callable[[Named, Named, _Budget], dict[str, Named]]] = {
    "class-gaussian": _class_gaussian,
    "datalens": _datalens,
    "dp-merf": _dp_merf,
    "gpate": _gpate,
    "pategan": _pategan,
    "dpgan": _dp_sgd,
    "dcgan": _dcgan,
    "gswgan": _gswgan,
    "topagg": _topagg,
    "dpsgd": _dp_sgd,
    "scatter": _dp_sgd,
    "validation": _validation,
}
OURS = frozenset(_PLANS)

CLASSIFIERS = frozenset({"topagg", "dpsgd", "scatter"})
"""Methods that make a classifier. All others make images."""


def noise_kinds(method: str) -> set[str]:
    """The kinds of noise that a run of this method can have."""
    if method == "dcgan":
        return {"none"}  # it protects nobody, and no certificate of it may say otherwise
    sampled = method in CLASSIFIERS or method in ("dpgan", "gswgan")
    return {"float-secure" if sampled else "exact", "seeded"}


def product_of(method: Any) -> str:
    """What a method makes, or is about, as the names of its files say."""
    if method == "validation":
        return "judge"
    return "classifier" if isinstance(method, str) and method in CLASSIFIERS else "generator"
