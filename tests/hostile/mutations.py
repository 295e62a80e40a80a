"""Broken files made from whole ones. The same file and number give the same mutant, always."""

import copy
import json
from collections.abc import Callable
from random import Random
from typing import Any

import tomli_w

EXTREMES = [
    0,
    1,
    0x7F,
    0x80,
    0xFF,
    0x7FFF,
    0xFFFF,
    2**31 - 1,
    2**31,
    2**32 - 1,
    2**63 - 1,
    2**64 - 1,
]
"""Integers that headers are not written for."""

SPLICES = [b"", b"\0" * 64, b"\xff\xfe\xfd", b"[" * 3000, b'{"a":' * 3000, b"9" * 5000, b"\r\n\r\n"]

Mutator = Callable[[bytes, int], bytes]


def of_bytes(content: bytes, number: int) -> bytes:
    """One to three blows to a file of any kind."""
    chance = Random(f"bytes {number}")
    for _ in range(chance.randint(1, 3)):
        content = chance.choice([_flip, _overwrite, _cut, _remove, _repeat, _splice])(
            content, chance
        )
    return content


def of_head(content: bytes, number: int, *, length: int = 128) -> bytes:
    """The same, to the first bytes alone: headers are short, and most of a file is not one."""
    return of_bytes(content[:length], number) + content[length:]


def of_json(content: bytes, number: int) -> bytes:
    """A document with wrong values in it, or with its text damaged."""
    chance = Random(f"json {number}")
    if chance.random() < 0.2:
        return of_bytes(content, number)
    document = json.loads(content)
    for _ in range(chance.randint(1, 2)):
        document = _wrong_value(document, chance, [*VALUES, *ONLY_JSON])
    text = json.dumps(document).replace('"' + RAW, "").replace(RAW + '"', "")
    if chance.random() < 0.2:
        text = text.replace("{", '{"run": "twice", "format": 1, "rows": [], ', 1)
    return text.encode("utf-8", "surrogatepass")


def of_toml(content: bytes, number: int) -> bytes:
    """A configuration with wrong values in it, or with its text damaged."""
    import tomllib

    chance = Random(f"toml {number}")
    if chance.random() < 0.3:
        return of_bytes(content, number)
    document = _wrong_value(tomllib.loads(content.decode()), chance, VALUES)
    if not isinstance(document, dict):
        return str(document).encode()
    text = tomli_w.dumps(document).replace('"' + RAW, "").replace(RAW + '"', "")
    if chance.random() < 0.1:
        text += chance.choice(text.splitlines() or [""]) + "\n"
    return text.encode("utf-8", "surrogatepass")


RAW = "~raw~"
"""Marks a string whose content goes into the file without its quotes."""

VALUES: list[Any] = [
    True,
    False,
    0,
    1,
    2,
    -1,
    10**9,
    10**18,
    2**63 - 1,
    -(2**63),
    0.5,
    -0.0,
    5e-324,
    1e308,
    float("nan"),
    float("inf"),
    float("-inf"),
    "",
    "0",
    "seeded",
    "gaussian",
    "\x00",
    "two\nlines",
    "\x1b[2J",
    "../../etc/passwd",
    "long " * 2000,
    [],
    {},
    [[]],
    [1, 2, 3],
    ["a", "b"],
    {"a": {"b": 1}},
    f"{RAW}{'9' * 5000}{RAW}",
    f"{RAW}1e999{RAW}",
    f"{RAW}{'[' * 200}{']' * 200}{RAW}",
    f"{RAW}{'[' * 960}{']' * 960}{RAW}",
    f"{RAW}{'[' * 5000}{']' * 5000}{RAW}",
]
ONLY_JSON: list[Any] = [None, f"{RAW}NaN{RAW}", f"{RAW}{10**400}{RAW}", "\ud800"]


def _wrong_value(document: Any, chance: Random, values: list[Any]) -> Any:
    """The document with one of its parts, of any depth, replaced, removed or moved."""
    document = copy.deepcopy(document)
    places = list(_places(document))
    if not places or chance.random() < 0.02:
        return chance.choice(values)
    holder, key = chance.choice(places)
    what = chance.random()
    if what < 0.7:
        holder[key] = copy.deepcopy(chance.choice(values))
    elif what < 0.85:
        del holder[key]
    elif what < 0.95:
        other, name = chance.choice(places)
        holder[key] = copy.deepcopy(other[name])
    elif isinstance(holder, dict):
        holder[chance.choice(["self", "unknown", "", "a.b"])] = 1
    else:
        holder *= 2
    return document


def _places(document: Any) -> Any:
    if not isinstance(document, dict | list):
        return
    for key in document if isinstance(document, dict) else range(len(document)):
        yield document, key
        yield from _places(document[key])


def _flip(content: bytes, chance: Random) -> bytes:
    changed = bytearray(content)
    for _ in range(chance.choice([1, 1, 4, 16])):
        if changed:
            changed[chance.randrange(len(changed))] ^= 1 << chance.randrange(8)
    return bytes(changed)


def _overwrite(content: bytes, chance: Random) -> bytes:
    """An extreme integer of 1 to 8 bytes, in either order of bytes."""
    size, order = chance.choice([1, 2, 4, 8]), chance.choice(["big", "little"])
    at = chance.randrange(len(content) + 1)
    number = chance.choice(EXTREMES) % 2 ** (8 * size)
    return content[:at] + number.to_bytes(size, order) + content[at + size :]  # type: ignore[arg-type]


def _cut(content: bytes, chance: Random) -> bytes:
    return content[: chance.randrange(len(content) + 1)]


def _remove(content: bytes, chance: Random) -> bytes:
    start, stop = sorted(chance.randrange(len(content) + 1) for _ in range(2))
    return content[:start] + content[stop:]


def _repeat(content: bytes, chance: Random) -> bytes:
    start, stop = sorted(chance.randrange(len(content) + 1) for _ in range(2))
    return content[:stop] + content[start:]


def _splice(content: bytes, chance: Random) -> bytes:
    at = chance.randrange(len(content) + 1)
    return content[:at] + chance.choice(SPLICES) + content[at:]
