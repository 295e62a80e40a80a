"""The certificate: what was spent, in words and in numbers that anyone can re-check."""

import hashlib
import json
import platform
from collections.abc import Sequence
from contextlib import suppress
from importlib.metadata import PackageNotFoundError, version
from typing import Any, Literal

from datalens.mechanism.noise import NoiseKind
from datalens.privacy.accountants import AccountantName, Charge, NotApplicable, epsilon
from datalens.privacy.wording import (
    FORMAT,
    GAUSSIAN_IS,
    PRIVATE_KINDS,
    RELATION,
    source,
    statement,
)

Product = Literal["generator", "classifier", "judge"]
"""What a run makes; or, a judge, what it is about."""


def issue(
    *,
    run: str,
    method: str,
    data: dict[str, Any],
    charges: Sequence[Charge],
    parameters: dict[str, dict[str, Any]],
    budget: dict[str, Any],
    noise: NoiseKind,
    configuration_sha256: str,
    product: Product,
    product_sha256: str,
    facts: dict[str, Any],
) -> dict[str, Any]:
    """Build the certificate of a finished run from what the ledger says was spent.

    It lacks its place in the ledger's chain, which follows from its hash.

    `parameters` gives, for each kind of release, the numbers its sensitivity follows from
    (top_k and levels, or bound), so that a reader can derive it again. Without noise there is no
    budget, and no epsilon to speak of.
    """
    private = noise in PRIVATE_KINDS
    kinds = [charge.event.kind for charge in charges]
    delta, by_accountant, replaced, sizing = None, dict[str, float](), None, None
    if noise != "none":
        delta = budget["delta"]
        by_accountant = _by_accountant(charges, delta, budget["accountant"])
        replaced = epsilon(charges, delta, "certified", "replaced")
        sizing = by_accountant[budget["accountant"]]
    return {
        "format": FORMAT,
        "private": private,
        "statement": statement(
            private=private,
            epsilon=sizing,
            delta=delta,
            records=data["n_records"],
            noise=noise,
            events=kinds,
        ),
        "run": run,
        "method": method,
        "data": data,
        "neighbouring": RELATION,
        "mechanisms": [
            {**charge.to_json(), "parameters": parameters[charge.event.what]}
            for charge in totals(charges)
        ],
        "releases": sum(charge.count for charge in charges),
        "budget": budget,
        "delta": delta,
        "epsilon": by_accountant,
        "epsilon_replace": replaced,
        "gaussian_is": GAUSSIAN_IS,
        "noise": {"kind": noise, "source": source(noise, kinds)},
        "facts": facts,
        "versions": versions(),
        "configuration_sha256": configuration_sha256,
        f"{product}_sha256": product_sha256,
    }


def certificate_sha256(certificate: dict[str, Any]) -> str:
    """The hash of all that a certificate says, but for its place in the ledger's chain."""
    said = {name: value for name, value in certificate.items() if name != "ledger"}
    return hashlib.sha256(json.dumps(said, sort_keys=True).encode()).hexdigest()


def json_bytes(body: dict[str, Any]) -> bytes:
    """A published file of JSON, to the byte, as hashes and signatures have it."""
    return f"{json.dumps(body, indent=1)}\n".encode()


_ACCOUNTANTS: tuple[AccountantName, ...] = ("certified", "paper", "gaussian")


def _by_accountant(
    charges: Sequence[Charge], delta: float, sizing: AccountantName
) -> dict[str, float]:
    """Epsilon by each accountant that can say something of such charges, and by the sizing one."""
    found: dict[str, float] = {}
    for name in dict.fromkeys((*_ACCOUNTANTS, sizing)):
        with suppress(NotApplicable):
            found[name] = epsilon(charges, delta, name)
    return found


def totals(charges: Sequence[Charge]) -> list[Charge]:
    """The same charges with equal events added up, in order of first appearance."""
    counts: dict[Any, int] = {}
    for charge in charges:
        counts[charge.event] = counts.get(charge.event, 0) + charge.count
    return [Charge(event=event, count=count) for event, count in counts.items()]


def versions() -> dict[str, str]:
    """What computed this run."""
    found = {"python": platform.python_version()}
    for package in ("datalens", "torch", "numpy", "opacus", "opendp", "dp-accounting"):
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            found[package] = "unknown"
    return found
