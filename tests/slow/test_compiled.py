"""Compiled loops give the same bits when compiled and when loaded from disk."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

PROGRAM = """
import hashlib, torch
from datalens.ensemble import Teachers, make_discriminator
torch.set_num_threads(1)
for name in ("reference", "compact"):
    g = torch.Generator().manual_seed(0)
    teachers = Teachers(
        discriminator=make_discriminator(name, (1, 28, 28), 10),
        images=torch.randint(0, 256, (4, 15, 1, 28, 28), dtype=torch.uint8, generator=g),
        labels=torch.randint(0, 10, (4, 15), generator=g),
        secret=b"x",
    )
    x, y = torch.rand(13, 1, 28, 28, generator=g), torch.randint(0, 10, (13,), generator=g)
    for step in range(3):
        teachers.train(x, y, step=step, updates=2)
    said = torch.cat([part for _, part in teachers.gradients(x, y)])
    for tensor in (teachers.adam.weights, said):
        print(hashlib.sha256(tensor.numpy().tobytes()).hexdigest())
"""


@pytest.mark.slow
def test_compiling_changes_no_bit(tmp_path: Path) -> None:
    def run() -> str:
        environment = os.environ | {"NUMBA_CACHE_DIR": str(tmp_path)}
        done = subprocess.run(
            [sys.executable, "-c", PROGRAM],
            env=environment,
            capture_output=True,
            text=True,
            check=True,
        )
        return done.stdout

    cold = run()
    assert len(cold.split()) == 4
    assert run() == cold
