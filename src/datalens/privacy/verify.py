"""Re-check a certificate without the data, and without trusting the code that wrote it.

This file shares only the file format with the ledger and the accountants. It follows the chain
of hashes, derives bounds, noise and sensitivities again, adds up the ledger extract, and computes
epsilon from closed forms. Read it from `verify` downwards.
"""

import hashlib
import json
from collections.abc import Iterator
from itertools import chain, islice
from pathlib import Path
from typing import Any

import numpy as np
import tomli_w

from datalens.data.documents import MAX_TOML, read_json, read_toml, read_whole
from datalens.errors import DataLensError, printable
from datalens.privacy.fields import (
    EVENTS,
    PARAMETERS,
    certificate_fields,
    configuration_fields,
    extract_fields,
    faults,
)
from datalens.privacy.rechain import (
    Row,
    check_chain,
    check_frame,
    check_run,
    check_whole_ledger,
    own_rows,
)
from datalens.privacy.recost import charges_in, check_protection, number
from datalens.privacy.replan import (
    COUNTS,
    OURS,
    SAMPLED,
    Derived,
    impossible,
    planned,
    product_of,
    sensitivities,
)
from datalens.privacy.signing import LONGEST_SIGNATURE, SIGNATURE, is_signed
from datalens.privacy.wording import (
    COVERS,
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

BUDGET = ("epsilon", "delta", "accountant")

MOST_BYTES = 2**30
"""Of a published file."""

LOOSE = "Its delta is not below 1 in {}: such a delta allows publishing whole records."
"""What a statement does not say of itself."""

SHOWN = 20
"""Faults of the format that are listed at most."""

Counts = dict[tuple[Any, ...], int]
"""How often each event was charged."""


def verify(path: Path, *, ledger: Path | None = None, key: str | None = None) -> list[str]:
    """Why the certificate does not hold, one sentence each. An empty list: it holds.

    It needs certificate, ledger extract and configuration, and a method whose releases it knows.
    Whatever else the run published must fit, where it lies beside them; so must the data's whole
    ledger, if the owner names it, and the signature, if the owner's public key is given.
    """
    return [*contradictions(path, ledger=ledger, key=key), *_gaps(path)]


def contradictions(path: Path, *, ledger: Path | None = None, key: str | None = None) -> list[str]:
    """What disagrees in the files that are here, whether or not they are enough for a verdict."""
    file = _certificate_of(path)
    certificate, extract = read_json(file), read_json(file.with_name("ledger.json"))
    config = file.with_name("config.toml")
    told = read_toml(config) if config.exists() else None
    malformed = list(islice(_malformed(certificate, extract, told, file.name), SHOWN))
    malformed = malformed or check_frame(certificate, extract)
    if malformed:
        return [printable(sentence) for sentence in malformed]
    try:
        rows = own_rows(extract)
        with np.errstate(all="ignore"):  # figures that are not ours may overflow
            wrong = [
                *_check_words(certificate),
                *check_chain(certificate, extract),
                *check_run(rows),
                *(_check_files(certificate, rows, file.parent)),
                *_check_reserved(certificate, rows),
                *(_check_configuration(certificate, rows, told, config) if told else []),
                *(check_whole_ledger(certificate, extract, ledger) if ledger else []),
                *(_check_signature(file, key) if key else []),
                *_check_mechanisms(certificate, rows),
                *check_protection(certificate, rows),
            ]
    except DataLensError:
        raise
    except (LookupError, TypeError, AttributeError, ValueError, ArithmeticError, RuntimeError):
        wrong = [
            f"{file.name}, ledger.json or config.toml has been altered or damaged: their figures"
            " are not those of a run of DataLens."
        ]
    return [printable(sentence) for sentence in wrong]  # they may repeat what is in the files


def _malformed(
    certificate: dict[str, Any], extract: dict[str, Any], told: dict[str, Any] | None, name: str
) -> Iterator[str]:
    """Fields that are not those of the format, in each of the files that are here."""
    method = certificate.get("method")
    product = product_of(method)
    return chain(
        faults(certificate, certificate_fields(product), name),
        faults(extract, extract_fields(method, product), "ledger.json"),
        faults(told, configuration_fields(method), "config.toml") if told is not None else (),
    )


def _gaps(path: Path) -> list[str]:
    """What a verdict needs and is not here."""
    file = _certificate_of(path)
    method = read_json(file).get("method")
    found = []
    if not file.with_name("config.toml").exists():
        found.append(
            "config.toml is not here, so nobody can see whether bounds, noise and counts follow"
            " from the configuration: put it beside the certificate."
        )
    if method not in OURS:
        found.append(
            f"The method {printable(str(method))} is not one of DataLens, so it is not known what"
            " it should release: its figures agree with each other, and that is all."
        )
    return found


def unchecked(path: Path, *, ledger: Path | None = None, key: str | None = None) -> list[str]:
    """What could not be checked, and why."""
    file = _certificate_of(path)
    certificate, extract = read_json(file), read_json(file.with_name("ledger.json"))
    found = []
    if not any(_malformed(certificate, extract, None, file.name)):
        rows = own_rows(extract)
        files = rows[-1]["body"].get("files", {}) if rows else {}
        here = {each.name for each in file.parent.iterdir() if not each.is_dir()}
        found += [f"{name} (it is not here)" for name in sorted(files.keys() - here)]
        covered = {*files, file.name, "ledger.json", SIGNATURE}
        found += [f"{name} (no hash covers it)" for name in sorted(here - covered)]
        plan = rows[0]["body"].get("plan", []) if rows else []
        spent = {charge["what"] for charge in charges_in(rows)}
        lost = ", ".join(charge["what"] for charge in plan if charge["what"] not in spent)
        if lost:
            found.append(f"whether {lost} were released (they were reserved, and never charged)")
    if key is None:
        found.append("who issued the certificate (give the owner's public key with --key)")
    if ledger is None:
        found.append("whether the ledger still has these rows (its owner names it with --ledger)")
    return [printable(words) for words in found]


def claims_privacy(path: Path) -> bool:
    """Whether the certificate is of a private run; one from a seed is NOT PRIVATE."""
    return read_json(_certificate_of(path)).get("private") is True


def noise_of(path: Path) -> str:
    """The kind of noise that a certificate names, if it holds."""
    return str(read_json(_certificate_of(path))["noise"]["kind"])


def said_by(path: Path) -> str:
    """A certificate's own words on what it guarantees, if it holds."""
    certificate = read_json(_certificate_of(path))
    replaced, said = certificate.get("epsilon_replace"), str(certificate["statement"])
    if certificate["private"] is not True or replaced is None:
        return said
    n_records = certificate["data"]["n_records"]
    loose = certificate["delta"] * n_records >= 1
    return f"{said} {if_replaced(replaced)}{f' {LOOSE.format(n_records)}' if loose else ''}"


def _certificate_of(path: Path) -> Path:
    file = path / "certificate.json" if path.is_dir() else path
    if not file.exists():
        raise DataLensError(f"{file} does not exist; name a run folder or its certificate.")
    return file


def _check_words(certificate: dict[str, Any]) -> list[str]:
    """What people read must be what the numbers say."""
    noise, budget = certificate["noise"], certificate["budget"]
    kinds = [mechanism["event"] for mechanism in certificate["mechanisms"]]
    bare = noise["kind"] == "none"
    ours = statement(
        private=certificate["private"],
        epsilon=None if bare else certificate["epsilon"][budget["accountant"]],
        delta=certificate["delta"],
        records=certificate["data"]["n_records"],
        noise=noise["kind"],
        events=kinds,
    )
    true = {
        "format": certificate["format"] == FORMAT,
        "statement": certificate["statement"] == ours,
        "neighbouring": certificate["neighbouring"] == RELATION,
        "noise": noise["source"] == source(noise["kind"], kinds),
        "the Gaussian accountant": certificate["gaussian_is"] == GAUSSIAN_IS,
    }
    facts = certificate["facts"]
    if "covers" in facts:
        true["what was validated"] = facts["covers"] == COVERS
        right = facts["right_answers"] / certificate["data"]["n_records"]
        true["the accuracy"] = facts["accuracy"] == right
    return [f"The certificate's words on {name} are not ours." for name in true if not true[name]]


def _check_files(certificate: dict[str, Any], rows: list[Row], folder: Path) -> list[str]:
    """The row that ends the run vouches for every file it published, and for the certificate."""
    wrong, settled = [], rows[-1]["body"]
    said = {name: value for name, value in certificate.items() if name != "ledger"}
    if settled["certificate"] != _sha256(json.dumps(said, sort_keys=True).encode()):
        wrong.append("The certificate is not the one that the ledger vouches for.")
    files, product = settled["files"], product_of(certificate["method"])
    must = {
        "config.toml": certificate["configuration_sha256"],
        f"{product}.safetensors": certificate[f"{product}_sha256"],
    }
    if {name: files.get(name) for name in must} != must:
        wrong.append("The ledger vouches for another configuration or product.")
    for name, claimed in files.items():
        file = folder / name
        if file.is_symlink() and not file.exists():
            wrong.append(f"{name} is a link that leads nowhere.")
        elif file.exists() and _sha256(read_whole(file, at_most=MOST_BYTES)) != claimed:
            wrong.append(f"{name} is not the file that the certificate is about.")
    return wrong


def _check_signature(file: Path, key: str) -> list[str]:
    signature = file.with_name(SIGNATURE)
    if not signature.exists():
        return [f"{SIGNATURE} is not here, so nobody can see who issued the certificate."]
    text = read_whole(signature, at_most=LONGEST_SIGNATURE).decode(errors="replace")
    if is_signed(read_whole(file, at_most=MOST_BYTES), text, key):
        return []
    return ["The certificate is not signed by the owner of this public key."]


def _check_reserved(certificate: dict[str, Any], rows: list[Row]) -> list[str]:
    """What the sentence states was reserved so, before any record was touched."""
    reserved = rows[0]["body"]
    same = {
        "configuration": certificate["configuration_sha256"] == reserved["config"],
        "method": certificate["method"] == reserved["method"],
        "description of the data": certificate["data"] == reserved["data"],
        "budget": certificate["budget"] == reserved["budget"],
    }
    return [
        f"The certificate has another {what} than was reserved." for what in same if not same[what]
    ]


def _check_configuration(
    certificate: dict[str, Any], rows: list[Row], told: dict[str, Any], config: Path
) -> list[str]:
    """Certificate and plan follow from the configuration."""
    wrong = impossible(told) if told["method"] in OURS else []
    if tomli_w.dumps(told).encode() != read_whole(config, at_most=MAX_TOML):
        wrong.append("config.toml is not as DataLens writes it: it may hold comments.")
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
    if not _follows(planned(told), certificate, rows[0]["body"]["plan"]):
        wrong.append("What was reserved does not follow from config.toml.")
    return wrong


def _follows(
    decided: dict[str, Any] | None, certificate: dict[str, Any], plan: list[dict[str, Any]]
) -> bool:
    """Whether exactly those releases were reserved, as the configuration decides on them."""
    if decided is None:
        return True  # not one of our methods, which a verdict says
    claimed = {entry["what"]: entry["parameters"] for entry in certificate["mechanisms"]}
    reserved = {charge["what"]: charge for charge in plan}
    return (
        len(plan) == len(reserved)
        and reserved.keys() == decided.keys()
        and all(
            _as_decided(reserved[what], claimed.get(what), facts) for what, facts in decided.items()
        )
    )


def _as_decided(charge: Row, claimed: Row | None, facts: dict[str, Any]) -> bool:
    """One reservation; the certificate claims no parameters of a release that a crash has lost."""
    bounds = {name: facts[name] for name in PARAMETERS[charge["what"]] if name in facts}
    if charge["event"] != "sampled-gaussian":
        *moves, _ = EVENTS[charge["event"]]
        if tuple(charge[name] for name in moves) != sensitivities(charge["what"], bounds):
            return False
    stated = {**charge, **(bounds if claimed is None else claimed)}
    return all(
        value.fits(stated.get(name)) if isinstance(value, Derived) else stated.get(name) == value
        for name, value in facts.items()
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
    kinds = [mechanism["what"] for mechanism in certificate["mechanisms"]]
    if len(set(kinds)) < len(kinds):
        wrong.append("The certificate states one kind of release twice.")
    for mechanism in certificate["mechanisms"]:
        if not _has_its_sensitivity(mechanism):
            wrong.append(f"The sensitivity of {mechanism['what']} is not what follows from it.")
    return wrong


def _has_its_sensitivity(mechanism: dict[str, Any]) -> bool:
    what, parameters = mechanism["what"], mechanism["parameters"]
    if mechanism["event"] == "sampled-gaussian":  # its noise is in units of its sensitivity
        return what in SAMPLED and SAMPLED[what](parameters)
    *claims, _ = EVENTS[mechanism["event"]]
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
        names = EVENTS[charge["event"]]
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


def _sha256(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()
