"""The quickest sgemm at hand, for compiled loops to call.

PyTorch's own where its library gives it away (on x86 that is MKL's, which was up to twice as quick
on our narrow matrices), else SciPy's, which is untried beyond single products: it may use more
threads than it is told to. Both take Fortran's arguments.
"""

import ctypes

import numpy as np
from llvmlite import binding
from numba import types
from numba.extending import get_cython_function_address

from datalens.ensemble.compiling import compiled
from datalens.ensemble.native import function_of_torch

_NAME = "datalens_sgemm"


def _address() -> int | None:
    own = function_of_torch("sgemm_")
    if own is not None:
        return ctypes.cast(own, ctypes.c_void_p).value
    address: int = get_cython_function_address("scipy.linalg.cython_blas", "sgemm")
    return address


# By name and not by address, so that compiled loops can be kept on disk.
binding.add_symbol(_NAME, _address())
_sgemm = types.ExternalFunction(_NAME, types.void(*[types.voidptr] * 13))
_PLAIN, _TURNED = ord("N"), ord("T")


@compiled
def product(m, n, k, a, a_at, a_row, a_turned, b, b_at, b_row, b_turned, keep, c, c_at, c_row):
    """c (m, n) = a (m, k) @ b (k, n), or added to what c holds if ``keep`` is 1.

    All are stretches of float32 with rows ``x_row`` apart that begin at ``x_at``. A turned matrix
    is given as it lies in memory, with columns for rows.
    """
    sizes, flags, factors = np.empty(6, np.int32), np.empty(2, np.int8), np.empty(2, np.float32)
    # Fortran counts columns first: what we call rows it calls columns, and a @ b is b' @ a'.
    sizes[0], sizes[1], sizes[2], sizes[3], sizes[4], sizes[5] = n, m, k, b_row, a_row, c_row
    flags[0] = _TURNED if b_turned else _PLAIN
    flags[1] = _TURNED if a_turned else _PLAIN
    factors[0], factors[1] = 1, keep
    _sgemm(
        flags.ctypes,
        flags[1:].ctypes,
        sizes.ctypes,
        sizes[1:].ctypes,
        sizes[2:].ctypes,
        factors.ctypes,
        b[b_at:].ctypes,
        sizes[3:].ctypes,
        a[a_at:].ctypes,
        sizes[4:].ctypes,
        factors[1:].ctypes,
        c[c_at:].ctypes,
        sizes[5:].ctypes,
    )
