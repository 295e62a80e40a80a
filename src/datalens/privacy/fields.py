"""The exact fields of certificate.json, ledger.json and config.toml: the verifier's own view.

A reader takes every field of a certificate for vouched for. So none may be there that nobody
checks, at any level, and each must be of its kind.
"""

import math
import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from types import FunctionType
from typing import Any

Kind = Any
"""What a value must be: a type, a pattern of its text, a dict of exactly these fields, a list of
one kind or of so many, a tuple of kinds one of which fits, a mapping, a function that accepts it,
or a constant. A float may be written as an integer; neither is a boolean."""


@dataclass(frozen=True)
class Each:
    """A mapping whose names and values are of these kinds."""

    name: Kind
    value: Kind


@dataclass(frozen=True)
class Some:
    """A mapping of some of these fields."""

    fields: dict[str, Kind]


def at_least(least: int, most: float = math.inf) -> Kind:
    """A whole number between these."""
    return lambda value: type(value) is int and least <= value <= most


def title(value: Any) -> bool:
    """What people named themselves: nothing that a page would not show as it is."""
    named = isinstance(value, str) and value.strip() != "" and value.isprintable()
    return named and len(value) <= 255


def titles(value: Any) -> bool:
    """Names of classes."""
    some = isinstance(value, list) and 2 <= len(value) <= 1000 and all(map(title, value))
    return some and len(set(value)) == len(value)


def amount(value: Any) -> bool:
    """A finite number that is not negative."""
    return _fits(value, float) and value >= 0


TEXT = str
COUNT, SIZE = at_least(0), at_least(1)
SIDE = at_least(8, 64)
"""Height and width of images."""
HASH = re.compile(r"[0-9a-f]{64}")
RUN = re.compile(r"[0-9a-f]{12}")
NAME = re.compile(r"[a-z0-9][a-z0-9-]{0,60}")
SALT = re.compile(r"[0-9a-f]{32}")
OWN_KEY = re.compile(r"spend/[a-z]+(-[a-z]+)*(/[0-9]{1,9})?")
"""Of a charge: what was released, and in which step."""
ANY_KEY = re.compile(r"spend/[ -~]{1,100}")
"""The same of a method that is not ours."""
VERSION = re.compile(
    r"unknown|[0-9]+(\.[0-9]+)*([a-z]+[0-9]*)?(\.(post|dev)[0-9]+)*(\+[0-9A-Za-z._-]{0,40})?"
)
ACCOUNTANT = re.compile("certified|paper|gaussian|pld")

SHAPE = [(1, 3), SIDE, SIDE]
DATA = {"name": title, "n_records": SIZE, "shape": SHAPE, "classes": titles}
BUDGET: Kind = ({"epsilon": float, "delta": float, "accountant": ACCOUNTANT}, {})
EVENTS = {
    "gaussian": ("squared_sensitivity", "squared_sensitivity_replace", "sigma"),
    "laplace": ("sensitivity", "sensitivity_replace", "scale"),
    "sampled-gaussian": ("sampling_probability", "noise_multiplier"),
}
"""The numbers of each kind of event, its noise last."""
CHARGES = tuple(
    {"event": event, "what": NAME, "count": SIZE} | dict.fromkeys(numbers, float)
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
        "right_answers": int,
        "accuracy": float,
        "covers": TEXT,
    },
}
"""What a certificate says beside the costs, by what the run made."""
PACKAGES = ("python", "datalens", "torch", "numpy", "opacus", "opendp", "dp-accounting")
_ALL = "epsilon delta accountant"
_IMAGES = f"{_ALL} label_prior"
_TEACHERS = (
    "discriminator n_teachers teacher_updates teacher_warm_up teacher_learning_rate real_batch"
    " block_size"
)
_CRITICS = (
    "n_teachers real_batch synthetic_batch warm_up refresh_every refresh_updates latent width"
    " critic_learning_rate generator_learning_rate moving_average batch_size steps clip"
)
_GAN = "steps batch_size critic_learning_rate generator_learning_rate latent width moving_average"
_CLASSIFIER = f"{_ALL} batch_size steps epochs noise_multiplier max_grad_norm learning_rate at_once"
SETTINGS = {
    method: frozenset(names.split())
    for method, names in {
        "datalens": f"{_IMAGES} {_TEACHERS} precision moments compressor levels sketch_rows"
        " sketch_columns ballot_bound top_k keep_all quantise clip clip_mode weigh_room sigma"
        " quorum threshold batch_size steps step_size student_updates student_learning_rate latent"
        " starts fakes balanced_labels cut_targets student_beta1 generator moving_average"
        " warm_start vote_share label_share label_steps cluster_share clusters rank"
        " spread own_label",
        "class-gaussian": f"{_IMAGES} sums_share rank",
        "dp-merf": f"{_IMAGES} waves length_scale scales updates batch_size learning_rate latent",
        "pategan": f"{_IMAGES} {_TEACHERS} noise scale verdict batch_size steps student_updates"
        " soft student_learning_rate remembered generator_updates generator_learning_rate"
        " diversity latent moving_average",
        "gpate": f"{_IMAGES} {_CRITICS} projected bins threshold sigma check_noise weigh_room"
        " smooth",
        "gswgan": f"{_IMAGES} {_CRITICS} noise_multiplier",
        "dpgan": f"{_IMAGES} {_GAN} critic_steps generator_batch max_grad_norm noise_multiplier"
        " weight_clip",
        "dcgan": f"{_IMAGES} {_GAN} penalty",
        "topagg": f"{_CLASSIFIER} keep",
        "dpsgd": _CLASSIFIER,
        "scatter": _CLASSIFIER,
        "validation": f"{_ALL} scale",
    }.items()
}
"""The settings that config.toml of each of our methods may hold."""
WHOLE = frozenset(
    {"steps", "batch_size", "n_teachers", "top_k", "levels", "ballot_bound", "label_steps"}
    | {"clusters", "projected"}
)
"""Those that counts and sensitivities follow from."""
SETTING = (bool, amount, NAME)


def extract_fields(method: Any, product: str) -> Kind:
    """What ledger.json of a run of this method has to be."""
    key = OWN_KEY if method in list(SETTINGS) else ANY_KEY
    file = re.compile(rf"config\.toml|samples\.png|report\.html|{product}\.safetensors")
    own = {"row": SIZE, "run": RUN}
    numbered = {"number": COUNT, "salt": SALT}
    facts = {"method": NAME, "noise": NAME, "config": HASH, "data": DATA, "budget": BUDGET}
    reserve = {"kind": "reserve", "plan": [CHARGES]} | facts | numbered
    spend = {"kind": "spend", "charge": CHARGES} | numbered
    settle = {"kind": "settle", "certificate": HASH, "files": Each(file, HASH)} | numbered
    rows = (
        {"row": SIZE, "digest": HASH},
        own | {"key": key, "body": spend},
        own | {"key": "reserve", "body": reserve},
        own | {"key": "settle", "body": settle},
    )
    return {"format": TEXT, "rows": [rows]}


def configuration_fields(method: Any) -> Kind:
    """What config.toml of this method has to be. A method that is not ours has its own settings."""
    settings: Kind = dict
    if method in list(SETTINGS):
        settings = Some({name: COUNT if name in WHOLE else SETTING for name in SETTINGS[method]})
    data = {"name": title, "n_records": SIZE, "shape": SHAPE, "class_names": titles}
    return {"method": NAME, "settings": settings, "data": data}


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
        best: list[str] | None = None
        for one in kind:
            found = list(faults(value, one, where))
            if best is None or len(found) < len(best):
                best = found
            if not best:
                return
        yield from best or []
    elif isinstance(kind, dict) and isinstance(value, dict):
        for name in kind.keys() - value.keys():
            yield f"{where} lacks the field {name!r}."
        yield from faults(value, Some(kind), where)
    elif isinstance(kind, Some) and isinstance(value, dict):
        for name in value.keys() - kind.fields.keys():
            yield f"{where} has a field {name!r:.60} that DataLens does not write."
        for name in kind.fields.keys() & value.keys():
            yield from faults(value[name], kind.fields[name], f"{where}, {name}")
    elif isinstance(kind, Each) and isinstance(value, dict):
        for name in value:
            yield from faults(name, kind.name, f"{where}, the name of a field")
            yield from faults(value[name], kind.value, f"{where}, {name:.60}")
    elif isinstance(kind, list) and isinstance(value, list) and len(kind) in (1, len(value)):
        for number, each in enumerate(value):
            yield from faults(each, kind[number % len(kind)], f"{where}[{number}]")
    elif not _fits(value, kind):
        yield f"{where} is {value!r:.60}, which DataLens does not write there."


def _fits(value: Any, kind: Kind) -> bool:
    if isinstance(kind, re.Pattern):
        return isinstance(value, str) and kind.fullmatch(value) is not None
    if kind is float:
        most = sys.float_info.max  # as integers can be of any size
        return type(value) in (int, float) and -most <= value <= most
    if isinstance(kind, type):
        return type(value) is kind
    if isinstance(kind, FunctionType):
        return bool(kind(value))
    given = not isinstance(kind, dict | list | Each | Some)
    return given and type(value) is type(kind) and value == kind
