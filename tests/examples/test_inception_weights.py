"""Weights that torch hub has fetched become a file that `datalens evaluate --features` reads."""

import hashlib
import importlib.util
import pickle
import sys
from pathlib import Path
from types import ModuleType

import pytest
import torch

from datalens.utility.inception import Inception

FILE = Path(__file__).parents[2] / "examples" / "inception_weights.py"


@pytest.fixture
def script(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """With a torch hub of its own, and out of reach of the network."""
    spec = importlib.util.spec_from_file_location("inception_weights", FILE)
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    monkeypatch.setattr(torch.hub, "get_dir", lambda: str(tmp_path / "hub"))

    def fetch(url: str, target: str, hash_prefix: str) -> None:
        raise OSError("no network")

    monkeypatch.setattr(torch.hub, "download_url_to_file", fetch)
    monkeypatch.setattr(sys, "argv", ["inception_weights", str(tmp_path / "out.safetensors")])
    return module


def put(module: ModuleType, folder: Path, file: Path, *, honest: bool = True) -> Path:
    """A file in torch hub's folder, under the name that its content would have."""
    digest = hashlib.sha256(file.read_bytes()).hexdigest()[:8] if honest else "0" * 8
    module.NAME = f"pt_inception-2015-12-05-{digest}.pth"
    (folder / "hub" / "checkpoints").mkdir(parents=True)
    return file.rename(folder / "hub" / "checkpoints" / module.NAME)


def test_what_the_hub_has_becomes_a_file_without_pickles(
    script: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Layers as they are named there; that all of Inception-v3 is read, test_inception.py shows."""
    given = {"Conv2d_1a_3x3.conv.weight": torch.rand(4, 3).T, "fc.bias": torch.rand(1008)}
    torch.save(given, tmp_path / "saved")
    put(script, tmp_path, tmp_path / "saved")
    script.main()
    monkeypatch.setattr(Inception, "__init__", lambda self, weights: vars(self).update(weights))
    read = vars(Inception.read(tmp_path / "out.safetensors"))
    assert {name: torch.equal(read[name], weight) for name, weight in given.items()} == {
        name: True for name in given
    }


def test_another_file_under_that_name_is_not_opened(script: ModuleType, tmp_path: Path) -> None:
    torch.save({"fc.bias": torch.zeros(1)}, tmp_path / "saved")
    put(script, tmp_path, tmp_path / "saved", honest=False)
    with pytest.raises(SystemExit, match="is not the published file"):
        script.main()
    assert not (tmp_path / "out.safetensors").exists()


def test_a_trap_does_not_spring_whatever_its_digest(script: ModuleType, tmp_path: Path) -> None:
    class Trap:
        def __reduce__(self) -> tuple[object, tuple[str, str]]:
            return open, (str(tmp_path / "sprung"), "w")

    (tmp_path / "saved").write_bytes(pickle.dumps(Trap(), protocol=2))
    put(script, tmp_path, tmp_path / "saved")
    with pytest.raises(pickle.UnpicklingError):
        script.main()
    assert not (tmp_path / "sprung").exists() and not (tmp_path / "out.safetensors").exists()


def test_out_of_reach_it_says_where_to_put_the_file(script: ModuleType, tmp_path: Path) -> None:
    with pytest.raises(SystemExit, match=r"no network.*put it at .*checkpoints/pt_inception"):
        script.main()
