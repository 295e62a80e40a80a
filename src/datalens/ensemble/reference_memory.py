"""What a thread needs to run one reference teacher after another: sizes, places, memory."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from datalens.ensemble.layout import Layout
from datalens.ensemble.loops import KERNEL, Floats, Integers, Side, side, zeros


class Net(NamedTuple):
    """Sizes, and where in a teacher's row each parameter begins."""

    channels: int
    first: int
    second: int
    hidden: int
    classes: int
    inputs: int
    """Of the hidden layer, classes included."""
    rows1: Side
    columns1: Side
    rows2: Side
    columns2: Side
    conv1_weight: int
    conv1_labels: int
    conv1_bias: int
    conv2_weight: int
    conv2_labels: int
    conv2_bias: int
    norm2_scale: int
    norm2_shift: int
    hidden_bias: int
    norm3_scale: int
    norm3_shift: int
    out_weight: int
    out_bias: int
    hidden_weight: int


def net_of(layout: Layout, shape: tuple[int, int, int], n_classes: int) -> Net:
    channels, h, w = shape
    rows, columns = side(h), side(w)
    hidden, inputs = layout.shapes["hidden.weight"]
    places = {name.replace(".", "_"): at for name, (at, _) in layout.places.items()}
    return Net(
        channels=channels,
        first=layout.shapes["conv1.weight"][0],
        second=layout.shapes["conv2.weight"][0],
        hidden=hidden,
        classes=n_classes,
        inputs=inputs,
        rows1=rows,
        columns1=columns,
        rows2=side(rows.outputs),
        columns2=side(columns.outputs),
        **places,
    )


class Batch(NamedTuple):
    """Memory for one batch of m images on its way through the first two layers, and back."""

    which: int
    """Of the image sets, the one it shows."""
    place: int
    """Where its images stand among all."""
    planes1: Floats
    planes2: Floats
    features: Floats
    cut: Floats
    centred: Floats
    inverse: Floats
    by_second: Floats
    met: Floats
    by_first: Floats


class Memory(NamedTuple):
    """What a thread needs to run a teacher's network over some batches."""

    batches: tuple[Batch, ...]
    sums: tuple[Floats, ...]
    """The first layer's, before labels, for each set of images."""
    places: Integers
    table1: Floats
    table2: Floats
    turned1: tuple[Floats, Floats]
    turned2: tuple[Floats, Floats]
    seen: Floats
    by_seen: Floats
    z: Floats
    by_z: Floats
    last: Floats
    inverse3: Floats
    logits: Floats
    by_image: Floats
    gradient: Floats


def memory_for(net: Net, size: int, shown: Sequence[tuple[int, int]]) -> Memory:
    """For batches that show (which images, how many); ``size`` is that of a teacher's row."""

    def turned(channels: int, outs: int) -> tuple[Floats, Floats]:
        return zeros(KERNEL * channels, 3 * outs), zeros(KERNEL * channels, 2 * outs)

    rows1, columns1, rows2, columns2 = net.rows1, net.columns1, net.rows2, net.columns2
    places = np.cumsum([0, *(m for _, m in shown)])
    total = int(places[-1])
    batches = []
    for place, (which, m) in zip(places, shown, strict=False):
        w1, w2 = columns1.outputs * m, columns2.outputs * m
        batches.append(
            Batch(
                which=which,
                place=int(place),
                planes1=zeros(len(rows1.inside), net.first, columns1.outputs, m),
                planes2=zeros(len(rows2.inside), net.second, columns2.outputs, m),
                features=zeros(rows1.outputs, net.first, w1),
                cut=zeros(rows2.size, KERNEL, net.first, w2),
                centred=zeros(rows2.outputs, net.second, columns2.outputs, m),
                inverse=zeros(net.second),
                by_second=zeros(rows2.outputs, net.second, columns2.outputs, m),
                met=zeros(rows2.size, KERNEL, net.first, w2),
                by_first=zeros(rows1.outputs, net.first, w1),
            )
        )
    sizes = dict(shown)
    return Memory(
        batches=tuple(batches),
        sums=tuple(
            zeros(rows1.outputs, net.first, columns1.outputs * m) for _, m in sorted(sizes.items())
        ),
        places=places,
        table1=zeros(len(rows1.inside), len(columns1.inside), net.first, net.classes),
        table2=zeros(len(rows2.inside), len(columns2.inside), net.second, net.classes),
        turned1=turned(net.channels, net.first),
        turned2=turned(net.first, net.second),
        seen=zeros(net.inputs, total),
        by_seen=zeros(net.inputs - net.classes, total),
        z=zeros(net.hidden, total),
        by_z=zeros(net.hidden, total),
        last=zeros(net.hidden, total),
        inverse3=zeros(len(shown), net.hidden),
        logits=zeros(total),
        by_image=zeros(rows1.size, KERNEL, net.channels, columns1.outputs * shown[0][1]),
        gradient=zeros(size),
    )
