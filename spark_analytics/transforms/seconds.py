"""A group's state second by second, from what changed; whole arrays at once. Pure numpy.

All arrays of states have one value for each second of a window: what holds at the second's end.
"""

import numpy as np
from numpy.typing import NDArray

Longs = NDArray[np.int64]
Floats = NDArray[np.float64]

NOTHING = np.iinfo(np.int64).max
"""The lowest of no sequences."""


def held_until(seconds: Longs, values: Longs, first_second: int, count: int, before: int) -> Longs:
    """The value that holds at each second's end: of the last second not behind it, or `before` where there is none.

    `seconds` ascend.
    """
    inside = seconds[: np.searchsorted(seconds, first_second + count)] - first_second
    last = np.cumsum(np.bincount(np.maximum(inside, 0), minlength=count)) - 1
    return np.where(last < 0, before, np.append(values, before)[last])


def in_flight(begins: Longs, ends: Longs, messages: Longs, count: int) -> Longs:
    """How many messages are held, from runs held over second places [begin, end), clipped to the window."""
    change = np.zeros(count + 1, dtype=np.int64)
    low, high = np.clip(begins, 0, count), np.clip(ends, 0, count)
    np.add.at(change, low, messages)
    np.subtract.at(change, high, messages)
    return np.cumsum(change[:count])


def lowest_held(begins: Longs, ends: Longs, sequences: Longs, count: int) -> Longs:
    """The lowest of the sequences, or other numbers, held over places [begin, end) of `count`; NOTHING where none is.

    Each stretch is laid as two blocks of the greatest power of two that fits; then blocks are halved down to seconds.
    """
    low, high = np.clip(begins, 0, count), np.clip(ends, 0, count)
    is_seen = low < high
    low, high, sequences = low[is_seen], high[is_seen], sequences[is_seen]
    result = np.full(count, NOTHING)
    if not len(low):
        return result
    # frexp is exact for whole numbers below 2^53: the exponent less one is the power of two that fits.
    level = np.frexp((high - low).astype(np.float64))[1] - 1
    blocks = result
    for power in range(int(level.max()), -1, -1):
        if power < int(level.max()):
            half = 1 << power
            halved = blocks.copy()
            np.minimum(halved[half:], blocks[:-half], out=halved[half:])
            blocks = halved
        here = level == power
        np.minimum.at(blocks, low[here], sequences[here])
        np.minimum.at(blocks, high[here] - (1 << power), sequences[here])
    return blocks


def stored_second(wanted: Longs, first_sequences: Longs, end_sequences: Longs, seconds: Longs) -> Floats:
    """The second in which each wanted sequence was stored; NaN when it lies outside of what is known.

    The known is given by second: the lowest sequence stored in it and the one behind the highest; both may step back with the
    clock, which moves a sequence to the first second that reached it.
    """
    reached = np.maximum.accumulate(end_sequences)
    place = np.searchsorted(reached, wanted, side="right")
    safe = np.minimum(place, max(0, len(seconds) - 1))
    if not len(seconds):
        return np.full(len(wanted), np.nan)
    is_known = (place < len(seconds)) & (wanted >= first_sequences[0])
    return np.where(is_known, seconds[safe].astype(np.float64), np.nan)
