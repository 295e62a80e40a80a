"""The reference discriminator on a CPU: a teacher's whole update is one compiled call.

One teacher at a time, so that its activations stay in the cache; all memory but the weights' is
used again for the next one. Nothing here holds Python's lock, so that threads run side by side.
"""

from typing import Any

import numpy as np

from datalens.ensemble import loops
from datalens.ensemble.adam_cpu import adam, adam_packed
from datalens.ensemble.blas import product
from datalens.ensemble.compiling import compiled
from datalens.ensemble.convolutions_cpu import convolve, to_kernel, turn, unconvolve
from datalens.ensemble.loops import KERNEL, Floats, side, zeros
from datalens.ensemble.planes_cpu import (
    class_planes,
    class_planes_back,
    gather_planes,
    spread_planes,
)


def cut(images: Any, scale: float) -> Floats:
    """Images (h, c, w, m), divided by ``scale``, as the first layer reads them."""
    h, channels, w, m = images.shape
    columns = side(w)
    found = zeros(h, KERNEL, channels, columns.outputs, m)
    loops.cut_images(images, np.float32(scale), columns.order, columns.before, found)
    return found.reshape(h, KERNEL, channels, columns.outputs * m)


@compiled
def learn(net, memory, images, labels, real, weight, p, m, v, constants, packed):
    """One update of one teacher: its weights ``p`` and moments ``m`` and ``v`` change.

    An image that is ``real`` (1) should have a high logit, one that is not (0) a low one, and
    counts with its ``weight``.
    """
    forward(net, memory, images, labels, p)
    slope = (loops.sigmoid(memory.logits) - real) * weight
    to_parameters(net, memory, images, labels, p, slope, memory.gradient)
    if packed:
        adam_packed(p, memory.gradient, m, v, constants)
    else:
        adam(p, memory.gradient, m, v, constants)


@compiled
def realism(net, memory, images, labels, p, by_images):
    """d log D(x) / dx of one batch, (h, c, w, m)."""
    forward(net, memory, images, labels, p)
    to_images(net, memory, labels, p, loops.sigmoid(-memory.logits), by_images)


@compiled
def forward(net, memory, images, labels, p):
    """All logits. ``images`` are sets of them, as ``cut`` makes them."""
    n1, n2 = net.first * net.classes * 25, net.second * net.classes * 25
    nothing = np.zeros(net.second, dtype=np.float32)
    class_planes(
        p[net.conv1_labels : net.conv1_labels + n1],
        p[net.conv1_bias : net.conv1_bias + net.first],
        net.rows1.inside,
        net.columns1.inside,
        memory.table1,
    )
    class_planes(
        p[net.conv2_labels : net.conv2_labels + n2],
        nothing,
        net.rows2.inside,
        net.columns2.inside,
        memory.table2,
    )
    for which in range(len(images)):
        convolve(images[which], net.rows1, p, net.conv1_weight, memory.sums[which])
    natural = np.arange(net.columns2.outputs)
    flat = net.inputs - net.classes
    seen = memory.seen[:flat].reshape(
        net.rows2.outputs, net.second, net.columns2.outputs, len(labels)
    )
    for batch in memory.batches:
        m = batch.planes1.shape[3]
        own = labels[batch.place : batch.place + m]
        spread_planes(memory.table1, net.columns1.kind, net.columns1.order, own, batch.planes1)
        loops.rectify_and_cut(
            memory.sums[batch.which],
            batch.planes1,
            net.rows1.kind,
            net.columns2.taps,
            m,
            True,
            batch.features,
            batch.cut,
        )
        rows, outs, w, _ = batch.centred.shape
        convolve(
            batch.cut, net.rows2, p, net.conv2_weight, batch.centred.reshape(rows, outs, w * m)
        )
        spread_planes(memory.table2, net.columns2.kind, natural, own, batch.planes2)
        loops.normalise(
            batch.centred,
            batch.planes2,
            net.rows2.kind,
            p[net.norm2_scale : net.norm2_scale + net.second],
            p[net.norm2_shift : net.norm2_shift + net.second],
            batch.inverse,
            seen,
            batch.place,
        )
    onehot = memory.seen[flat:]
    onehot[:] = 0
    for n in range(len(labels)):
        onehot[labels[n], n] = 1
    total = len(labels)
    product(
        net.hidden, total, net.inputs,
        p, net.hidden_weight, net.inputs, False,
        memory.seen.reshape(-1), 0, total, False,
        0, memory.z.reshape(-1), 0, total,
    )  # fmt: skip
    loops.decide(
        memory.z,
        memory.places,
        labels,
        p[net.norm3_scale : net.norm3_scale + net.hidden],
        p[net.norm3_shift : net.norm3_shift + net.hidden],
        p[net.out_weight : net.out_weight + net.hidden + net.classes],
        p[net.out_bias],
        memory.inverse3,
        memory.last,
        memory.logits,
    )


@compiled
def to_parameters(net, memory, images, labels, p, slope, g):
    """The derivative by all parameters, from the one by the logits, into the row ``g``.

    It is zero for the biases in front of a batch norm, and for the gaps: nothing is written there.
    """
    total = len(labels)
    by_scale3 = g[net.norm3_scale : net.norm3_scale + net.hidden]
    by_shift3 = g[net.norm3_shift : net.norm3_shift + net.hidden]
    by_out = g[net.out_weight : net.out_weight + net.hidden + net.classes]
    g[net.out_bias] = slope.sum()
    to_hidden(net, memory, labels, p, slope, by_scale3, by_shift3, by_out)
    product(
        net.hidden, net.inputs, total,
        memory.by_z.reshape(-1), 0, total, False,
        memory.seen.reshape(-1), 0, total, True,
        0, g, net.hidden_weight, net.inputs,
    )  # fmt: skip

    by_scale2 = g[net.norm2_scale : net.norm2_scale + net.second]
    by_shift2 = g[net.norm2_shift : net.norm2_shift + net.second]
    by_scale2[:] = 0
    by_shift2[:] = 0
    n1, n2 = net.first * net.classes * 25, net.second * net.classes * 25
    g[net.conv1_weight : net.conv1_weight + net.first * net.channels * 25] = 0
    g[net.conv2_weight : net.conv2_weight + net.second * net.first * 25] = 0
    memory.table1[:] = 0
    memory.table2[:] = 0
    turn(p, net.conv2_weight, net.first, net.second, memory.turned2)
    natural = np.arange(net.columns2.outputs)
    for batch in memory.batches:
        m = batch.planes1.shape[3]
        to_first(net, memory, labels, batch, p, by_scale2, by_shift2)
        own = labels[batch.place : batch.place + m]
        gather_planes(batch.planes1, net.columns1.kind, net.columns1.order, own, memory.table1)
        gather_planes(batch.planes2, net.columns2.kind, natural, own, memory.table2)
        rows, outs, w, _ = batch.by_second.shape
        by_second = batch.by_second.reshape(rows, outs, w * m)
        to_kernel(batch.cut, net.rows2, by_second, g, net.conv2_weight)
        to_kernel(images[batch.which], net.rows1, batch.by_first, g, net.conv1_weight)
    class_planes_back(
        memory.table1,
        net.rows1.inside,
        net.columns1.inside,
        g[net.conv1_labels : net.conv1_labels + n1],
        g[net.conv1_bias : net.conv1_bias + net.first],
    )
    class_planes_back(
        memory.table2,
        net.rows2.inside,
        net.columns2.inside,
        g[net.conv2_labels : net.conv2_labels + n2],
        np.empty(net.second, dtype=np.float32),
    )


@compiled
def to_images(net, memory, labels, p, slope, by_images):
    """The derivative by the images of the only batch, (h, c, w, m)."""
    spare = np.empty((3, net.hidden + net.classes), dtype=np.float32)
    to_hidden(
        net, memory, labels, p, slope, spare[0][: net.hidden], spare[1][: net.hidden], spare[2]
    )
    turn(p, net.conv2_weight, net.first, net.second, memory.turned2)
    turn(p, net.conv1_weight, net.channels, net.first, memory.turned1)
    batch = memory.batches[0]
    by_norm = np.zeros((2, net.second), dtype=np.float32)
    to_first(net, memory, labels, batch, p, by_norm[0], by_norm[1])
    unconvolve(batch.by_first, net.rows1, memory.turned1, memory.by_image)
    h, _, channels, _ = memory.by_image.shape
    loops.uncut_images(
        memory.by_image.reshape(h, KERNEL, channels, net.columns1.outputs, len(labels)),
        net.columns1.order,
        net.columns1.before,
        by_images,
    )


@compiled
def to_hidden(net, memory, labels, p, slope, by_scale, by_shift, by_out):
    """Back to the second layer's result, ``by_seen``."""
    total = len(labels)
    loops.decide_back(
        slope,
        memory.z,
        memory.places,
        labels,
        p[net.norm3_scale : net.norm3_scale + net.hidden],
        p[net.out_weight : net.out_weight + net.hidden + net.classes],
        memory.inverse3,
        memory.last,
        memory.by_z,
        by_scale,
        by_shift,
        by_out,
    )
    product(
        net.inputs - net.classes, total, net.hidden,
        p, net.hidden_weight, net.inputs, True,
        memory.by_z.reshape(-1), 0, total, False,
        0, memory.by_seen.reshape(-1), 0, total,
    )  # fmt: skip


@compiled
def to_first(net, memory, labels, batch, p, by_scale, by_shift):
    """Back through the second layer to the first one's sums, and to both layers' label planes."""
    m = batch.planes1.shape[3]
    size = (net.rows2.outputs, net.second, net.columns2.outputs, len(labels))
    loops.normalise_back(
        memory.by_seen.reshape(size),
        memory.seen[: net.inputs - net.classes].reshape(size),
        batch.place,
        batch.centred,
        batch.inverse,
        p[net.norm2_scale : net.norm2_scale + net.second],
        net.rows2.kind,
        batch.by_second,
        batch.planes2,
        by_scale,
        by_shift,
    )
    rows, outs, w, _ = batch.by_second.shape
    unconvolve(batch.by_second.reshape(rows, outs, w * m), net.rows2, memory.turned2, batch.met)
    loops.uncut_and_unrectify(
        batch.met,
        batch.features,
        net.rows1.kind,
        net.columns2.taps,
        m,
        True,
        batch.by_first,
        batch.planes1,
    )
