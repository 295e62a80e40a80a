"""Convolutions as matrix products that read an image's rows where they are, and the way back."""

from datalens.ensemble.blas import product
from datalens.ensemble.compiling import compiled
from datalens.ensemble.loops import KERNEL, STRIDE


@compiled
def convolve(cut, rows, p, kernel, out):
    """``out`` (output rows, outs, width) by the kernel (outs, 5, 5, c) at ``p[kernel:]``.

    The rows that an output row reads lie one behind the other in ``cut`` (h, 5, c, width): as many
    as lie inside the image are one matrix, read where it is.
    """
    _, _, channels, width = cut.shape
    _, outs, _ = out.shape
    height = KERNEL * channels
    source, target = cut.reshape(-1), out.reshape(-1)
    for o in range(rows.outputs):
        top = STRIDE * o - rows.before
        first, end = max(0, -top), min(KERNEL, rows.size - top)
        product(
            outs, width, (end - first) * height,
            p, kernel + first * height, KERNEL * height, False,
            source, (top + first) * height * width, width, False,
            0, target, o * outs * width, width,
        )  # fmt: skip


@compiled
def to_kernel(cut, rows, slope, g, kernel):
    """Add the derivative by the kernel to ``g[kernel:]``."""
    _, _, channels, width = cut.shape
    _, outs, _ = slope.shape
    height = KERNEL * channels
    source, steep = cut.reshape(-1), slope.reshape(-1)
    for o in range(rows.outputs):
        top = STRIDE * o - rows.before
        first, end = max(0, -top), min(KERNEL, rows.size - top)
        product(
            outs, (end - first) * height, width,
            steep, o * outs * width, width, False,
            source, (top + first) * height * width, width, True,
            1, g, kernel + first * height, KERNEL * height,
        )  # fmt: skip


@compiled
def turn(p, kernel, channels, outs, turned):
    """The kernel (outs, 5, 5, c) for the way back: (5 * c, meeting rows * outs), last row first.

    Counted from the padding's first, an image's even row meets rows 4, 2 and 0 of the kernel in
    the output rows one behind the other, an odd one 3 and 1.
    """
    height = KERNEL * channels
    for o in range(outs):
        for i in range(KERNEL):
            source = p[kernel + (o * KERNEL + i) * height : kernel + (o * KERNEL + i + 1) * height]
            target = turned[0] if i % 2 == 0 else turned[1]
            column = (KERNEL - 1 - i) // 2 * outs + o
            for x in range(height):
                target[x, column] = source[x]


@compiled
def unconvolve(slope, rows, turned, met):
    """What each row of the image meets, ``met`` (h, 5, c, width), from the result's derivative."""
    _, outs, width = slope.shape
    height = met.shape[1] * met.shape[2]
    steep, target = slope.reshape(-1), met.reshape(-1)
    for y in range(rows.size):
        at = y + rows.before
        low, high = max(0, (at - KERNEL + 2) // 2), min(rows.outputs - 1, at // 2)
        kernel = turned[0] if at % 2 == 0 else turned[1]
        skipped = (KERNEL - 1 - at % 2 - (at - STRIDE * low)) // 2
        product(
            height, width, (high - low + 1) * outs,
            kernel.reshape(-1), skipped * outs, kernel.shape[1], False,
            steep, low * outs * width, width, False,
            0, target, y * height * width, width,
        )  # fmt: skip
