"""Ledger rows as a chain of hashes: what was written cannot change unseen.

Part of the file format. The verifier has its own copy of these few lines, on purpose.
"""

import hashlib
import json
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, NamedTuple

from datalens.errors import DataLensError

FORMAT = "datalens-ledger-3"
GENESIS = hashlib.sha256(FORMAT.encode()).hexdigest()


class Head(NamedTuple):
    """The end of a chain: its number of rows, and the hash of the last."""

    rows: int
    hash: str


START = Head(0, GENESIS)
"""Before the first row."""


@dataclass(frozen=True, kw_only=True)
class Row:
    """One line of a ledger: what, in which run, and the hash of all rows so far."""

    row: int
    """1, 2, 3, ... without gaps."""
    run: str
    key: str
    text: str
    """The body, as the very JSON text that is hashed."""
    hash: str

    @property
    def body(self) -> dict[str, Any]:
        body: dict[str, Any] = json.loads(self.text)
        return body

    @property
    def kind(self) -> str:
        return str(self.body["kind"])

    def for_extract(self, run: str) -> dict[str, Any]:
        """The row as the extract of `run` shows it: in full, or as a digest if it is another's."""
        if self.run == run:
            return {"row": self.row, "run": run, "key": self.key, "body": self.body}
        return {"row": self.row, "digest": digest(self.run, self.key, self.text)}


def digest(run: str, key: str, text: str) -> str:
    """SHA-256 over one row alone, so that others can follow the chain without reading it."""
    return _sha256([run, key, text])


def link(previous: str, row_digest: str) -> str:
    """The hash of a row: over the hash before it and its own digest."""
    return _sha256([previous, row_digest])


def follow(rows: Iterable[Row], where: str, *, known: Head) -> Head:
    """The chain's end; refuses a ledger in which a row was changed, removed, added or moved.

    `known` is an earlier end. A ledger that no longer passes through it was cut off, or put back
    as it once was.
    """
    head, seen = START, known == START
    for row in rows:
        words = (row.run, row.key, row.text)
        fits = row.row == head.rows + 1 and all(isinstance(word, str) for word in words)
        if not fits or row.hash != link(head.hash, digest(*words)):
            raise DataLensError(
                f"The ledger {where} has been altered: row {head.rows + 1} does not follow from the"
                " rows before it; put back the file as it was."
            )
        head = Head(row.row, row.hash)
        seen = seen or head == known
    if not seen:
        raise DataLensError(
            f"The ledger {where} has been altered: it had {known.rows} rows that are no longer the"
            f" same, and now has {head.rows}; put back the file as it was."
        )
    return head


def _sha256(parts: list[str]) -> str:
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()
