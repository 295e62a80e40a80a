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
from datalens.privacy.replan import OURS, UNPROTECTED
from datalens.privacy.wording import PRIVATE_KINDS

TOLERANCE = 1e-4
"""Relative. The writer rounds, and minimises over a grid of orders; this file over all."""
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
    if certificate["method"] in OURS and (certificate["method"] in UNPROTECTED) is not (
        kind == "none"
    ):
        wrong.append(f"The method {certificate['method']} cannot have noise of the kind {kind}.")
    return wrong + (_check_unprotected if kind == "none" else _check_epsilon)(certificate, rows)


def _check_unprotected(certificate: dict[str, Any], rows: list[Row]) -> list[str]:
    """Where nobody was protected, no figure may look as if somebody had been."""
    wrong = [name for name, value in NOTHING.items() if certificate[name] != value]
    if wrong or charges_in(rows) or rows[0]["body"]["plan"]:
        return [f"A run that protects nobody has no {', '.join(wrong) or 'charges'}."]
    return []


def _check_epsilon(certificate: dict[str, Any], rows: list[Row]) -> list[str]:
    wrong = []
    delta = number(certificate["delta"])
    if not 0 < delta < 1:
        raise ValueError(f"delta {delta!r} is none")
    charges = charges_in(rows)
    sampled = any(charge["event"] == "sampled-gaussian" for charge in charges)
    largest = largest_order(charges)
    truth = {
        "certified": certified(curve(charges), delta, largest=largest),
        "paper": paper(curve(charges), delta, largest=largest),
    }
    if all(charge["event"] == "gaussian" for charge in charges):
        truth["gaussian"] = gaussian(rho(charges, "squared_sensitivity"), delta)
    budget = certificate["budget"]
    if budget["accountant"] == "pld" and all(c["event"] == "sampled-gaussian" for c in charges):
        reach = 2 * certified(curve(charges), delta * RARE, largest=largest)
        truth["pld"] = loss_epsilon(sampled_steps(charges), delta, reach=reach)
    if set(certificate["epsilon"]) != set(truth):
        wrong.append("The certificate has other epsilons than those that are known.")
    for name, value in truth.items():
        if not _close(certificate["epsilon"][name], value):
            wrong.append(f"epsilon ({name}) is {value:.6g}, not {certificate['epsilon'][name]!r}.")
    replaced = certified(curve(charges, replaced=True), delta, largest=largest)
    if not _close(certificate["epsilon_replace"], replaced):
        wrong.append(f"epsilon_replace is {replaced:.6g}, not {certificate['epsilon_replace']!r}.")
    if budget["accountant"] not in {"certified", "paper", "pld"} & set(truth):
        wrong.append(f"A budget cannot be held by the accountant {budget['accountant']!r}.")
    elif delta != budget["delta"] or not truth[budget["accountant"]] <= budget["epsilon"] + 1e-9:
        wrong.append("More was spent than the budget allows.")
    if not number(budget["epsilon"]) > 0:
        wrong.append("A budget must be above 0.")
    if sampled and certificate["noise"]["kind"] == "exact":
        wrong.append("Steps on a sample of the records cannot have exact noise.")
    return wrong


def charges_in(rows: list[Row]) -> list[dict[str, Any]]:
    bodies = [row["body"] for row in rows]
    return [body["charge"] for body in bodies if body["kind"] == "spend"]


def _close(claimed: Any, truth: float) -> bool:
    """Not less than the truth, and not much more: far from the usual, the writer's grid of orders
    is coarse, which errs on the safe side."""
    low, high = truth * (1 - TOLERANCE) - 1e-6, truth * 1.1 + 1e-3
    return low <= number(claimed) <= high


def number(value: Any) -> float:
    """A plain finite number, which True is not, nor a text."""
    if type(value) not in (int, float) or not math.isfinite(value):
        raise ValueError(f"{value!r} is no number")
    return float(value)
