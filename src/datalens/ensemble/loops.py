"""Loops over memory, compiled: what lies between one matrix product and the next.

An activation is (height, channels, width * images), one batch of one teacher. The columns of an
image's row stand in *split order*, even ones first, because a kernel of stride 2 reads every
other one: what a tap reads is then one stretch. ``Side`` says where.

PyTorch would need a pass over memory for each sum, comparison and product here; these loops do
all that is to be done to a stretch while it is in the nearest cache. The compiler turns an inner
loop into vector instructions if it counts from zero over plain stretches: hence the many slices.
It may not reorder sums, so long ones are kept in lanes (``_total``).
"""

from functools import cache
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from datalens.ensemble.compiling import compiled

KERNEL = 5
STRIDE = 2
SLOPE = np.float32(0.2)
EPSILON = np.float32(1e-5)

Floats = NDArray[np.float32]
Integers = NDArray[np.int64]


def zeros(*shape: int) -> Floats:
    """Zeros that begin at a cache line, as PyTorch's do.

    Where a matrix begins decides in which order a library multiplies it: only memory that always
    begins alike gives the same bits in every process.
    """
    array: Floats = torch.zeros(shape).numpy()
    return array


class Side(NamedTuple):
    """One side of an image under a 5-wide kernel of stride 2, padded as SAME."""

    size: int
    outputs: int
    before: int
    """Zeros in front."""
    order: Integers
    """(outputs,): the number an output has if outputs stand in split order."""
    taps: Integers
    """(5, 4): where the tap's stretch begins among outputs, among split inputs, its length, and
    which input comes first."""
    kind: Integers
    """(outputs,): outputs of one kind have the same taps inside the image."""
    inside: Floats
    """(kinds, 5): 1 for those."""


@cache
def side(size: int) -> Side:
    outputs = -(-size // STRIDE)
    total = max((outputs - 1) * STRIDE + KERNEL - size, 0)
    before = total // 2
    evens = -(-size // 2)
    taps = np.zeros((KERNEL, 4), dtype=np.int64)
    seen = np.zeros((outputs, KERNEL), dtype=np.float32)
    for j in range(KERNEL):
        reached = [o for o in range(outputs) if 0 <= STRIDE * o + j - before < size]
        first = STRIDE * reached[0] + j - before
        split = first // 2 + (evens if first % 2 else 0)
        taps[j] = reached[0], split, len(reached), first
        seen[reached, j] = 1
    inside, kind = np.unique(seen, axis=0, return_inverse=True)
    places = np.arange(outputs)
    order = places // 2 + np.where(places % 2, -(-outputs // 2), 0)
    return Side(size, outputs, before, order, taps, kind.reshape(-1).astype(np.int64), inside)


@compiled
def sigmoid(x):
    return np.float32(1) / (np.float32(1) + np.exp(-x))


@compiled
def cut_images(images, scale, order, before, cut):
    """Images (h, c, w, m) over ``scale`` into the columns a kernel reads, (h, 5, c, outputs, m).

    ``cut`` holds zeros where nothing is written. Outputs stand in ``order``.
    """
    h, c, w, m = images.shape
    for y in range(h):
        for j in range(KERNEL):
            for k in range(c):
                for o in range(len(order)):
                    x = STRIDE * o + j - before
                    if 0 <= x < w:
                        target, source = cut[y, j, k, order[o]], images[y, k, x]
                        for n in range(m):
                            target[n] = np.float32(source[n]) / scale


@compiled
def uncut_images(met, order, before, images):
    """The way back of ``cut_images``."""
    h, c, w, _ = images.shape
    images[:] = 0
    for y in range(h):
        for k in range(c):
            for j in range(KERNEL):
                for o in range(len(order)):
                    x = STRIDE * o + j - before
                    if 0 <= x < w:
                        add(images[y, k, x], met[y, j, k, order[o]])


@compiled
def add(target, source):
    for n in range(len(target)):
        target[n] += source[n]


@compiled
def _stretch(tap, piece, m, split):
    """Where a stretch begins among outputs and among inputs, and its length, in numbers.

    In split order a tap has one stretch, else one for each output.
    """
    if split:
        return tap[0] * m, tap[1] * m, tap[2] * m
    return (tap[0] + piece) * m, (tap[3] + STRIDE * piece) * m, m


@compiled
def rectify_and_cut(x, planes, kind, taps, m, split, features, cut):
    """From the first layer's sums to what the second one's kernel reads.

    ``features`` (h, channels, w * m) become the rectified sum of ``x`` and the label planes, and
    are cut into ``cut`` (h, 5, channels, outputs * m), which holds zeros elsewhere. ``split`` says
    in which order the columns of ``x`` stand.
    """
    h, channels, width = x.shape
    planes = planes.reshape(-1, channels, width)
    for y in range(h):
        for k in range(channels):
            row, plain, plane = features[y, k], x[y, k], planes[kind[y], k]
            for n in range(width):
                v = plain[n] + plane[n]
                row[n] = v if v > 0 else SLOPE * v
            for j in range(KERNEL):
                for piece in range(1 if split else taps[j, 2]):
                    first, begin, count = _stretch(taps[j], piece, m, split)
                    target = cut[y, j, k][first : first + count]
                    source = row[begin : begin + count]
                    for n in range(count):
                        target[n] = source[n]


@compiled
def uncut_and_unrectify(met, features, kind, taps, m, split, by_x, by_planes):
    """The way back of ``rectify_and_cut``; ``by_planes`` is summed over the rows of a kind."""
    h, channels, width = features.shape
    by_planes = by_planes.reshape(-1, channels, width)
    by_planes[:] = 0
    for y in range(h):
        for k in range(channels):
            row, feature, plane = by_x[y, k], features[y, k], by_planes[kind[y], k]
            for n in range(width):
                row[n] = 0
            for j in range(KERNEL):
                for piece in range(1 if split else taps[j, 2]):
                    first, begin, count = _stretch(taps[j], piece, m, split)
                    add(row[begin : begin + count], met[y, j, k][first : first + count])
            for n in range(width):
                v = row[n] if feature[n] > 0 else SLOPE * row[n]
                row[n] = v
                plane[n] += v


@compiled
def _total(lanes):
    """The sum of (w, m), which is used up: lane by lane first, as vector instructions like it."""
    first = lanes[0]
    for column in range(1, len(lanes)):
        add(first, lanes[column])
    total = np.float32(0)
    for n in range(len(first)):
        total += first[n]
    return total


@compiled
def normalise(x, planes, kind, scale, shift, inverse, seen, place):
    """Batch norm and rectifier of the second layer, its label planes added first.

    ``x`` (h, channels, w, m) is left centred, ``inverse`` (channels,) becomes one over the
    deviation, and the result goes to ``seen`` (h, channels, w, images), from ``place`` on.
    """
    h, channels, w, m = x.shape
    rows, planes = x.reshape(h, channels, w * m), planes.reshape(-1, channels, w * m)
    count = np.float32(h * w * m)
    lanes = np.empty((w, m), dtype=np.float32)
    flat = lanes.reshape(-1)
    for k in range(channels):
        flat[:] = 0
        for y in range(h):
            row, plane = rows[y, k], planes[kind[y], k]
            for n in range(w * m):
                v = row[n] + plane[n]
                row[n] = v
                flat[n] += v
        mean = _total(lanes) / count
        flat[:] = 0
        for y in range(h):
            row = rows[y, k]
            for n in range(w * m):
                v = row[n] - mean
                row[n] = v
                flat[n] += v * v
        total = _total(lanes)
        inverse[k] = np.float32(1) / np.sqrt(total / count + EPSILON)
        factor, constant = inverse[k] * scale[k], shift[k]
        for y in range(h):
            for column in range(w):
                target, source = seen[y, k, column][place : place + m], x[y, k, column]
                for n in range(m):
                    v = source[n] * factor + constant
                    target[n] = v if v > 0 else SLOPE * v


@compiled
def normalise_back(
    by_seen, seen, place, centred, inverse, scale, kind, by_x, by_planes, by_scale, by_shift
):
    """The way back of ``normalise``, into ``by_x``; those by scale and shift are added to."""
    h, channels, w, m = centred.shape
    flat = centred.reshape(h, channels, w * m)
    by_flat, by_planes = by_x.reshape(h, channels, w * m), by_planes.reshape(-1, channels, w * m)
    count = np.float32(h * w * m)
    by_planes[:] = 0
    lanes = np.empty((2, w, m), dtype=np.float32)
    total_lane, along_lane = lanes[0].reshape(-1), lanes[1].reshape(-1)
    for k in range(channels):
        lanes[:] = 0
        for y in range(h):
            for column in range(w):
                slope = by_seen[y, k, column][place : place + m]
                sign = seen[y, k, column][place : place + m]
                target = by_x[y, k, column]
                for n in range(m):
                    target[n] = slope[n] if sign[n] > 0 else SLOPE * slope[n]
            row, x = by_flat[y, k], flat[y, k]
            for n in range(w * m):
                total_lane[n] += row[n]
                along_lane[n] += row[n] * x[n]
        total, along = _total(lanes[0]), _total(lanes[1])
        along *= inverse[k]
        by_scale[k] += along
        by_shift[k] += total
        mean, tilt, factor = total / count, along * inverse[k] / count, inverse[k] * scale[k]
        for y in range(h):
            row, x, plane = by_flat[y, k], flat[y, k], by_planes[kind[y], k]
            for n in range(w * m):
                v = (row[n] - mean - x[n] * tilt) * factor
                row[n] = v
                plane[n] += v


@compiled
def decide(z, places, labels, scale, shift, weight, bias, inverse, last, logits):
    """The hidden layer's norm and rectifier, and the logit.

    ``z`` (units, images) is left centred over each batch, ``places`` (batches + 1,) are their
    bounds, ``inverse`` is (batches, units), ``last`` (units, images) the rectified units.
    """
    units, total = z.shape
    for n in range(total):
        logits[n] = bias + weight[units + labels[n]]
    for b in range(len(places) - 1):
        first, end = places[b], places[b + 1]
        count = np.float32(end - first)
        logit = logits[first:end]
        for k in range(units):
            row, unit = z[k][first:end], last[k][first:end]
            mean = row.sum() / count
            square = np.float32(0)
            for n in range(len(row)):
                v = row[n] - mean
                row[n] = v
                square += v * v
            inverse[b, k] = np.float32(1) / np.sqrt(square / count + EPSILON)
            factor, constant, w = inverse[b, k] * scale[k], shift[k], weight[k]
            for n in range(len(row)):
                v = row[n] * factor + constant
                v = v if v > 0 else SLOPE * v
                unit[n] = v
                logit[n] += w * v


@compiled
def decide_back(
    slope, z, places, labels, scale, weight, inverse, last, by_z, by_scale, by_shift, by_weight
):
    """The way back of ``decide``, into ``by_z``, ``by_scale``, ``by_shift`` and ``by_weight``."""
    units, total = z.shape
    by_weight[:] = 0
    by_scale[:] = 0
    by_shift[:] = 0
    for n in range(total):
        by_weight[units + labels[n]] += slope[n]
    for b in range(len(places) - 1):
        first, end = places[b], places[b + 1]
        count = np.float32(end - first)
        steep = slope[first:end]
        for k in range(units):
            row, x, unit = by_z[k][first:end], z[k][first:end], last[k][first:end]
            w = weight[k]
            by_w = np.float32(0)
            by_sum = np.float32(0)
            along = np.float32(0)
            for n in range(len(row)):
                by_w += steep[n] * unit[n]
                v = steep[n] * w
                v = v if unit[n] > 0 else SLOPE * v
                row[n] = v
                by_sum += v
                along += v * x[n]
            along *= inverse[b, k]
            by_weight[k] += by_w
            by_scale[k] += along
            by_shift[k] += by_sum
            mean, tilt = by_sum / count, along * inverse[b, k] / count
            factor = inverse[b, k] * scale[k]
            for n in range(len(row)):
                row[n] = (row[n] - mean - x[n] * tilt) * factor
