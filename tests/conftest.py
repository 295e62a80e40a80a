"""Every test has its own home for ledgers: none may touch the user's."""

import signal
import subprocess
import sys
from pathlib import Path

import pytest
import torch

COMPILE = """
import torch
from datalens.ensemble import Teachers, make_discriminator
torch.set_num_threads(1)
for name in ("compact", "reference"):
    teachers = Teachers(
        discriminator=make_discriminator(name, (1, 8, 8), 3),
        images=torch.zeros(2, 3, 1, 8, 8, dtype=torch.uint8),
        labels=torch.zeros(2, 3, dtype=torch.int64),
        secret=b"compile",
    )
    teachers.train(torch.zeros(2, 1, 8, 8), torch.zeros(2, dtype=torch.int64), step=0)
    teachers.gradients(torch.zeros(2, 1, 8, 8), torch.zeros(2, dtype=torch.int64))
"""


def pytest_configure(config: pytest.Config) -> None:
    """Loops are compiled once, before workers and ranks would all do it side by side.

    And Ctrl-C is heard by what tests start, also where a shell has put the tests behind a `&`.
    """
    signal.signal(signal.SIGINT, signal.default_int_handler)
    if not hasattr(config, "workerinput"):
        subprocess.run([sys.executable, "-c", COMPILE], check=True)


@pytest.fixture(autouse=True)
def own_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    home = tmp_path / "datalens-home"
    monkeypatch.setenv("DATALENS_HOME", str(home))
    return home


@pytest.fixture(autouse=True, scope="session")
def one_thread() -> None:
    """Tests run side by side; results are bit for bit only at a fixed number of threads."""
    torch.set_num_threads(1)
