"""`datalens` never unpickles, and never runs what it reads."""

import ast
import io
import pickle
from pathlib import Path

import numpy as np
import pytest

import datalens
from datalens.data import load
from datalens.errors import DataLensError
from datalens.workflows.runs import load_run

from .readers import READERS

ROOT = Path(datalens.__file__).parent
MODULES = {"pickle", "cPickle", "_pickle", "dill", "cloudpickle", "joblib", "marshal", "shelve"}
MODULES |= {"yaml", "code", "codeop"}
CALLS = {"eval", "exec", "compile", "__import__", "torch.load", "yaml.load", "np.fromstring"}
CALLS |= {"torch.jit.load", "torch.package.PackageImporter", "pandas.read_pickle"}


def found_in(source: str) -> set[str]:
    """What of the above a file imports or calls, by whatever name it was imported."""
    tree, names, bad = ast.parse(source), {}, set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                names[alias.asname or alias.name] = alias.name
        elif isinstance(node, ast.ImportFrom):
            for alias in node.names:
                names[alias.asname or alias.name] = f"{node.module}.{alias.name}"
    bad |= {name for name in names.values() if name.split(".")[0] in MODULES}
    for node in ast.walk(tree):
        if not isinstance(node, ast.Call):
            continue
        first, _, rest = ast.unparse(node.func).partition(".")
        called = ".".join(filter(None, [names.get(first, first), rest]))
        called = called.replace("numpy.", "np.")
        allowed = {word.arg: ast.unparse(word.value) for word in node.keywords}
        if called in CALLS:
            bad.add(called)
        if allowed.get("allow_pickle", "False") != "False":
            bad.add("allow_pickle")
        if called == "np.load" and allowed.get("allow_pickle") != "False":
            bad.add("np.load")  # the default has changed before
        if called in ("np.save", "np.savez") and allowed.get("allow_pickle") == "True":
            bad.add(called)
        if allowed.get("weights_only") == "False":
            bad.add("weights_only")
    return bad


@pytest.mark.parametrize("file", sorted(ROOT.rglob("*.py")), ids=lambda f: str(f.relative_to(ROOT)))
def test_nothing_of_the_kind_is_called(file: Path) -> None:
    assert not found_in(file.read_text())


@pytest.mark.parametrize(
    "source",
    [
        "import pickle",
        "from pickle import loads as read",
        "import torch as t\nt.load(f)",
        "from torch import load\nload(f)",
        "import numpy as np\nnp.load(f)",
        "import numpy\nnumpy.load(f, allow_pickle=True)",
        "np.load(f, allow_pickle=trusted)",
        "from numpy.lib.format import read_array\nread_array(f, allow_pickle=True)",
        "eval('1')",
        "import joblib",
    ],
)
def test_it_would_be_seen(source: str) -> None:
    assert found_in(source)


class Trap:
    """Leaves a file behind when it is unpickled."""

    def __init__(self, target: Path) -> None:
        self.target = str(target)

    def __reduce__(self) -> tuple[object, tuple[str, str]]:
        return open, (self.target, "w")


@pytest.fixture
def trap(tmp_path: Path) -> np.ndarray:
    """Objects that spring when unpickled: shown once, on a target of its own."""
    pickle.loads(pickle.dumps(Trap(tmp_path / "shown"))).close()  # noqa: S301
    assert (tmp_path / "shown").exists()
    trapped = np.empty((4, 8, 8), dtype=object)
    trapped[:] = Trap(tmp_path / "sprung")
    return trapped


@pytest.mark.parametrize("member", ["images", "labels", "class_names"])
def test_a_trapped_npz_does_not_spring(member: str, trap: np.ndarray, tmp_path: Path) -> None:
    arrays = {"images": np.zeros((4, 8, 8), np.uint8), "labels": np.zeros(4, int), member: trap}
    np.savez(tmp_path / "own.npz", **arrays)
    with pytest.raises(DataLensError):
        load(str(tmp_path / "own.npz"), n_classes=2)
    assert not (tmp_path / "sprung").exists()


@pytest.mark.parametrize("name", ["release", "session", "student", "teachers", "preset", "ledger"])
@pytest.mark.parametrize("form", ["npy", "pickle"])
def test_a_trap_in_place_of_a_file_does_not_spring(
    name: str, form: str, trap: np.ndarray, tmp_path: Path
) -> None:
    reader = READERS[name]
    reader.make(tmp_path)
    _put(tmp_path / reader.file, form, trap)
    with pytest.raises(DataLensError):
        reader.read(tmp_path)
    assert not (tmp_path / "sprung").exists()


@pytest.mark.parametrize("file", ["config.toml", "generator.safetensors", "certificate.json"])
@pytest.mark.parametrize("form", ["npy", "pickle"])
def test_a_trap_in_a_run_does_not_spring(
    file: str, form: str, trap: np.ndarray, tmp_path: Path
) -> None:
    READERS["sample config.toml datalens"].make(tmp_path)
    _put(tmp_path / "run" / file, form, trap)
    with pytest.raises(DataLensError):
        load_run(tmp_path / "run")
    assert not (tmp_path / "sprung").exists()


def _put(file: Path, form: str, trap: np.ndarray) -> None:
    content = io.BytesIO()
    if form == "npy":
        np.save(content, trap, allow_pickle=True)
    else:
        pickle.dump(trap.flat[0], content)
    file.write_bytes(content.getvalue())
