"""Synthetic images that may be published: private by proof, with a certificate anyone can check."""

import os
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"
__all__ = [
    "ClassGaussian",
    "DataLens",
    "DataLensError",
    "DataLensWarning",
    "Records",
    "TopAggOptimizer",
    "load",
    "make_private",
]

# Threads that wait by sleeping: a little slower on an idle machine, and many times faster than
# threads that spin as soon as anything else runs. Read by OpenMP when PyTorch is loaded.
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
# Without AMX: virtual machines announce it and may not have it, and then a product in bfloat16
# ends the process. Read by oneDNN when it is first used.
os.environ.setdefault("ONEDNN_MAX_CPU_ISA", "AVX512_CORE_BF16")

if TYPE_CHECKING:
    from datalens.classifiers.private import make_private
    from datalens.classifiers.topagg import TopAggOptimizer
    from datalens.data import Records, load
    from datalens.errors import DataLensError, DataLensWarning
    from datalens.synthesizers import ClassGaussian, DataLens

_HOMES = {
    "ClassGaussian": "datalens.synthesizers",
    "DataLens": "datalens.synthesizers",
    "DataLensError": "datalens.errors",
    "DataLensWarning": "datalens.errors",
    "Records": "datalens.data",
    "TopAggOptimizer": "datalens.classifiers.topagg",
    "load": "datalens.data",
    "make_private": "datalens.classifiers.private",
}


def __getattr__(name: str) -> Any:
    """Import on first use: `datalens verify` and `--help` need not wait for PyTorch."""
    if name not in _HOMES:
        raise AttributeError(f"module 'datalens' has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(_HOMES[name]), name)
