"""Re-check a certificate without the data, and without trusting the code that wrote it.

This file shares only the file format with the ledger and the accountants. It follows the chain
of hashes, derives the sensitivities again, adds up the ledger extract, and computes epsilon from
closed forms. Read it from `verify` downwards.
"""

import hashlib
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
from datalens.privacy.recost import charges_in, check_protection, number
from datalens.privacy.replan import COUNTS, OURS, SAMPLED, planned, product_of, sensitivities
from datalens.privacy.wording import (
    FORMAT,
    GAUSSIAN_IS,
    RELATION,
    if_replaced,
    source,
    statement,
)

FOLLOWING = ("second-moments", "cluster-sums", "cluster-moments")
"""Releases that are about earlier ones."""

VOTES = ("votes", "rotated-votes", "sketched-votes")

FIELDS = {
    "gaussian": ("squared_sensitivity", "squared_sensitivity_replace", "sigma"),
    "laplace": ("sensitivity", "sensitivity_replace", "scale"),
    "sampled-gaussian": ("sampling_probability", "noise_multiplier"),
}
"""The numbers of each kind of event, its noise last."""

BUDGET = ("epsilon", "delta", "accountant")

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
                *_check_product(certificate, file.parent),
                *_check_configuration(certificate, rows, file.with_name("config.toml")),
                *check_chain(certificate, extract),
                *check_run(rows),
                *(check_whole_ledger(certificate, extract, ledger) if ledger else []),
                *_check_mechanisms(certificate, rows),
                *check_protection(certificate, rows),
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
    method = None
    if (folder / "config.toml").exists():
        method = read_toml(folder / "config.toml").get("method")
    names = ("config.toml", f"{product_of(method)}.safetensors")
    absent = [name for name in names if not (folder / name).exists()]
    if method is None or method in OURS:
        return absent
    return [*absent, f"what {printable(str(method))}, a method that is not ours, should buy"]


def claims_privacy(path: Path) -> bool:
    """Whether the certificate is of a private run; one from a seed is NOT PRIVATE."""
    file = path / "certificate.json" if path.is_dir() else path
    return read_json(file).get("private") is True


def noise_of(path: Path) -> str:
    """The kind of noise that a certificate names, if it holds."""
    file = path / "certificate.json" if path.is_dir() else path
    return str(read_json(file)["noise"]["kind"])


def said_by(path: Path) -> str:
    """A certificate's own words on what it guarantees, if it holds."""
    certificate = read_json(path / "certificate.json" if path.is_dir() else path)
    replaced = certificate.get("epsilon_replace")
    if certificate["private"] is not True or replaced is None:
        return str(certificate["statement"])
    return f"{certificate['statement']} {if_replaced(replaced)}"


def _check_words(certificate: dict[str, Any]) -> list[str]:
    """What people read must be what the numbers say."""
    noise, budget = certificate["noise"], certificate["budget"]
    kinds = [mechanism["event"] for mechanism in certificate["mechanisms"]]
    bare = noise["kind"] == "none"
    figures = {
        "private": certificate["private"],
        "epsilon": None if bare else certificate["epsilon"][budget["accountant"]],
        "delta": certificate["delta"],
        "records": certificate["data"]["n_records"],
        "noise": noise["kind"],
        "events": kinds,
    }
    ours = [statement(**figures, nearest=nearest) for nearest in (False, True)]
    true = {
        "format": certificate["format"] == FORMAT,
        "statement": certificate["statement"] in ours,
        "neighbouring": certificate["neighbouring"] == RELATION,
        "noise": noise["source"] == source(noise["kind"], kinds),
        "the Gaussian accountant": certificate["gaussian_is"] == GAUSSIAN_IS,
    }
    return [f"The certificate's words on {name} are not ours." for name in true if not true[name]]


def _check_product(certificate: dict[str, Any], folder: Path) -> list[str]:
    made = product_of(certificate["method"])
    claimed = certificate[f"{made}_sha256"]
    file = folder / f"{made}.safetensors"
    if not file.is_file():
        return []  # a certificate may travel alone
    with file.open("rb") as content:
        digest = hashlib.file_digest(content, "sha256").hexdigest()
    if digest != claimed:
        return [f"{file.name} is not the {made} that the certificate is about."]
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
        (certificate["budget"], {k: settings[k] for k in BUDGET if k in settings}),
        (certificate["data"], {**others, "classes": data["class_names"]}),
        (facts["steps"], settings.get("steps", 0)),
        (facts["teachers"], settings.get("n_teachers")),
        (facts.get("label_prior"), settings.get("label_prior")),
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
    spent = _counts(charges_in(rows))
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
        if not _has_its_sensitivity(mechanism):
            wrong.append(f"The sensitivity of {mechanism['what']} is not what follows from it.")
    return wrong


def _has_its_sensitivity(mechanism: dict[str, Any]) -> bool:
    what, parameters = mechanism["what"], mechanism["parameters"]
    if mechanism["event"] == "sampled-gaussian":  # its noise is in units of its sensitivity
        return what in SAMPLED and SAMPLED[what](parameters)
    *claims, _ = FIELDS[mechanism["event"]]
    return tuple(mechanism[name] for name in claims) == sensitivities(what, parameters)


def _too_few(spent: Counts, reserved: Counts) -> list[str]:
    """Kinds of release that a finished run has more of.

    A crash loses releases, never charges. Only what is about a lost release is not bought, all of
    it together, and only votes can go on without it.
    """
    missing = [event for event in reserved if spent.get(event, 0) < reserved[event]]
    about = [event for event in reserved if event[1] in FOLLOWING]
    none_of = [event for event in about if event[1] != "second-moments"]
    excused = (
        any(event[1] in VOTES for event in reserved)
        and all(event in about and not spent.get(event) for event in missing)
        and all(event in missing for event in none_of)
    )
    return [] if excused else [event[1] for event in missing]


def _counts(charges: list[dict[str, Any]]) -> Counts:
    counts: Counts = {}
    for charge in charges:
        names = FIELDS.get(charge["event"])
        if names is None or type(charge["count"]) is not int:
            raise ValueError(f"unknown or impossible charge {charge!r}")
        sizes = [number(charge[name]) for name in names]
        noise = charge[names[-1]]
        likely = charge.get("sampling_probability", 1) <= 1
        if charge["event"] == "laplace" and charge["what"] not in COUNTS:
            raise ValueError(f"unknown charge {charge!r}")
        if min(sizes) <= 0 or not 2.0**-46 <= noise < 2.0**46 or not likely:
            raise ValueError(f"unknown or impossible charge {charge!r}")
        if charge["count"] < 1:
            raise ValueError("a charge for nothing")
        event = (charge["event"], charge["what"], *(charge[name] for name in names))
        counts[event] = counts.get(event, 0) + charge["count"]
    return counts
