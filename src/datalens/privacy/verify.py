"""Re-check a certificate without the data, and without trusting the code that wrote it.

This file shares only the file format with the ledger and the accountants. It derives the
sensitivities again, adds up the ledger extract, and computes epsilon from closed forms.
"""

import hashlib
import json
import math
import tomllib
from itertools import pairwise
from pathlib import Path
from typing import Any

from scipy.optimize import brentq, minimize_scalar
from scipy.stats import norm

from datalens.errors import DataLensError
from datalens.privacy.wording import FORMAT, RELATION, SOURCES, statement

TOLERANCE = 1e-4
"""Relative. The writer minimises over a grid of orders, this file over all of them."""


def verify(path: Path) -> list[str]:
    """Everything that disagrees, one sentence each. An empty list: the certificate holds."""
    file = path / "certificate.json" if path.is_dir() else path
    certificate = _read(file)
    extract = _read(file.with_name("ledger.json"))
    config = file.with_name("config.toml")
    if not config.is_file():
        raise DataLensError(f"{config} is missing; it belongs beside the certificate.")
    try:
        return [
            *_check_words(certificate),
            *_check_generator(certificate, file.with_name("generator.safetensors")),
            *_check_configuration(certificate, extract, config.read_bytes()),
            *_check_ledger(certificate, extract),
            *_check_mechanisms(certificate, extract),
            *_check_epsilon(certificate, extract),
        ]
    except (LookupError, TypeError, AttributeError, ValueError, ArithmeticError, RuntimeError) as e:
        return [f"{file.name} or ledger.json is not what DataLens writes ({e!r:.200})."]


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
    if hashlib.sha256(generator.read_bytes()).hexdigest() != certificate["generator_sha256"]:
        return ["generator.safetensors is not the generator that the certificate is about."]
    return []


def _check_configuration(
    certificate: dict[str, Any], extract: dict[str, Any], config: bytes
) -> list[str]:
    """The configuration is the one reserved, and the certificate repeats it truly."""
    wrong = []
    reserved = extract["rows"][0]["body"]
    digest = hashlib.sha256(config).hexdigest()
    if digest != certificate["configuration_sha256"] or digest != reserved["config"]:
        wrong.append("config.toml is not the configuration that the certificate names.")
    told = tomllib.loads(config.decode())
    settings, data, facts = told["settings"], told["data"], certificate["facts"]
    claimed = certificate["data"]
    pairs = [
        (certificate["method"], told["method"]),
        (certificate["method"], reserved["method"]),
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


def _check_ledger(certificate: dict[str, Any], extract: dict[str, Any]) -> list[str]:
    wrong = []
    rows = extract["rows"]
    for row in rows:
        body = json.dumps(row["body"], sort_keys=True)
        text = json.dumps([row["previous"], row["run"], row["key"], body])
        if hashlib.sha256(text.encode()).hexdigest() != row["hash"]:
            wrong.append(f"Ledger row {row['row']} has been changed: its hash does not fit.")
        if row["run"] != certificate["run"]:
            wrong.append(f"Ledger row {row['row']} belongs to another run.")
    claimed = certificate["ledger"]
    if len(rows) != claimed["rows"] or not rows or rows[-1]["hash"] != claimed["head"]:
        wrong.append("The ledger extract does not end where the certificate says.")
    keys = [row["key"] for row in rows]
    if len(set(keys)) != len(keys) or keys[0] != "reserve" or keys[-1] != "settle":
        wrong.append("The ledger extract does not go from one reservation to its settlement.")
    if [row["body"]["number"] for row in rows] != list(range(len(rows))):
        wrong.append("Rows are missing from the ledger extract, or out of order.")
    for before, after in pairwise(rows):
        if after["row"] == before["row"] + 1 and after["previous"] != before["hash"]:
            wrong.append(f"Ledger row {after['row']} does not follow the row before it.")
    return wrong


def _check_mechanisms(certificate: dict[str, Any], extract: dict[str, Any]) -> list[str]:
    """Counts agree with the ledger, stay within the reservation, and sensitivities follow."""
    wrong = []
    spent = _counts(_charges(extract))
    reserved = _counts(extract["rows"][0]["body"]["plan"])
    claimed = _counts(certificate["mechanisms"])
    if spent != claimed:
        wrong.append("The releases in the certificate are not those in the ledger.")
    for event, count in spent.items():
        if count > reserved.get(event, 0):
            wrong.append("The ledger charges more releases than were reserved.")
    if sum(spent.values()) != certificate["releases"]:
        wrong.append("The number of releases is not the ledger's.")
    for mechanism in certificate["mechanisms"]:
        blanked, replaced = _sensitivities(mechanism["what"], mechanism["parameters"])
        if (mechanism["squared_sensitivity"], mechanism["squared_sensitivity_replace"]) != (
            blanked,
            replaced,
        ):
            wrong.append(f"The sensitivity of {mechanism['what']} is not what follows from it.")
    return wrong


def _check_epsilon(certificate: dict[str, Any], extract: dict[str, Any]) -> list[str]:
    wrong = []
    delta = certificate["delta"]
    charges = _charges(extract)
    rho = _rho(charges, "squared_sensitivity")
    truth = {
        "certified": _certified(rho, delta),
        "paper": rho + 2 * math.sqrt(rho * math.log(1 / delta)),
        "gaussian": _gaussian(rho, delta),
    }
    for name, value in truth.items():
        if not math.isclose(certificate["epsilon"][name], value, rel_tol=TOLERANCE, abs_tol=1e-6):
            wrong.append(f"epsilon ({name}) is {value:.6g}, not {certificate['epsilon'][name]!r}.")
    replaced = _certified(_rho(charges, "squared_sensitivity_replace"), delta)
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
    if extract["rows"][0]["body"]["noise"] != certificate["noise"]["kind"]:
        wrong.append("The kind of noise is not the one reserved in the ledger.")
    return wrong


def _sensitivities(what: str, parameters: dict[str, Any]) -> tuple[float, float]:
    """Squared sensitivity with a record blanked, and with a record replaced."""
    if any(isinstance(v, bool) or not isinstance(v, int) or v < 1 for v in parameters.values()):
        raise ValueError(f"impossible parameters of {what}")
    if what == "votes":  # one ballot becomes any other: twice its norm
        squared = 4 * parameters["top_k"] * parameters["levels"] ** 2
        return squared, squared
    if what == "class-sums":
        return parameters["bound"] ** 2, 4 * parameters["bound"] ** 2
    if what == "second-moments":
        return parameters["bound"] ** 4, 4 * parameters["bound"] ** 4
    if what == "class-counts":
        return 1, 2
    raise ValueError(f"unknown mechanism {what!r}")


def _charges(extract: dict[str, Any]) -> list[dict[str, Any]]:
    bodies = [row["body"] for row in extract["rows"]]
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


def _rho(charges: list[dict[str, Any]], sensitivity: str) -> float:
    return math.fsum(c["count"] * c[sensitivity] / (2 * c["sigma"] ** 2) for c in charges)


def _certified(rho: float, delta: float) -> float:
    """Canonne, Kamath and Steinke (2020), Proposition 12: the best order, by minimisation."""
    if rho == 0:
        return 0.0

    def at(log_order: float) -> float:
        less = math.exp(log_order)  # the order minus one
        order = 1 + less
        return rho * order - math.log(order * delta) / less + math.log(less / order)

    best = minimize_scalar(at, bounds=(-12, 16), method="bounded", options={"xatol": 1e-10})
    return max(float(best.fun), 0.0)


def _gaussian(rho: float, delta: float) -> float:
    """The exact curve of a Gaussian mechanism with mu = sqrt(2 rho) (Dong, Roth, Su 2022)."""
    if rho == 0:
        return 0.0
    mu = math.sqrt(2 * rho)

    def excess(epsilon: float) -> float:
        upper = norm.cdf(-epsilon / mu + mu / 2)
        lower = math.exp(epsilon + norm.logcdf(-epsilon / mu - mu / 2))
        return float(upper - lower) - delta

    if excess(0.0) <= 0:
        return 0.0
    return float(brentq(excess, 0.0, rho + 2 * math.sqrt(rho * math.log(1 / delta)) + 1))


def _read(file: Path) -> dict[str, Any]:
    try:
        if file.stat().st_size > 100_000_000:
            raise DataLensError(f"{file} is too large for a certificate or ledger extract.")
        found = json.loads(file.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise DataLensError(
            f"{file} does not exist; name a run folder or its certificate."
        ) from None
    except (OSError, ValueError, RecursionError) as error:
        raise DataLensError(f"{file} cannot be read as JSON ({type(error).__name__}).") from None
    if not isinstance(found, dict):
        raise DataLensError(f"{file} holds no certificate or ledger extract.")
    return found
