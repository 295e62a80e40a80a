"""The heaviest entries of each row, compiled: found without sorting.

A float without its sign, read as an integer, keeps its order. So the entry at which the weight of
all larger ones reaches a limit is found digit by digit, of 11, 10 and 10 bits: weights are added up
by the first digit, those of the entries that agree in it by the second, and so on. A row is read
three times, all else is done on the few entries whose first digit is that of the limit.
"""

import numpy as np

from datalens.ensemble.compiling import compiled

UNSIGNED = np.int32(0x7FFFFFFF)
"""All bits but the sign."""
DIGITS = 2**11
NOT_FINITE = 0xFF << 3
"""The least first digit of infinity and NaN, whose exponent is all ones."""


@compiled
def keep_heaviest(rows, share, counted):
    """Set to zero, in each row, what lies beyond `share` of its weight, from the largest entry on.

    Rows are float32, seen as int32. An entry weighs its square, or 1 if entries are `counted`.
    Among equal entries the first are kept. A row that is not finite becomes zero.
    """
    weights = np.empty(DIGITS)
    room = np.empty(rows.shape[1], dtype=np.int32)
    for row in rows:
        _weigh(row, 0, 31, 20, counted, weights)
        broken, total = False, 0.0
        for digit in range(DIGITS):
            broken |= digit >= NOT_FINITE and weights[digit] != 0
            total += weights[digit]
        if broken:
            row[:] = 0
            continue
        limit = np.floor(share * len(row) + 0.5) if counted else share * total
        first, spent = _digit_at(weights, limit, 0.0)
        near = room[: _gather(row, np.int32(first), room)]
        _weigh(near, first, 20, 10, counted, weights)
        digit, spent = _digit_at(weights, limit, spent)
        second = (first << 10) + digit
        _weigh(near, second, 10, 0, counted, weights)
        digit, spent = _digit_at(weights, limit, spent)
        _cut(row, np.int32((second << 10) + digit), counted, limit - spent)


@compiled
def _weigh(row, prefix, above, below, counted, weights):
    """The weight of each digit, bits `below` to `above`, of entries that begin with `prefix`."""
    weights[:] = 0.0
    begin, low, width = np.int32(prefix), np.int32(below), np.int32(above - below)
    digits = np.int32((1 << (above - below)) - 1)
    values = row.view(np.float32)
    for i in range(len(row)):
        entry = row[i] & UNSIGNED
        head = entry >> low
        if entry and head >> width == begin:  # zeros weigh nothing, and are half of many gradients
            value = np.float64(values[i])
            weights[head & digits] += 1.0 if counted else value * value


@compiled
def _digit_at(weights, limit, spent):
    """The digit at which weight, from the largest on, goes beyond the limit; and that before it."""
    digit = DIGITS - 1
    while digit > 0 and spent + weights[digit] <= limit:
        spent += weights[digit]
        digit -= 1
    return digit, spent


@compiled
def _gather(row, first, room):
    """The entries of this first digit, without their signs, and how many they are."""
    count = 0
    for i in range(len(row)):
        entry = row[i] & UNSIGNED
        room[count] = entry
        count += entry >> np.int32(20) == first
    return count


@compiled
def _cut(row, last, counted, left):
    """Keep what is larger than `last`, and as many entries like it as weigh no more than `left`."""
    value = np.float64(np.array([last], dtype=np.int32).view(np.float32)[0])
    weight = 1.0 if counted else value * value
    if weight > left:
        for i in range(len(row)):
            row[i] = row[i] if row[i] & UNSIGNED > last else np.int32(0)
        return
    for i in range(len(row)):
        entry = row[i] & UNSIGNED
        left -= weight if entry == last else 0.0
        if entry < last or (entry == last and left < 0):
            row[i] = np.int32(0)
