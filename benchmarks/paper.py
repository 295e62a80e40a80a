"""The paper's own setting to the end of its budget: minutes and peak memory, one line of JSON.

    python benchmarks/paper.py --dataset mnist --epsilon 1 --out docs/results/speed/paper-mnist.json

Runs `datalens fit DATASET --preset paper` in a process and a ledger of its own: 4,000 reference
teachers, half an hour on two cores, 18 GiB.
"""

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from datalens.workflows.bench.machine import description


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--dataset", default="mnist")
    parser.add_argument("--epsilon", default="1")
    parser.add_argument("--out", type=Path)
    given = parser.parse_args()
    words = ["fit", given.dataset, "--preset", "paper", "--epsilon", given.epsilon, "--json"]
    with tempfile.TemporaryDirectory() as folder:
        environment = os.environ | {"DATALENS_HOME": f"{folder}/home"}
        command = [sys.executable, "-m", "datalens", *words, "--out", f"{folder}/run"]
        started = time.monotonic()
        done = subprocess.run(command, env=environment, stdout=subprocess.PIPE, check=True)
    fitted = json.loads(done.stdout)
    found = {
        "command": " ".join(["datalens", *words]),
        "minutes": round((time.monotonic() - started) / 60, 1),
        "peak_gib": round(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 2**20, 2),
        "fit": {key: fitted[key] for key in ("epsilon", "releases", "steps", "teachers")},
        "machine": description(),
    }
    print(json.dumps(found, indent=1))
    if given.out is not None:
        given.out.write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main()
