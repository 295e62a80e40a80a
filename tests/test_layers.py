"""The folder tree reads like the algorithm: a folder imports only from those before it."""

import ast
from pathlib import Path

import pytest

import datalens

ORDER = [
    "data",
    "ensemble",
    "mechanism",
    "privacy",
    "student",
    "classifiers",
    "synthesizers",
    "planning",
    "utility",
    "workflows",
]
ROOT = Path(datalens.__file__).parent


def imported_layers(source: str) -> set[str]:
    names = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.ImportFrom) and node.module:
            names.add(node.module)
        elif isinstance(node, ast.Import):
            names.update(alias.name for alias in node.names)
    return {n.split(".")[1] for n in names if n.startswith("datalens.")} & set(ORDER)


def forbidden(layer: str) -> set[str]:
    return set(ORDER[ORDER.index(layer) + 1 :])


@pytest.mark.parametrize("layer", ORDER)
def test_layer_imports_only_from_earlier_ones(layer: str) -> None:
    for file in (ROOT / layer).rglob("*.py"):
        assert not imported_layers(file.read_text()) & forbidden(layer), file


def test_a_backward_import_would_be_seen() -> None:
    assert imported_layers("from datalens.workflows.cli import main") & forbidden("data")


def test_privacy_arithmetic_is_free_of_torch() -> None:
    for file in (ROOT / "privacy").rglob("*.py"):
        assert "import torch" not in file.read_text(), file
