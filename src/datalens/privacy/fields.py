"""The exact fields of certificate.json and ledger.json: the verifier's own view of the format.

A reader takes every field of a certificate for vouched for. So none may be there that nobody
checks, at any level, and each must be of its kind.
"""

import math
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

Kind = Any
"""What a value must be: a type, a pattern of its text, a dict of exactly these fields, a list of
one kind, a tuple of kinds one of which fits, a mapping, or a constant. A float may be written as
an integer; neither is a boolean."""


@dataclass(frozen=True)
class Each:
    """A mapping whose names and values are of these kinds."""

    name: Kind
    value: Kind


TEXT = str
COUNT = int
HASH = re.compile(r"[0-9a-f]{64}")
RUN = re.compile(r"[0-9a-f]{12}|audit")
NAME = re.compile(r"[a-z0-9][a-z0-9-]{0,60}")
SALT = re.compile(r"[0-9a-f]{32}")
VERSION = re.compile(r"[0-9A-Za-z.+_-]{1,60}|unknown")

FILE = re.compile(r"config\.toml|samples\.png|report\.html|[a-z]+\.safetensors")
"""What the row that ends a run may vouch for."""
ACCOUNTANT = re.compile("certified|paper|gaussian|pld")

DATA = {"name": TEXT, "n_records": COUNT, "shape": [COUNT], "classes": [TEXT]}
BUDGET: Kind = ({"epsilon": float, "delta": float, "accountant": ACCOUNTANT}, {})
EVENTS = {
    "gaussian": ("squared_sensitivity", "squared_sensitivity_replace", "sigma"),
    "laplace": ("sensitivity", "sensitivity_replace", "scale"),
    "sampled-gaussian": ("sampling_probability", "noise_multiplier"),
}
"""The numbers of each kind of event, its noise last."""
CHARGES = tuple(
    {"event": event, "what": NAME, "count": COUNT} | dict.fromkeys(numbers, float)
    for event, numbers in EVENTS.items()
)
PARAMETERS: dict[str, dict[str, Kind]] = {
    "class-counts": {},
    "class-sums": {"bound": COUNT},
    "second-moments": {"bound": COUNT},
    "cluster-sums": {"bound": COUNT, "weight": COUNT},
    "cluster-moments": {"bound": COUNT},
    "feature-sums": {"bound": COUNT},
    "gradient-sums": {"features": COUNT, "residuals": COUNT},
    "real-votes": {},
    "right-answers": {},
    "votes": {"top_k": COUNT, "levels": COUNT},
    "vote-checks": {"projected": COUNT},
    "binned-votes": {"projected": COUNT},
    "rotated-votes": {"bound": COUNT},
    "sketched-votes": {"bound": COUNT},
    "dp-sgd": {},
    "drawn-critic": {},
    "topagg-sgd": {"keep": float, "max_grad_norm": float, "bound": float},
}
"""What the sensitivity of each kind of release follows from."""
FACTS: dict[str, dict[str, Kind]] = {
    "generator": {"steps": COUNT, "teachers": (COUNT, None), "label_prior": NAME},
    "classifier": {"steps": COUNT, "teachers": (COUNT, None)},
    "judge": {
        "steps": COUNT,
        "teachers": (COUNT, None),
        "right_answers": COUNT,
        "accuracy": float,
        "covers": TEXT,
    },
}
"""What a certificate says beside the costs, by what the run made."""
PACKAGES = ("python", "datalens", "torch", "numpy", "opacus", "opendp", "dp-accounting")
ROWS = (
    {"row": COUNT, "digest": HASH},
    {
        "row": COUNT,
        "run": RUN,
        "key": "reserve",
        "body": {
            "kind": "reserve",
            "method": NAME,
            "noise": NAME,
            "config": HASH,
            "data": DATA,
            "budget": BUDGET,
            "plan": [CHARGES],
            "number": COUNT,
            "salt": SALT,
        },
    },
    {
        "row": COUNT,
        "run": RUN,
        "key": re.compile(r"spend/[ -~]{1,100}"),
        "body": {"kind": "spend", "charge": CHARGES, "number": COUNT, "salt": SALT},
    },
    {
        "row": COUNT,
        "run": RUN,
        "key": "settle",
        "body": {
            "kind": "settle",
            "certificate": HASH,
            "files": Each(FILE, HASH),
            "number": COUNT,
            "salt": SALT,
        },
    },
)
EXTRACT = {"format": TEXT, "rows": [ROWS]}


def certificate_fields(product: str) -> Kind:
    """What certificate.json of a run that made this has to be."""
    mechanisms = tuple(
        charge | {"what": what, "parameters": parameters}
        for charge in CHARGES
        for what, parameters in PARAMETERS.items()
    )
    return {
        "format": TEXT,
        "private": bool,
        "statement": TEXT,
        "run": RUN,
        "method": NAME,
        "data": DATA,
        "neighbouring": TEXT,
        "mechanisms": [mechanisms],
        "releases": COUNT,
        "budget": BUDGET,
        "delta": (float, None),
        "epsilon": Each(ACCOUNTANT, float),
        "epsilon_replace": (float, None),
        "gaussian_is": TEXT,
        "noise": {"kind": NAME, "source": TEXT},
        "facts": FACTS[product],
        "versions": dict.fromkeys(PACKAGES, VERSION),
        "configuration_sha256": HASH,
        f"{product}_sha256": HASH,
        "ledger": {"rows": COUNT, "head": HASH},
    }


def faults(value: Any, kind: Kind, where: str) -> Iterator[str]:
    """What is wrong with a value that a file holds, a sentence each."""
    if isinstance(kind, tuple):
        found = [list(faults(value, one, where)) for one in kind]
        yield from min(found, key=len)
    elif isinstance(kind, dict) and isinstance(value, dict):
        for name in kind.keys() - value.keys():
            yield f"{where} lacks the field {name!r}."
        for name in value.keys() - kind.keys():
            yield f"{where} has a field {name!r:.60} that DataLens does not write."
        for name in kind.keys() & value.keys():
            yield from faults(value[name], kind[name], f"{where}, {name}")
    elif isinstance(kind, Each) and isinstance(value, dict):
        for name in value:
            yield from faults(name, kind.name, f"{where}, the name of a field")
            yield from faults(value[name], kind.value, f"{where}, {name:.60}")
    elif isinstance(kind, list) and isinstance(value, list):
        for number, each in enumerate(value):
            yield from faults(each, kind[0], f"{where}[{number}]")
    elif not _fits(value, kind):
        yield f"{where} is {value!r:.60}, which DataLens does not write there."


def _fits(value: Any, kind: Kind) -> bool:
    if isinstance(kind, re.Pattern):
        return isinstance(value, str) and kind.fullmatch(value) is not None
    if kind is float:
        return type(value) in (int, float) and math.isfinite(value)
    if isinstance(kind, type):
        return type(value) is kind
    return not isinstance(kind, dict | list | Each) and type(value) is type(kind) and value == kind
