"""Convolutions that halve images until the compact discriminator's hidden layer can read them."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from datalens.ensemble import compact_cpu, loops
from datalens.ensemble.adam_cpu import adam, adam_packed
from datalens.ensemble.blas import product
from datalens.ensemble.compact_cpu import Net
from datalens.ensemble.compiling import compiled
from datalens.ensemble.convolutions_cpu import convolve, to_kernel, turn, unconvolve
from datalens.ensemble.layout import Layout
from datalens.ensemble.loops import KERNEL, SLOPE, Floats, Integers, Side, side, zeros


class Layer(NamedTuple):
    """One convolution: its sides, and where its parameters begin."""

    rows: Side
    columns: Side
    kind: Integers
    """Zeros: every row has the same bias."""
    channels: int
    outs: int
    kernel: int
    bias: int


class Stage(NamedTuple):
    """Memory of one layer for one set of images."""

    cut: Floats
    """What the layer reads; the first one reads the images instead."""
    x: Floats
    features: Floats
    planes: Floats
    by_x: Floats
    met: Floats
    even: Floats
    odd: Floats


def layers_of(layout: Layout, shape: tuple[int, int, int]) -> tuple[Layer, ...]:
    _, h, w = shape
    found: list[Layer] = []
    while (name := f"conv{len(found) + 1}") + ".weight" in layout.shapes:
        outs, _, _, channels = layout.shapes[f"{name}.weight"]
        rows, columns = side(h), side(w)
        found.append(
            Layer(
                rows=rows,
                columns=columns,
                kind=np.zeros(rows.outputs, dtype=np.int64),
                channels=channels,
                outs=outs,
                kernel=layout.places[f"{name}.weight"][0],
                bias=layout.places[f"{name}.bias"][0],
            )
        )
        h, w = rows.outputs, columns.outputs
    return tuple(found)


def stages_for(layers: Sequence[Layer], m: int) -> tuple[Stage, ...]:
    """For ``m`` images."""
    return tuple(
        Stage(
            cut=zeros(layer.rows.size, KERNEL, layer.channels, layer.columns.outputs * m),
            x=zeros(layer.rows.outputs, layer.outs, layer.columns.outputs * m),
            features=zeros(layer.rows.outputs, layer.outs, layer.columns.outputs * m),
            planes=zeros(1, layer.outs, layer.columns.outputs, m),
            by_x=zeros(layer.rows.outputs, layer.outs, layer.columns.outputs * m),
            met=zeros(layer.rows.size, KERNEL, layer.channels, layer.columns.outputs * m),
            even=zeros(KERNEL * layer.channels, 3 * layer.outs),
            odd=zeros(KERNEL * layer.channels, 2 * layer.outs),
        )
        for layer in layers
    )


def tower_for(net: Net, layers: Sequence[Layer], m: int) -> tuple[tuple[Stage, ...], tuple[Floats]]:
    """The stages for ``m`` images, and the top as the hidden layer reads it, (1, inputs, m)."""
    stages = stages_for(layers, m)
    return stages, (stages[-1].features.reshape(1, net.inputs, m),)


def first_order(layers: Sequence[Layer]) -> Integers:
    """In which order the first layer's outputs stand: split, if another layer reads them.

    That of the others is natural, which is slower for a layer that follows, and rare.
    """
    columns = layers[0].columns
    return columns.order if len(layers) > 1 else np.arange(columns.outputs)


def cut(images: Floats, layers: Sequence[Layer]) -> Floats:
    """Images (teachers, h, c, w, m) as the first layer reads them."""
    teachers, h, channels, _, m = images.shape
    columns = layers[0].columns
    found = zeros(teachers, h, KERNEL, channels, columns.outputs, m)
    for own, target in zip(images, found, strict=True):
        loops.cut_images(own, np.float32(1), first_order(layers), columns.before, target)
    return found.reshape(teachers, h, KERNEL, channels, -1)


@compiled
def add_slopes(net, memory, layers, tower, images, labels, real, weight, p, gradient):
    """Add what some images say to each teacher's ``gradient``; see ``compact_cpu.learn``.

    ``images`` are (teachers or 1, h, 5, c, width). There and back for one teacher after another, so
    that what lies between layers is still in the cache when the way back needs it.
    """
    stages, top = tower
    g = memory.gradient
    for t in range(len(p)):
        own = images[min(t, len(images) - 1)]
        climb(layers, stages, own, p[t])
        compact_cpu.forward(net, memory, top, 0, labels[t], p[t])
        slope = (loops.sigmoid(memory.logits) - real) * weight
        compact_cpu.to_hidden(net, memory, labels[t], p[t], slope, g)
        compact_cpu.to_weight(net, memory, top, 0, g)
        for layer in layers:
            g[layer.kernel : layer.kernel + layer.outs * layer.channels * KERNEL * KERNEL] = 0
            g[layer.bias : layer.bias + layer.outs] = 0
        to_tower(net, memory, stages, p[t])
        descend(layers, stages, own, p[t], g)
        loops.add(gradient[t], g)


@compiled
def step(p, gradient, m, v, constants, packed):
    """Each teacher down its gradient: rows of ``p``, ``m`` and ``v`` change."""
    for t in range(len(p)):
        if packed:
            adam_packed(p[t], gradient[t], m[t], v[t], constants)
        else:
            adam(p[t], gradient[t], m[t], v[t], constants)


@compiled
def realism(net, memory, layers, tower, images, order, labels, p, by_images):
    """d log D(x) / dx of some images, (teachers, h, c, w, m)."""
    stages, top = tower
    spare = np.zeros_like(memory.gradient)
    first, stage = layers[0], stages[0]
    for t in range(len(p)):
        climb(layers, stages, images[0], p[t])
        compact_cpu.forward(net, memory, top, 0, labels, p[t])
        slope = loops.sigmoid(-memory.logits)
        compact_cpu.to_hidden(net, memory, labels, p[t], slope, spare)
        to_tower(net, memory, stages, p[t])
        descend(layers, stages, images[0], p[t], spare)
        turn(p[t], first.kernel, first.channels, first.outs, (stage.even, stage.odd))
        unconvolve(stage.by_x, first.rows, (stage.even, stage.odd), stage.met)
        h, _, channels, _ = stage.met.shape
        met = stage.met.reshape(h, KERNEL, channels, first.columns.outputs, len(labels))
        loops.uncut_images(met, order, first.columns.before, by_images[t])


@compiled
def answers(net, memory, layers, tower, images, labels, p, logits):
    """Those to some images, (teachers, images)."""
    stages, top = tower
    for t in range(len(p)):
        climb(layers, stages, images[0], p[t])
        compact_cpu.forward(net, memory, top, 0, labels, p[t])
        logits[t] = memory.logits


@compiled
def climb(layers, stages, images, p):
    for n in range(len(layers)):
        layer, stage = layers[n], stages[n]
        convolve(images if n == 0 else stage.cut, layer.rows, p, layer.kernel, stage.x)
        for k in range(layer.outs):
            stage.planes[0, k] = p[layer.bias + k]
        m = stage.planes.shape[3]
        if n + 1 < len(layers):
            above = layers[n + 1].columns.taps
            target = stages[n + 1].cut
            loops.rectify_and_cut(
                stage.x, stage.planes, layer.kind, above, m, n == 0, stage.features, target
            )
        else:
            rectify(stage.x, stage.planes, stage.features)


@compiled
def rectify(x, planes, features):
    rows, outs, width = x.shape
    flat = planes.reshape(outs, width)
    for y in range(rows):
        for k in range(outs):
            target, source, plane = features[y, k], x[y, k], flat[k]
            for n in range(width):
                v = source[n] + plane[n]
                target[n] = v if v > 0 else SLOPE * v


@compiled
def to_tower(net, memory, stages, p):
    """From the hidden layer back to the top of the tower."""
    top = stages[len(stages) - 1]
    count = top.planes.shape[3]
    product(
        net.inputs, count, net.hidden,
        p, net.hidden_weight, net.inputs, True,
        memory.by_z.reshape(-1), 0, count, False,
        0, top.by_x.reshape(-1), 0, count,
    )  # fmt: skip
    rows, outs, width = top.by_x.shape
    flat = top.planes.reshape(outs, width)
    flat[:] = 0
    for y in range(rows):
        for k in range(outs):
            slope, feature, plane = top.by_x[y, k], top.features[y, k], flat[k]
            for n in range(width):
                v = slope[n] if feature[n] > 0 else SLOPE * slope[n]
                slope[n] = v
                plane[n] += v


@compiled
def descend(layers, stages, images, p, g):
    """Down to the first layer's sums; the derivatives by kernels and biases are added to ``g``."""
    for n in range(len(layers) - 1, -1, -1):
        layer, stage = layers[n], stages[n]
        to_kernel(images if n == 0 else stage.cut, layer.rows, stage.by_x, g, layer.kernel)
        for k in range(layer.outs):
            g[layer.bias + k] += stage.planes[0, k].sum()
        if n > 0:
            below = stages[n - 1]
            turn(p, layer.kernel, layer.channels, layer.outs, (stage.even, stage.odd))
            unconvolve(stage.by_x, layer.rows, (stage.even, stage.odd), stage.met)
            loops.uncut_and_unrectify(
                stage.met,
                below.features,
                layers[n - 1].kind,
                layer.columns.taps,
                stage.planes.shape[3],
                n == 1,
                below.by_x,
                below.planes,
            )
