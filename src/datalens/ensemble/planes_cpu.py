"""Label planes that are never built: what they would add to a convolution, as a small table."""

import numpy as np

from datalens.ensemble.compiling import compiled
from datalens.ensemble.loops import KERNEL, add


@compiled
def class_planes(weight, bias, rows, columns, table):
    """What constant label planes add to a convolution, for each kind of output and each class.

    ``weight`` is (5, 5, out, classes), ``table`` (row kinds, column kinds, out, classes): a class's
    weights, summed over the taps that lie inside the image, and the bias.
    """
    kinds, others, outs, classes = table.shape
    taps = weight.reshape(KERNEL, KERNEL, outs * classes)
    across = np.empty((KERNEL, outs * classes), dtype=np.float32)
    for r in range(kinds):
        across[:] = 0
        for i in range(KERNEL):
            if rows[r, i] > 0:
                for j in range(KERNEL):
                    add(across[j], taps[i, j])
        for c in range(others):
            for o in range(outs):
                table[r, c, o] = bias[o]
            for j in range(KERNEL):
                if columns[c, j] > 0:
                    add(table[r, c].reshape(-1), across[j])


@compiled
def class_planes_back(by_table, rows, columns, weight, bias):
    """The derivative by weights and bias, from the one by the table of ``class_planes``."""
    kinds, others, outs, classes = by_table.shape
    taps = weight.reshape(KERNEL, KERNEL, outs * classes)
    across = np.empty((KERNEL, outs * classes), dtype=np.float32)
    taps[:] = 0
    bias[:] = 0
    for r in range(kinds):
        across[:] = 0
        for c in range(others):
            for o in range(outs):
                bias[o] += by_table[r, c, o].sum()
            for j in range(KERNEL):
                if columns[c, j] > 0:
                    add(across[j], by_table[r, c].reshape(-1))
        for i in range(KERNEL):
            if rows[r, i] > 0:
                for j in range(KERNEL):
                    add(taps[i, j], across[j])


@compiled
def spread_planes(table, kind, order, labels, planes):
    """The table for every column and image of a row: (row kinds, out, columns, images)."""
    kinds, _, outs, _ = table.shape
    for r in range(kinds):
        for o in range(outs):
            for x in range(len(kind)):
                target, source = planes[r, o, order[x]], table[r, kind[x], o]
                for n in range(len(labels)):
                    target[n] = source[labels[n]]


@compiled
def gather_planes(by_planes, kind, order, labels, by_table):
    """The way back of ``spread_planes``, added to ``by_table``."""
    kinds, others, outs, _ = by_table.shape
    of_kind = np.empty((others, len(labels)), dtype=np.float32)
    for r in range(kinds):
        for o in range(outs):
            of_kind[:] = 0
            for x in range(len(kind)):
                add(of_kind[kind[x]], by_planes[r, o, order[x]])
            for c in range(others):
                target, source = by_table[r, c, o], of_kind[c]
                for n in range(len(labels)):
                    target[labels[n]] += source[n]
