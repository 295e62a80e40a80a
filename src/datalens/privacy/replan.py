"""What a configuration must have reserved, derived a second time: the verifier's own view.

One rule for each kind of release (how far a record moves it) and one for each method (what it
buys). Nothing here is shared with the methods themselves.
"""

from collections.abc import Callable
from typing import Any

Named = dict[str, Any]

GRID = 64
"""Levels of a vote that is not a sign."""
ROUNDS = 3
"""Cluster sums of a run that has clusters."""
ONCE: Named = {"count": 1}


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


def _of_ballots(squared: float) -> tuple[float, float]:
    """One ballot becomes any other, in both cases alike."""
    return squared, squared


_SENSITIVITIES: dict[str, Callable[[Named], tuple[float, float]]] = {
    "class-counts": lambda p: (1, 2),
    "class-sums": lambda p: _of_sum(p["bound"] ** 2),
    "second-moments": lambda p: _of_sum(p["bound"] ** 4),
    # a row, and a weight for being there
    "cluster-sums": lambda p: _of_sum(p["bound"] ** 2 + p["weight"] ** 2),
    "cluster-moments": lambda p: _of_sum(p["bound"] ** 4),
    # an outer product is as long as its two sides multiplied
    "gradient-sums": lambda p: _of_sum((p["features"] * p["residuals"]) ** 2),
    # twice the norm of a ballot
    "votes": lambda p: _of_ballots(4 * p["top_k"] * p["levels"] ** 2),
}


def planned(told: Named) -> dict[str, Named] | None:
    """The releases that a configuration decides on, and what it decides of each.

    None for a method that is not one of ours: nobody here knows what it would buy.
    """
    if told["method"] not in OURS:
        return None
    settings = told["settings"]
    first = {"class-counts": ONCE} if settings["label_prior"] == "bought" else {}
    return first | _PLANS[told["method"]](settings)


def _class_gaussian(settings: Named) -> dict[str, Named]:
    return {"class-sums": ONCE, "second-moments": ONCE}


def _datalens(settings: Named) -> dict[str, Named]:
    plan: dict[str, Named] = {}
    if settings["warm_start"]:
        plan |= _class_gaussian(settings)
        if settings["clusters"] > 1:
            plan |= {"cluster-sums": {"count": ROUNDS}, "cluster-moments": ONCE}
        if settings["label_steps"] > 0:
            plan["gradient-sums"] = {"count": settings["label_steps"]}
    if settings["vote_share"] > 0:
        levels = 1 if settings["quantise"] else GRID
        plan["votes"] = {
            "count": settings["steps"] * settings["batch_size"],  # each image is one release
            "sigma": settings["sigma"] * levels,
            "top_k": settings["top_k"],
            "levels": levels,
        }
    return plan


_PLANS: dict[str, Callable[[Named], dict[str, Named]]] = {
    "class-gaussian": _class_gaussian,
    "datalens": _datalens,
}
OURS = frozenset(_PLANS)
