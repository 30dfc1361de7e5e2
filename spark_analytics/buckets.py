"""Percentiles of many durations from counts by bucket: within 1%, exactly mergeable by adding counts. Pure numpy.

A value v >= 1 is counted in bucket i = ceil(log v / log GAMMA), which spans (GAMMA^(i-1), GAMMA^i]; a value below 1 is counted in
bucket ZERO. The value that a bucket stands for is at most RELATIVE_ERROR away from all values in it. Counts are integers, so the
counts of two halves add up to those of the whole, and repeated computations give the same percentiles.
"""

from math import log

import numpy as np
from numpy.typing import ArrayLike, NDArray

RELATIVE_ERROR = 0.01
GAMMA = (1 + RELATIVE_ERROR) / (1 - RELATIVE_ERROR)
VALUE_MAX = float(1 << 40)
"""Larger values are counted as this one: 34 years in milliseconds."""
ZERO = 0
"""The bucket of values below 1; bucket i of the others is stored as i + 1."""
_LOG_GAMMA = log(GAMMA)

Longs = NDArray[np.int64]


def buckets_of(values: ArrayLike) -> Longs:
    """Return the bucket of each value; a negative one counts as 0, one above VALUE_MAX as VALUE_MAX."""
    clipped = np.clip(np.asarray(values, dtype=np.float64), 0.0, VALUE_MAX)
    found = np.zeros(clipped.shape, dtype=np.int64)
    is_counted = clipped >= 1
    found[is_counted] = np.ceil(np.log(clipped[is_counted]) / _LOG_GAMMA).astype(np.int64) + 1
    return found


def values_of(buckets: ArrayLike) -> NDArray[np.float64]:
    """Return the value that each bucket stands for: relatively as far from its lower end as from its upper end."""
    numbers = np.asarray(buckets, dtype=np.int64)
    return np.where(numbers == ZERO, 0.0, 2.0 * np.exp((numbers - 1) * _LOG_GAMMA) / (GAMMA + 1.0))


def added(series: Longs, buckets: Longs, counts: Longs) -> tuple[Longs, Longs, Longs]:
    """Add up the counts of each bucket of each series: series, buckets and counts, ascending by series and bucket."""
    if not len(series):
        return series, buckets, counts
    order = np.lexsort((buckets, series))
    series, buckets, counts = series[order], buckets[order], counts[order]
    begins = np.flatnonzero(np.append(True, (np.diff(series) != 0) | (np.diff(buckets) != 0)))
    return series[begins], buckets[begins], np.add.reduceat(counts, begins)


def percentiles(series: Longs, buckets: Longs, counts: Longs, ratios: ArrayLike) -> NDArray[np.float64]:
    """Return a row for each series with, for each ratio, the value of rank ceil(ratio x count) within RELATIVE_ERROR.

    Args:
        series: 0, 1, 2 and so on, ascending like `buckets` within each, as from `added`.
    """
    upto = np.cumsum(counts)
    ends = np.flatnonzero(np.append(np.diff(series) != 0, True))
    before = np.append(0, upto[ends[:-1]])
    totals = (upto[ends] - before)[:, None]
    # A ratio such as 0.999 is a little off in binary; it must not push a rank over a whole number.
    ranks = np.maximum(1, np.ceil(np.asarray(ratios, dtype=np.float64) * totals - 1e-9 * totals))
    return values_of(buckets[np.searchsorted(upto, before[:, None] + ranks, side="left")])
