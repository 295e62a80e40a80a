"""Data sets are looked for where a test puts them, and nowhere else."""

from pathlib import Path

import pytest


@pytest.fixture
def empty_machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """No cache and no system data sets; returns where the cache would be."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.delenv("DATALENS_DATA", raising=False)
    monkeypatch.setattr("datalens.data.whereabouts._DEBIAN", tmp_path / "debian")
    return tmp_path / "cache" / "datalens"
