"""A sketch of many durations: percentiles within 1 %, in a few hundred bytes, that sketches are merged from by adding. Pure numpy.

A value v >= 1 is counted in bucket i = ceil(log v / log GAMMA), which spans (GAMMA^(i-1), GAMMA^i]; a value below 1 is counted in
bucket ZERO. What a bucket stands for is at most RELATIVE_ERROR away from all that is in it. Buckets are integers, so merging two
sketches is exact: the sketch of two halves is the sketch of the whole.

    u8 version (1) · u8 width w of a count (1, 2, 4 or 8) · u16 buckets n · n x u16 bucket, ascending · n x uw count

All little-endian. The format is for ever: a change gets a new version.
"""

from dataclasses import dataclass
from math import log
from struct import Struct
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

RELATIVE_ERROR = 0.01
GAMMA = (1 + RELATIVE_ERROR) / (1 - RELATIVE_ERROR)
VALUE_MAX = float(1 << 40)
"""Larger values are counted as this one: 34 years in milliseconds."""
VERSION = 1

_LOG_GAMMA = log(GAMMA)
ZERO = 0
"""The bucket of values below 1; bucket i of the others is kept as i + 1."""
BUCKET_MAX = int(np.ceil(log(VALUE_MAX) / _LOG_GAMMA)) + 1
SKETCH_BYTES_MAX = 4 + (BUCKET_MAX + 1) * (2 + 8)
assert SKETCH_BYTES_MAX <= 16 << 10, "the summary table's column takes no more"

_HEAD = Struct("<BBH")
_WIDTHS = (1, 2, 4, 8)

Buckets = NDArray[np.int64]
Counts = NDArray[np.int64]


class SketchError(ValueError):
    """Bytes that are no sketch of a version known here."""


def buckets_of(values: ArrayLike) -> Buckets:
    """The bucket of each value; a negative one counts as 0, one above VALUE_MAX as VALUE_MAX."""
    clipped = np.clip(np.asarray(values, dtype=np.float64), 0.0, VALUE_MAX)
    found = np.zeros(clipped.shape, dtype=np.int64)
    is_counted = clipped >= 1
    found[is_counted] = np.ceil(np.log(clipped[is_counted]) / _LOG_GAMMA).astype(np.int64) + 1
    return found


def values_of(buckets: ArrayLike) -> NDArray[np.float64]:
    """What each bucket stands for: the value that is as far, relatively, from its lower as from its upper end."""
    numbers = np.asarray(buckets, dtype=np.int64)
    return np.where(numbers == ZERO, 0.0, 2.0 * np.exp((numbers - 1) * _LOG_GAMMA) / (GAMMA + 1.0))


@dataclass(frozen=True, slots=True, eq=False)
class Sketch:
    """How many values each bucket has: buckets ascending, counts above 0."""

    buckets: Buckets
    counts: Counts

    @classmethod
    def of(cls, values: ArrayLike, counts: ArrayLike | None = None) -> "Sketch":
        """Of values, each so many times (once, when not said)."""
        buckets = buckets_of(values)
        weights = np.ones(len(buckets), dtype=np.int64) if counts is None else np.asarray(counts, dtype=np.int64)
        return cls.added(buckets, weights)

    @classmethod
    def added(cls, buckets: ArrayLike, counts: ArrayLike) -> "Sketch":
        """Of buckets in any order, any number of times."""
        found, places = np.unique(np.asarray(buckets, dtype=np.int64), return_inverse=True)
        sums = np.zeros(len(found), dtype=np.int64)
        np.add.at(sums, places, np.asarray(counts, dtype=np.int64))
        is_there = sums > 0
        return cls(found[is_there], sums[is_there])

    @property
    def count(self) -> int:
        """How many values it was made of."""
        return int(self.counts.sum())

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Sketch):
            return NotImplemented
        return np.array_equal(self.buckets, other.buckets) and np.array_equal(self.counts, other.counts)

    def merged(self, other: "Sketch") -> "Sketch":
        """Of the values of both."""
        return Sketch.added(np.concatenate([self.buckets, other.buckets]), np.concatenate([self.counts, other.counts]))

    def percentiles(self, ratios: ArrayLike) -> NDArray[np.float64]:
        """For each ratio the value of rank ceil(ratio x count), within RELATIVE_ERROR; NaN when the sketch is empty."""
        wanted = np.asarray(ratios, dtype=np.float64)
        if not len(self.counts):
            return np.full(wanted.shape, np.nan)
        upto = np.cumsum(self.counts)
        # A ratio such as 0.999 is a little off in binary; it must not push a rank over a whole number.
        ranks = np.maximum(1, np.ceil(wanted * upto[-1] - 1e-9 * upto[-1]))
        return values_of(self.buckets[np.searchsorted(upto, ranks, side="left")])

    def encode(self) -> bytes:
        """As bytes, at most SKETCH_BYTES_MAX."""
        most = int(self.counts.max(initial=0))
        width = next(width for width in _WIDTHS if most < 1 << (8 * width))
        head = _HEAD.pack(VERSION, width, len(self.buckets))
        return head + self.buckets.astype("<u2").tobytes() + self.counts.astype(f"<u{width}").tobytes()

    @classmethod
    def decode(cls, data: Any) -> "Sketch":
        """From bytes.

        Raises:
            SketchError: they are of another version, cut short, or hold what no sketch holds.
        """
        view = memoryview(data)
        if len(view) < _HEAD.size:
            raise SketchError(f"{len(view)} bytes are no sketch")
        version, width, n = _HEAD.unpack_from(view)
        if version != VERSION:
            raise SketchError(f"a sketch of version {version}; known here is {VERSION}")
        if width not in _WIDTHS or len(view) != _HEAD.size + n * (2 + width):
            raise SketchError(f"a sketch of {n} buckets with counts of {width} bytes does not take {len(view)} bytes")
        buckets = np.frombuffer(view, dtype="<u2", count=n, offset=_HEAD.size).astype(np.int64)
        counts = np.frombuffer(view, dtype=f"<u{width}", count=n, offset=_HEAD.size + 2 * n).astype(np.int64)
        if n and (buckets[-1] > BUCKET_MAX or counts.min() <= 0 or np.any(np.diff(buckets) <= 0)):
            raise SketchError("a sketch whose buckets do not ascend, or are empty, or beyond the last one")
        return cls(buckets, counts)
