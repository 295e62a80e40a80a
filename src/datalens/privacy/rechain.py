"""The chain of hashes, followed by the verifier with code of its own.

An extract has the run's rows in full and all others as digests, which is enough to follow it.
"""

import hashlib
import json
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any
from urllib.parse import quote

from datalens.errors import DataLensError, brief

LEDGER = "datalens-ledger-3"
Row = dict[str, Any]


def own_rows(extract: dict[str, Any]) -> list[Row]:
    """The run's rows, in order; all others are digests."""
    return [row for row in extract["rows"] if "body" in row]


def check_frame(certificate: dict[str, Any], extract: dict[str, Any]) -> list[str]:
    """The extract shows this run's rows and no others, from its reservation to its end."""
    own = own_rows(extract)
    wrong = []
    if any(row["run"] != certificate["run"] for row in own):
        wrong.append("ledger.json shows rows of another run than the certificate's.")
    kinds = [row["body"]["kind"] for row in own]
    if kinds != ["reserve", *["spend"] * (len(own) - 2), "settle"]:
        wrong.append("ledger.json does not go from the run's reservation over charges to its end.")
    elif "body" not in extract["rows"][-1]:
        wrong.append("ledger.json goes on after the run's end.")
    return wrong


def check_chain(certificate: dict[str, Any], extract: dict[str, Any]) -> list[str]:
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


def check_run(rows: list[Row]) -> list[str]:
    """Rows are numbered within a run, so that none can hide among the digests."""
    wrong = []
    keys = [row["key"] for row in rows]
    if len(set(keys)) != len(keys):
        wrong.append("The ledger extract has a charge of this run twice.")
    if [row["body"]["number"] for row in rows] != list(range(len(rows))):
        wrong.append("Rows of this run are missing from the ledger extract, or out of order.")
    return wrong


def check_whole_ledger(
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
    except (sqlite3.Error, ValueError, RecursionError) as error:
        raise DataLensError(f"The ledger {ledger} cannot be read ({brief(error)}).") from None
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
    if own != own_rows(extract):
        return [f"The ledger {ledger.name} has other rows of this run than the extract shows."]
    return []
