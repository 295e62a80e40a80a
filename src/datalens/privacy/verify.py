"""Re-check a certificate without the data, and without trusting the code that wrote it.

This file shares only the file format with the ledger and the accountants. It follows the chain
of hashes, derives the sensitivities again, adds up the ledger extract, and computes epsilon from
closed forms. Read it from `verify` downwards.
"""

import hashlib
import math
from pathlib import Path
from typing import Any

import numpy as np

from datalens.data.documents import read_json, read_toml
from datalens.errors import DataLensError, printable
from datalens.privacy.rechain import (
    Row,
    check_chain,
    check_run,
    check_whole_ledger,
    own_rows,
)
from datalens.privacy.recompute import certified, gaussian, paper, rho
from datalens.privacy.replan import OURS, planned, sensitivities
from datalens.privacy.wording import FORMAT, GAUSSIAN_IS, RELATION, SOURCES, statement

TOLERANCE = 1e-4
"""Relative. The writer rounds, and minimises over a grid of orders; this file over all."""

FOLLOWING = ("second-moments", "cluster-sums", "cluster-moments")
"""Releases that are about earlier ones."""

Counts = dict[tuple[Any, ...], int]
"""How often each event was charged."""


def verify(path: Path, *, ledger: Path | None = None) -> list[str]:
    """Everything that disagrees, one sentence each. An empty list: the certificate holds.

    It needs the certificate and the ledger extract beside it. Where configuration and generator
    lie there too they must fit, and so must the data's whole ledger, if the owner names it.
    """
    file = path / "certificate.json" if path.is_dir() else path
    if not file.exists():
        raise DataLensError(f"{file} does not exist; name a run folder or its certificate.")
    certificate = read_json(file)
    extract = read_json(file.with_name("ledger.json"))
    try:
        rows = own_rows(certificate, extract)
        with np.errstate(all="ignore"):  # figures that are not ours may overflow
            wrong = [
                *_check_words(certificate),
                *_check_generator(certificate, file.with_name("generator.safetensors")),
                *_check_configuration(certificate, rows, file.with_name("config.toml")),
                *check_chain(certificate, extract),
                *check_run(rows),
                *(check_whole_ledger(certificate, extract, ledger) if ledger else []),
                *_check_mechanisms(certificate, rows),
                *_check_epsilon(certificate, rows),
            ]
    except DataLensError:
        raise
    except (LookupError, TypeError, AttributeError, ValueError, ArithmeticError, RuntimeError) as e:
        wrong = [f"{file.name} or ledger.json is not what DataLens writes ({e!r:.200})."]
    return [printable(sentence) for sentence in wrong]  # they may repeat what is in the files


def unchecked(path: Path) -> list[str]:
    """Which of a run's published files are not here, so that nobody could look at them.

    And whether its method is somebody else's, so that nobody here knows what it should buy.
    """
    folder = path if path.is_dir() else path.parent
    names = ("config.toml", "generator.safetensors")
    absent = [name for name in names if not (folder / name).exists()]
    method = None if names[0] in absent else read_toml(folder / names[0]).get("method")
    if method is None or method in OURS:
        return absent
    return [*absent, f"what {printable(str(method))}, a method that is not ours, should buy"]


def claims_privacy(path: Path) -> bool:
    """Whether the certificate is of a private run; one from a seed is NOT PRIVATE."""
    file = path / "certificate.json" if path.is_dir() else path
    return read_json(file).get("private") is True


def _check_words(certificate: dict[str, Any]) -> list[str]:
    """What people read must be what the numbers say."""
    noise, budget = certificate["noise"], certificate["budget"]
    said = statement(
        private=certificate["private"],
        epsilon=certificate["epsilon"][budget["accountant"]],
        delta=certificate["delta"],
        records=certificate["data"]["n_records"],
        noise=noise["kind"],
    )
    true = {
        "format": certificate["format"] == FORMAT,
        "statement": certificate["statement"] == said,
        "neighbouring": certificate["neighbouring"] == RELATION,
        "noise": noise["source"] == SOURCES[noise["kind"]],
        "the Gaussian accountant": certificate["gaussian_is"] == GAUSSIAN_IS,
    }
    return [f"The certificate's words on {name} are not ours." for name in true if not true[name]]


def _check_generator(certificate: dict[str, Any], generator: Path) -> list[str]:
    if not generator.is_file():
        return []  # a certificate may travel alone
    with generator.open("rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    if digest != certificate["generator_sha256"]:
        return ["generator.safetensors is not the generator that the certificate is about."]
    return []


def _check_configuration(certificate: dict[str, Any], rows: list[Row], config: Path) -> list[str]:
    """The configuration is the one reserved, and certificate and plan follow from it."""
    wrong = []
    reserved = rows[0]["body"]
    if certificate["configuration_sha256"] != reserved["config"]:
        wrong.append("The certificate names another configuration than was reserved.")
    if certificate["method"] != reserved["method"]:
        wrong.append("The certificate names another method than was reserved.")
    if not config.exists() and not config.is_symlink():
        return wrong  # a certificate may travel alone
    told = read_toml(config)
    if hashlib.sha256(config.read_bytes()).hexdigest() != certificate["configuration_sha256"]:
        wrong.append("config.toml is not the configuration that the certificate names.")
    settings, data, facts = told["settings"], told["data"], certificate["facts"]
    others = {name: data[name] for name in data if name != "class_names"}
    pairs = [
        (certificate["method"], told["method"]),
        (certificate["budget"], {k: settings[k] for k in ("epsilon", "delta", "accountant")}),
        (certificate["data"], {**others, "classes": data["class_names"]}),
        (facts["steps"], settings.get("steps", 0)),
        (facts["teachers"], settings.get("n_teachers")),
        (facts["label_prior"], settings["label_prior"]),
    ]
    if any(one != other for one, other in pairs):
        wrong.append("The certificate does not repeat its configuration truly.")
    if not _follows(planned(told), certificate, reserved["plan"]):
        wrong.append("What was reserved does not follow from config.toml.")
    return wrong


def _follows(
    decided: dict[str, Any] | None, certificate: dict[str, Any], plan: list[dict[str, Any]]
) -> bool:
    """Whether exactly those releases were reserved, as the configuration decides on them."""
    if decided is None:
        return True  # not one of our methods, which `unchecked` says
    parameters = {entry["what"]: entry["parameters"] for entry in certificate["mechanisms"]}
    reserved = {charge["what"]: charge | parameters.get(charge["what"], {}) for charge in plan}
    return (
        len(plan) == len(reserved)
        and reserved.keys() == decided.keys()
        and all(
            reserved[what].get(name) == value
            for what, facts in decided.items()
            for name, value in facts.items()
        )
    )


def _check_mechanisms(certificate: dict[str, Any], rows: list[Row]) -> list[str]:
    """Counts agree with the ledger, stay within the reservation, and sensitivities follow."""
    wrong = []
    spent = _counts(_charges(rows))
    reserved = _counts(rows[0]["body"]["plan"])
    claimed = _counts(certificate["mechanisms"])
    if spent != claimed:
        wrong.append("The releases in the certificate are not those in the ledger.")
    for event in {**spent, **reserved}:
        if spent.get(event, 0) > reserved.get(event, 0):
            wrong.append("The ledger charges more releases than were reserved.")
    for what in _too_few(spent, reserved):
        wrong.append(f"The ledger charges fewer {what} than a finished run has.")
    if sum(spent.values()) != certificate["releases"]:
        wrong.append("The number of releases is not the ledger's.")
    for mechanism in certificate["mechanisms"]:
        blanked, replaced = sensitivities(mechanism["what"], mechanism["parameters"])
        if (mechanism["squared_sensitivity"], mechanism["squared_sensitivity_replace"]) != (
            blanked,
            replaced,
        ):
            wrong.append(f"The sensitivity of {mechanism['what']} is not what follows from it.")
    return wrong


def _too_few(spent: Counts, reserved: Counts) -> list[str]:
    """Kinds of release that a finished run has more of.

    A crash loses releases, never charges. Only what is about a lost release is not bought, all of
    it together, and only votes can go on without it.
    """
    missing = [event for event in reserved if spent.get(event, 0) < reserved[event]]
    about = [event for event in reserved if event[1] in FOLLOWING]
    none_of = [event for event in about if event[1] != "second-moments"]
    excused = (
        any(event[1] == "votes" for event in reserved)
        and all(event in about and not spent.get(event) for event in missing)
        and all(event in missing for event in none_of)
    )
    return [] if excused else [event[1] for event in missing]


def _check_epsilon(certificate: dict[str, Any], rows: list[Row]) -> list[str]:
    wrong = []
    delta = _number(certificate["delta"])
    if not 0 < delta < 1:
        raise ValueError(f"delta {delta!r} is none")
    charges = _charges(rows)
    total = rho(charges, "squared_sensitivity")
    truth = {
        "certified": certified(total, delta),
        "paper": paper(total, delta),
        "gaussian": gaussian(total, delta),
    }
    if set(certificate["epsilon"]) != set(truth):
        wrong.append("The certificate has other epsilons than the three that are known.")
    for name, value in truth.items():
        if not _close(certificate["epsilon"][name], value):
            wrong.append(f"epsilon ({name}) is {value:.6g}, not {certificate['epsilon'][name]!r}.")
    replaced = certified(rho(charges, "squared_sensitivity_replace"), delta)
    if not _close(certificate["epsilon_replace"], replaced):
        wrong.append(f"epsilon_replace is {replaced:.6g}, not {certificate['epsilon_replace']!r}.")
    budget = certificate["budget"]
    if budget["accountant"] not in ("certified", "paper"):
        wrong.append(f"A budget cannot be held by the accountant {budget['accountant']!r}.")
    elif delta != budget["delta"] or not truth[budget["accountant"]] <= budget["epsilon"] + 1e-9:
        wrong.append("More was spent than the budget allows.")
    if not _number(budget["epsilon"]) > 0:
        wrong.append("A budget must be above 0.")
    if certificate["private"] is not (certificate["noise"]["kind"] in ("exact", "float-secure")):
        wrong.append("The certificate says private, and its noise says otherwise.")
    if rows[0]["body"]["noise"] != certificate["noise"]["kind"]:
        wrong.append("The kind of noise is not the one reserved in the ledger.")
    return wrong


def _charges(rows: list[Row]) -> list[dict[str, Any]]:
    bodies = [row["body"] for row in rows]
    return [body["charge"] for body in bodies if body["kind"] == "spend"]


def _close(claimed: Any, truth: float) -> bool:
    """Not less than the truth, and not much more: far from the usual, the writer's grid of orders
    is coarse, which errs on the safe side."""
    low, high = truth * (1 - TOLERANCE) - 1e-6, truth * 1.1 + 1e-3
    return low <= _number(claimed) <= high


def _counts(charges: list[dict[str, Any]]) -> Counts:
    names = ("event", "what", "squared_sensitivity", "squared_sensitivity_replace", "sigma")
    counts: Counts = {}
    for charge in charges:
        event = tuple(charge[name] for name in names)
        sizes = [_number(charge[name]) for name in names[2:]]
        sound = min(sizes) > 0 and 2.0**-46 <= charge["sigma"] < 2.0**46
        if charge["event"] != "gaussian" or not sound or type(charge["count"]) is not int:
            raise ValueError(f"unknown or impossible charge {charge!r}")
        if charge["count"] < 1:
            raise ValueError("a charge for nothing")
        counts[event] = counts.get(event, 0) + charge["count"]
    return counts


def _number(value: Any) -> float:
    """A plain finite number, which True is not, nor a text."""
    if type(value) not in (int, float) or not math.isfinite(value):
        raise ValueError(f"{value!r} is no number")
    return float(value)
