"""The compact discriminator on a CPU: one compiled call a block.

Larger images are convolved first: see ``tower_cpu``.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from datalens.ensemble import loops
from datalens.ensemble.adam_cpu import adam, adam_packed
from datalens.ensemble.blas import product
from datalens.ensemble.compiling import compiled
from datalens.ensemble.layout import Layout
from datalens.ensemble.loops import SLOPE, Floats, Integers


class Net(NamedTuple):
    """Sizes, and where in a teacher's row each parameter begins."""

    hidden: int
    inputs: int
    classes: int
    hidden_weight: int
    hidden_bias: int
    head_weight: int
    head_bias: int


class Memory(NamedTuple):
    """What a thread needs to run a teacher's network over some batches."""

    source: Integers
    """(images shown,): where each stands among the distinct images."""
    z: Floats
    """(units, distinct images): the hidden layer, rectified."""
    by_z: Floats
    logits: Floats
    gradient: Floats


def net_of(layout: Layout) -> Net:
    hidden, inputs = layout.shapes["hidden.weight"]
    classes = layout.shapes["head.weight"][1]
    places = {name.replace(".", "_"): at for name, (at, _) in layout.places.items()}
    own = {name: at for name, at in places.items() if name in Net._fields}
    return Net(hidden=hidden, inputs=inputs, classes=classes, **own)


def memory_for(net: Net, size: int, sizes: Sequence[int], which: Sequence[int]) -> Memory:
    """For sets of images of these sizes, and batches that show ``which`` of them."""
    begins = np.cumsum([0, *sizes])
    source = np.concatenate([np.arange(begins[n], begins[n + 1]) for n in which])
    total = int(begins[-1])
    return Memory(
        source=source,
        z=loops.zeros(net.hidden, total),
        by_z=loops.zeros(net.hidden, total),
        logits=loops.zeros(len(source)),
        gradient=loops.zeros(size),
    )


@compiled
def learn(net, memory, images, labels, real, weight, p, m, v, constants, packed):
    """One update of each teacher of a block: rows of ``p``, ``m`` and ``v`` change.

    Each of the ``images`` is (teachers or 1, inputs, images), ``labels`` (teachers, images shown).
    An image that is ``real`` (1) should have a high logit, one that is not (0) a low one, and
    counts with its ``weight``.
    """
    g = memory.gradient
    for t in range(len(p)):
        forward(net, memory, images, t, labels[t], p[t])
        slope = (loops.sigmoid(memory.logits) - real) * weight
        to_hidden(net, memory, labels[t], p[t], slope, g)
        to_weight(net, memory, images, t, g)
        if packed:
            adam_packed(p[t], g, m[t], v[t], constants)
        else:
            adam(p[t], g, m[t], v[t], constants)


@compiled
def to_weight(net, memory, images, t, g):
    """The derivative by the hidden layer's weights, to ``g``."""
    begin = 0
    total = memory.z.shape[1]
    for which in range(len(images)):
        own = images[which][min(t, len(images[which]) - 1)]
        count = own.shape[1]
        product(
            net.hidden, net.inputs, count,
            memory.by_z.reshape(-1), begin, total, False,
            own.reshape(-1), 0, count, True,
            0 if which == 0 else 1, g, net.hidden_weight, net.inputs,
        )  # fmt: skip
        begin += count


@compiled
def realism(net, memory, images, labels, p, by_images):
    """d log D(x) / dx of one batch, (teachers, inputs, images)."""
    count = len(labels)
    spare = np.empty_like(memory.gradient)
    for t in range(len(p)):
        forward(net, memory, images, t, labels, p[t])
        to_hidden(net, memory, labels, p[t], loops.sigmoid(-memory.logits), spare)
        product(
            net.inputs, count, net.hidden,
            p[t], net.hidden_weight, net.inputs, True,
            memory.by_z.reshape(-1), 0, count, False,
            0, by_images[t].reshape(-1), 0, count,
        )  # fmt: skip


@compiled
def answers(net, memory, images, labels, p, logits):
    """Those of one batch, (teachers, images)."""
    for t in range(len(p)):
        forward(net, memory, images, t, labels, p[t])
        logits[t] = memory.logits


@compiled
def forward(net, memory, images, t, labels, p):
    """All logits of teacher ``t``."""
    begin = 0
    total = memory.z.shape[1]
    for which in range(len(images)):
        own = images[which][min(t, len(images[which]) - 1)]
        count = own.shape[1]
        product(
            net.hidden, count, net.inputs,
            p, net.hidden_weight, net.inputs, False,
            own.reshape(-1), 0, count, False,
            0, memory.z.reshape(-1), begin, total,
        )  # fmt: skip
        begin += count
    for k in range(net.hidden):
        row, bias = memory.z[k], p[net.hidden_bias + k]
        for n in range(total):
            x = row[n] + bias
            row[n] = x if x > 0 else SLOPE * x
    for n in range(len(labels)):
        memory.logits[n] = p[net.head_bias + labels[n]]
    for k in range(net.hidden):
        row, head = memory.z[k], p[net.head_weight + k * net.classes :]
        for n in range(len(labels)):
            memory.logits[n] += row[memory.source[n]] * head[labels[n]]


@compiled
def to_hidden(net, memory, labels, p, slope, g):
    """Back to the hidden layer's sums, ``by_z``; what belongs to head and biases goes to ``g``."""
    by_head = g[net.head_weight : net.head_weight + net.hidden * net.classes]
    by_bias = g[net.head_bias : net.head_bias + net.classes]
    by_head[:] = 0
    by_bias[:] = 0
    for n in range(len(labels)):
        by_bias[labels[n]] += slope[n]
    for k in range(net.hidden):
        row, unit, head = memory.by_z[k], memory.z[k], p[net.head_weight + k * net.classes :]
        own = by_head[k * net.classes :]
        row[:] = 0
        for n in range(len(labels)):
            at = memory.source[n]
            row[at] += slope[n] * head[labels[n]]
            own[labels[n]] += slope[n] * unit[at]
        total = np.float32(0)
        for n in range(len(row)):
            x = row[n] if unit[n] > 0 else SLOPE * row[n]
            row[n] = x
            total += x
        g[net.hidden_bias + k] = total
