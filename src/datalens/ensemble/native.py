"""C functions of the libraries that PyTorch computes with on a CPU."""

import ctypes
from pathlib import Path
from typing import Any

import torch


def function_of_torch(name: str) -> Any:
    """A function of PyTorch's CPU library or of one it is linked with; None if there is none."""
    for library in (Path(torch.__file__).parent / "lib").glob("libtorch_cpu.*"):
        try:
            return getattr(ctypes.CDLL(str(library)), name)
        except (OSError, AttributeError):
            continue
    return None
