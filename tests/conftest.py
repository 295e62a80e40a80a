"""Every test has its own home for ledgers: none may touch the user's."""

from pathlib import Path

import pytest
import torch


@pytest.fixture(autouse=True)
def own_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    home = tmp_path / "datalens-home"
    monkeypatch.setenv("DATALENS_HOME", str(home))
    return home


@pytest.fixture(autouse=True, scope="session")
def one_thread() -> None:
    """Tests run side by side; results are bit for bit only at a fixed number of threads."""
    torch.set_num_threads(1)
