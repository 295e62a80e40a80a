"""Adam's step over a stretch of weights, compiled."""

import numpy as np

from datalens.ensemble.compiling import compiled

CHUNK = 1024
"""Moments unpacked at a time."""


@compiled
def adam(p, g, m, v, constants):
    """One step of Adam. ``rate`` and ``root`` carry the corrections for the first steps."""
    beta1, beta2, rate, root, epsilon, _ = constants
    rest1, rest2 = np.float32(1) - beta1, np.float32(1) - beta2
    for i in range(len(p)):
        first = m[i] * beta1 + g[i] * rest1
        second = v[i] * beta2 + g[i] * g[i] * rest2
        m[i] = first
        v[i] = second
        p[i] -= rate * first / (np.sqrt(second) * root + epsilon)


@compiled
def adam_packed(p, g, m, v, constants):
    """The same with moments in bfloat16, given as int16, that are rounded by chance.

    A float32 becomes one of its two neighbours, the nearer the likelier: what decides is a hash of
    the second moment and of ``key``, so that it belongs to the teacher and needs no memory.
    """
    beta1, beta2, rate, root, epsilon, key = constants
    rest1, rest2 = np.float32(1) - beta1, np.float32(1) - beta2
    half, low = np.int32(16), np.int32(0xFFFF)
    m32, v32 = np.empty(CHUNK, dtype=np.float32), np.empty(CHUNK, dtype=np.float32)
    m_bits, v_bits = m32.view(np.int32), v32.view(np.int32)
    for begin in range(0, len(p), CHUNK):
        end = min(begin + CHUNK, len(p))
        p_, g_, m_, v_ = p[begin:end], g[begin:end], m[begin:end], v[begin:end]
        for i in range(end - begin):
            m_bits[i] = np.int32(m_[i]) << half
            v_bits[i] = np.int32(v_[i]) << half
        for i in range(end - begin):
            first = m32[i] * beta1 + g_[i] * rest1
            second = v32[i] * beta2 + g_[i] * g_[i] * rest2
            m32[i] = first
            v32[i] = second
            p_[i] -= rate * first / (np.sqrt(second) * root + epsilon)
        for i in range(end - begin):
            dice = (np.int32((v_bits[i] ^ key) * np.int32(0x2C1B3C6D)) >> half) & low
            m_[i] = np.int16((m_bits[i] + dice) >> half)
            v_[i] = np.int16((v_bits[i] + dice) >> half)
