"""Who was protected and what it cost, derived a second time: the verifier's own view."""

import math
from typing import Any

from datalens.privacy.rechain import Row
from datalens.privacy.recompute import (
    certified,
    curve,
    gaussian,
    largest_order,
    paper,
    rho,
    sampled_steps,
)
from datalens.privacy.reloss import loss_epsilon
from datalens.privacy.replan import OURS, noise_kinds
from datalens.privacy.wording import PRIVATE_KINDS

TOLERANCE = 1e-6
"""Relative: what a claim may lie below the figure computed here. The writer minimises over a grid
of orders, and rounds losses up to a grid; here both are finer, so that honest claims lie above."""
RARE = 1e-6
"""Share of delta that losses may have which are not looked at."""

NOTHING: dict[str, Any] = {
    "budget": {},
    "delta": None,
    "epsilon": {},
    "epsilon_replace": None,
    "mechanisms": [],
    "releases": 0,
}
"""What a certificate says where nobody was protected."""


def check_protection(certificate: dict[str, Any], rows: list[Row]) -> list[str]:
    """Who was protected, and by what noise."""
    wrong = []
    kind = certificate["noise"]["kind"]
    if certificate["private"] is not (kind in PRIVATE_KINDS):
        wrong.append("The certificate says private, and its noise says otherwise.")
    if rows[0]["body"]["noise"] != kind:
        wrong.append("The kind of noise is not the one reserved in the ledger.")
    method = certificate["method"]
    if method in OURS and kind not in noise_kinds(method):
        wrong.append(f"The method {method} cannot have noise of the kind {kind}.")
    return wrong + (_check_unprotected if kind == "none" else _check_epsilon)(certificate, rows)


def _check_unprotected(certificate: dict[str, Any], rows: list[Row]) -> list[str]:
    """Where nobody was protected, no figure may look as if somebody had been."""
    wrong = [name for name, value in NOTHING.items() if certificate[name] != value]
    if wrong or charges_in(rows) or rows[0]["body"]["plan"]:
        return [f"A run that protects nobody has no {', '.join(wrong) or 'charges'}."]
    return []


def _check_epsilon(certificate: dict[str, Any], rows: list[Row]) -> list[str]:
    wrong = []
    delta, budget = number(certificate["delta"]), certificate["budget"]
    if not 0 < delta < 1 or delta != budget["delta"] or not number(budget["epsilon"]) > 0:
        return ["The certificate's delta and epsilon are not those of a budget."]
    charges, sizing = charges_in(rows), budget["accountant"]
    kinds = {charge["event"] for charge in charges}
    known = ["certified", "paper"]
    known += ["gaussian"] if kinds <= {"gaussian"} else []
    known += ["pld"] if sizing == "pld" and kinds <= {"sampled-gaussian"} else []
    if set(certificate["epsilon"]) != set(known) or sizing not in known or sizing == "gaussian":
        return ["The certificate has other epsilons than those that are known of such releases."]
    for name in known:
        value = _epsilon(name, charges, delta)
        if not _close(certificate["epsilon"][name], value):
            wrong.append(f"epsilon ({name}) is {value:.6g}, not {certificate['epsilon'][name]!r}.")
    replaced = certified(curve(charges, replaced=True), delta, largest=largest_order(charges))
    if not _close(certificate["epsilon_replace"], replaced):
        wrong.append(f"epsilon_replace is {replaced:.6g}, not {certificate['epsilon_replace']!r}.")
    reserved = _epsilon(sizing, rows[0]["body"]["plan"], delta)
    if not reserved <= budget["epsilon"] * (1 + TOLERANCE):
        wrong.append("More was reserved than the budget allows.")
    return wrong


def _epsilon(accountant: str, charges: list[dict[str, Any]], delta: float) -> float:
    """The cost of these charges by one accountant, from closed forms."""
    if accountant == "gaussian":
        return gaussian(rho(charges, "squared_sensitivity"), delta)
    largest = largest_order(charges)
    if accountant == "pld":
        reach = 2 * certified(curve(charges), delta * RARE, largest=largest)
        return loss_epsilon(sampled_steps(charges), delta, reach=reach)
    cost = {"certified": certified, "paper": paper}[accountant]
    return cost(curve(charges), delta, largest=largest)


def charges_in(rows: list[Row]) -> list[dict[str, Any]]:
    bodies = [row["body"] for row in rows]
    return [body["charge"] for body in bodies if body["kind"] == "spend"]


def _close(claimed: Any, truth: float) -> bool:
    """Not less than the truth, and not much more: far from the usual, the writer's grid of orders
    is coarse, which errs on the safe side."""
    return truth * (1 - TOLERANCE) <= number(claimed) <= truth * 1.1 + 1e-3


def number(value: Any) -> float:
    """A plain finite number, which True is not, nor a text."""
    if type(value) not in (int, float) or not math.isfinite(value):
        raise ValueError(f"{value!r} is no number")
    return float(value)
