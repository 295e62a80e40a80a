"""Weights of public networks: a file, its names and shapes, and nothing that could run."""

import hashlib
from pathlib import Path

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file
from torch import Tensor

from datalens.errors import DataLensError

Weights = dict[str, Tensor]
LARGEST = 2**30
"""Bytes of a file that is read at all."""


def read_safetensors(path: Path) -> Weights:
    """Tensors by name. The format holds numbers and names, and no code."""
    _check(path)
    try:
        return load_file(path)
    except SafetensorError as error:
        raise DataLensError(f"{path} is no safetensors file: {error}.") from None


def read_known_pickle(path: Path, *, sha256: str) -> Weights:
    """Tensors of a PyTorch file that is known byte by byte, read without running what it says.

    Others are refused before they are opened: convert them to safetensors where they can be
    trusted.
    """
    _check(path)
    if hashlib.sha256(path.read_bytes()).hexdigest() != sha256:
        raise DataLensError(f"{path} is not the file that was published: install it again.")
    found: Weights = torch.load(path, map_location="cpu", weights_only=True)
    return found


def check_shapes(weights: Weights, expected: dict[str, tuple[int, ...]], path: Path) -> None:
    """Refuse a file that holds another network, naming the first difference."""
    for name, shape in expected.items():
        found = tuple(weights[name].shape) if name in weights else None
        if found != shape:
            raise DataLensError(
                f"{path} holds another network: {name} should be {shape}, and is {found}."
            )


def _check(path: Path) -> None:
    if not path.is_file():
        raise DataLensError(f"{path} is no file: name one that holds a network's weights.")
    if path.stat().st_size > LARGEST:
        raise DataLensError(f"{path} is too large: at most {LARGEST:,} bytes are read.")
