"""What 200 kills at random moments cost: one table.

    python benchmarks/kills.py
    python benchmarks/kills.py --kinds mixture   # one of them: they can run side by side

Runs on `digits` are killed (SIGKILL) after a time that is uniform over the length of a run, and
resumed and killed again until they end. Kills and checks are those of tests/privacy/test_kills.py:
if a charge were lost, or a key had two releases, or a run that ended did not verify, this would
fail. docs/resuming.md has the table.
"""

import argparse
import json
import random
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from datalens.workflows.bench.machine import description

sys.path.insert(0, str(Path(__file__).parents[1]))
from tests.privacy.spender import KINDS
from tests.privacy.test_kills import KILLS, SEED, kill_training

NAMES = {"mixture": "`datalens`", "votes": "`datalens` with votes", "dp-sgd": "`dpgan` (DP-SGD)"}
HEADER = "| method | kills | runs | charges | charges lost | keys with two releases |"
HEADER += " releases lost | runs that could not be resumed |\n" + "|---" * 8 + "|"


def measure(kind: str, kills: int, seed: int) -> dict[str, Any]:
    started = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        toll = kill_training(Path(folder), kind, kills, random.Random(seed))
    method, settings = KINDS[kind]
    return {
        "kind": kind,
        "method": method,
        "settings": settings,
        "data": "digits",
        "seed": seed,
        **toll._asdict(),
        "seconds": round(time.monotonic() - started, 1),
        "machine": description(),
    }


def table(found: list[dict[str, Any]]) -> str:
    """One row a kind. That no charge is lost or released twice is what `kill_training` asserts."""
    rows = [HEADER]
    for each in found:
        unit = " blocks" if each["kind"] == "dp-sgd" else ""
        rows.append(
            f"| {NAMES[each['kind']]} | {each['kills']} | {each['runs']} | {each['charges']} | 0 |"
            f" 0 | {each['lost']}{unit} | {each['ended']} |"
        )
    return "\n".join(rows) + "\n"


def read(folder: Path) -> list[dict[str, Any]]:
    """What there is by now."""
    files = [folder / f"{kind}.json" for kind in KILLS]
    return [json.loads(file.read_text()) for file in files if file.exists()]


def page(found: list[dict[str, Any]]) -> str:
    """The table, and how it was made."""
    machine = found[0]["machine"]
    made = [
        f"- {NAMES[each['kind']]}: {', '.join(f'{k} {v}' for k, v in each['settings'].items())};"
        f" {each['seconds'] / 60:.0f} minutes"
        for each in found
    ]
    return (
        f"# Kills at random moments\n\n{table(found)}\n"
        "Made by `python benchmarks/kills.py`, which says how, on the data set `digits` at epsilon"
        f" 8 and seed {found[0]['seed']}. Which instruction a kill meets depends on the machine's"
        f" speed, too: {machine['cores']} cores of an {machine['processor']}, kinds side by"
        " side and beside other work.\n\n" + "\n".join(made) + "\n"
    )


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kinds", nargs="+", choices=KILLS, default=list(KILLS))
    parser.add_argument("--seed", type=int, default=SEED)
    parser.add_argument("--out", type=Path, default=Path("docs/results/kills"))
    chosen = parser.parse_args()
    chosen.out.mkdir(parents=True, exist_ok=True)
    for kind in chosen.kinds:
        result = measure(kind, KILLS[kind], chosen.seed)
        (chosen.out / f"{kind}.json").write_text(json.dumps(result, indent=1) + "\n")
        print(json.dumps(result), flush=True)
    (chosen.out / "README.md").write_text(page(read(chosen.out)))
    print(table(read(chosen.out)))
