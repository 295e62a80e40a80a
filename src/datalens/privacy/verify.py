"""Re-check a certificate without the data, and without trusting the code that wrote it.

This file shares only the file format with the ledger and the accountants. It follows the chain
of hashes, derives the sensitivities again, adds up the ledger extract, and computes epsilon from
closed forms. Read it from `verify` downwards.
"""

import hashlib
import json
import math
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any
from urllib.parse import quote

import numpy as np

from datalens.data.documents import read_json, read_toml
from datalens.errors import DataLensError
from datalens.privacy.recompute import certified, gaussian, paper, rho, sensitivities
from datalens.privacy.wording import FORMAT, RELATION, SOURCES, statement

TOLERANCE = 1e-4
"""Relative. The writer minimises over a grid of orders, this file over all of them."""


LEDGER = "datalens-ledger-2"


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
        rows = _own_rows(certificate, extract)
        with np.errstate(all="ignore"):  # figures that are not ours may overflow
            return [
                *_check_words(certificate),
                *_check_generator(certificate, file.with_name("generator.safetensors")),
                *_check_configuration(certificate, rows, file.with_name("config.toml")),
                *_check_chain(certificate, extract),
                *_check_run(rows),
                *(_check_whole_ledger(certificate, extract, ledger) if ledger else []),
                *_check_mechanisms(certificate, rows),
                *_check_epsilon(certificate, rows),
            ]
    except DataLensError:
        raise
    except (LookupError, TypeError, AttributeError, ValueError, ArithmeticError, RuntimeError) as e:
        return [f"{file.name} or ledger.json is not what DataLens writes ({e!r:.200})."]


def claims_privacy(path: Path) -> bool:
    """Whether the certificate is of a private run; one from a seed is NOT PRIVATE."""
    file = path / "certificate.json" if path.is_dir() else path
    return read_json(file).get("private") is True


Row = dict[str, Any]


def _own_rows(certificate: dict[str, Any], extract: dict[str, Any]) -> list[Row]:
    """The run's rows, in order: the first is its reservation."""
    own = [row for row in extract["rows"] if row.get("run") == certificate["run"]]
    if not own:
        raise ValueError("the ledger extract has no row of this run")
    return own


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
    """The configuration is the one reserved, and the certificate repeats it truly."""
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
    claimed = certificate["data"]
    pairs = [
        (certificate["method"], told["method"]),
        (certificate["budget"], {k: settings[k] for k in ("epsilon", "delta", "accountant")}),
        (
            {**claimed},
            {**{k: data[k] for k in data if k != "class_names"}, "classes": data["class_names"]},
        ),
        (facts["steps"], settings.get("steps", 0)),
        (facts["teachers"], settings.get("n_teachers")),
        (facts["label_prior"], settings["label_prior"]),
    ]
    if any(one != other for one, other in pairs):
        wrong.append("The certificate does not repeat its configuration truly.")
    return wrong


def _check_chain(certificate: dict[str, Any], extract: dict[str, Any]) -> list[str]:
    """From the first row of the ledger to the run's last, each hash over the one before it.

    Rows of other runs are there as digests: enough to follow the chain.
    """
    wrong = []
    rows, claimed = extract["rows"], certificate["ledger"]
    if extract["format"] != LEDGER:
        wrong.append(f"The ledger extract is not in the format {LEDGER}.")
    if [row["row"] for row in rows] != list(range(1, len(rows) + 1)):
        wrong.append("Rows are missing from the ledger extract, or out of order.")
    if len(rows) != claimed["rows"] or _heads(rows)[-1] != claimed["head"]:
        wrong.append("The ledger extract has been altered: it does not end in the hash certified.")
    return wrong


def _heads(rows: list[Row]) -> list[str]:
    """The ledger's hash after each row."""
    heads = [hashlib.sha256(LEDGER.encode()).hexdigest()]
    for row in rows:
        digest = row["digest"] if "digest" in row else _digest(row)
        heads.append(_sha256([heads[-1], digest]))
    return heads


def _digest(row: Row) -> str:
    return _sha256([row["run"], row["key"], json.dumps(row["body"], sort_keys=True)])


def _sha256(parts: list[str]) -> str:
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()


def _check_run(rows: list[Row]) -> list[str]:
    """Rows are numbered within a run, so that none can hide among the digests."""
    wrong = []
    keys = [row["key"] for row in rows]
    if len(set(keys)) != len(keys) or keys[0] != "reserve" or keys[-1] != "settle":
        wrong.append("The ledger extract does not go from one reservation to its settlement.")
    if [row["body"]["number"] for row in rows] != list(range(len(rows))):
        wrong.append("Rows of this run are missing from the ledger extract, or out of order.")
    kinds = [row["body"]["kind"] for row in rows]
    if kinds != ["reserve", *["spend"] * (len(rows) - 2), "settle"]:
        wrong.append("The ledger extract holds rows that are neither charges nor their frame.")
    return wrong


def _check_whole_ledger(
    certificate: dict[str, Any], extract: dict[str, Any], ledger: Path
) -> list[str]:
    """The owner's own database: nothing edited, deleted or cut off since."""
    try:
        with closing(sqlite3.connect(f"file:{quote(str(ledger))}?mode=ro", uri=True)) as database:
            others = "SELECT 1 FROM sqlite_master WHERE type IN ('view', 'trigger')"
            if not ledger.is_file() or database.execute(others).fetchone():
                return [f"The ledger {ledger.name} holds views or triggers, which ours do not."]
            found = database.execute("SELECT row, run, key, body, hash FROM entries ORDER BY row")
            stored = [(*row[:3], json.loads(row[3]), row[4]) for row in found]
    except sqlite3.Error as error:
        raise DataLensError(f"The ledger {ledger} cannot be read ({error}).") from None
    rows = [{"row": r, "run": run, "key": key, "body": body} for r, run, key, body, _ in stored]
    heads, claimed = _heads(rows), certificate["ledger"]
    for number, (head, row) in enumerate(zip(heads[1:], stored, strict=True), start=1):
        if row[0] != number or row[4] != head:
            return [f"The ledger {ledger.name} has been altered at row {number}."]
    if len(rows) < claimed["rows"]:
        return [f"The ledger {ledger.name} has been cut off after row {len(rows)}."]
    if heads[claimed["rows"]] != claimed["head"]:
        return [f"The ledger {ledger.name} is not the one that this certificate was issued from."]
    own = [row for row in rows if row["run"] == certificate["run"]]
    if own != _own_rows(certificate, extract):
        return [f"The ledger {ledger.name} has other rows of this run than the extract shows."]
    return []


def _check_mechanisms(certificate: dict[str, Any], rows: list[Row]) -> list[str]:
    """Counts agree with the ledger, stay within the reservation, and sensitivities follow."""
    wrong = []
    spent = _counts(_charges(rows))
    reserved = _counts(rows[0]["body"]["plan"])
    claimed = _counts(certificate["mechanisms"])
    if spent != claimed:
        wrong.append("The releases in the certificate are not those in the ledger.")
    for event, count in spent.items():
        if count > reserved.get(event, 0):
            wrong.append("The ledger charges more releases than were reserved.")
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


def _check_epsilon(certificate: dict[str, Any], rows: list[Row]) -> list[str]:
    wrong = []
    delta = certificate["delta"]
    charges = _charges(rows)
    total = rho(charges, "squared_sensitivity")
    truth = {
        "certified": certified(total, delta),
        "paper": paper(total, delta),
        "gaussian": gaussian(total, delta),
    }
    for name, value in truth.items():
        if not math.isclose(certificate["epsilon"][name], value, rel_tol=TOLERANCE, abs_tol=1e-6):
            wrong.append(f"epsilon ({name}) is {value:.6g}, not {certificate['epsilon'][name]!r}.")
    replaced = certified(rho(charges, "squared_sensitivity_replace"), delta)
    if not math.isclose(certificate["epsilon_replace"], replaced, rel_tol=TOLERANCE, abs_tol=1e-6):
        wrong.append(f"epsilon_replace is {replaced:.6g}, not {certificate['epsilon_replace']!r}.")
    budget = certificate["budget"]
    if budget["accountant"] not in ("certified", "paper"):
        wrong.append(f"A budget cannot be held by the accountant {budget['accountant']!r}.")
    elif delta != budget["delta"] or not truth[budget["accountant"]] <= budget["epsilon"] + 1e-9:
        wrong.append("More was spent than the budget allows.")
    if not math.isfinite(budget["epsilon"]):
        wrong.append("A budget must be finite.")
    if certificate["private"] is not (certificate["noise"]["kind"] in ("exact", "float-secure")):
        wrong.append("The certificate says private, and its noise says otherwise.")
    if rows[0]["body"]["noise"] != certificate["noise"]["kind"]:
        wrong.append("The kind of noise is not the one reserved in the ledger.")
    return wrong


def _charges(rows: list[Row]) -> list[dict[str, Any]]:
    bodies = [row["body"] for row in rows]
    return [body["charge"] for body in bodies if body["kind"] == "spend"]


def _counts(charges: list[dict[str, Any]]) -> dict[tuple[Any, ...], int]:
    names = ("event", "what", "squared_sensitivity", "squared_sensitivity_replace", "sigma")
    counts: dict[tuple[Any, ...], int] = {}
    for charge in charges:
        event = tuple(charge[name] for name in names)
        if (
            charge["event"] != "gaussian"
            or not 0 < charge["sigma"] < math.inf
            or not charge["count"] >= 0
        ):
            raise ValueError(f"unknown or impossible charge {charge!r}")
        counts[event] = counts.get(event, 0) + charge["count"]
    return {event: count for event, count in counts.items() if count}
