"""Sketches: within 1 %, merged exactly, and never longer than the summary table's column."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from spark_analytics.sketch import (
    BUCKET_MAX,
    RELATIVE_ERROR,
    SKETCH_BYTES_MAX,
    VALUE_MAX,
    Sketch,
    SketchError,
    buckets_of,
    values_of,
)

durations = st.lists(st.integers(0, int(VALUE_MAX)), min_size=1, max_size=60)


def exact(values: list[int], ratio: float) -> int:
    return sorted(values)[max(1, int(np.ceil(round(ratio * len(values), 9)))) - 1]


@given(durations)
def test_percentiles_are_within_one_percent_of_the_exact_ones(values: list[int]) -> None:
    ratios = [0.0, 0.5, 0.9, 0.99, 0.999, 1.0]
    for ratio, found in zip(ratios, Sketch.of(values).percentiles(ratios), strict=True):
        want = exact(values, ratio)
        assert abs(found - want) <= RELATIVE_ERROR * want * (1 + 1e-9), (ratio, want, found)


@given(durations, durations)
def test_merging_two_sketches_is_the_sketch_of_both(some: list[int], others: list[int]) -> None:
    assert Sketch.of(some).merged(Sketch.of(others)) == Sketch.of(some + others)
    assert Sketch.of(some) != Sketch.of(some + others)


@given(durations, st.integers(1, 1 << 40))
def test_a_sketch_is_read_as_it_was_written(values: list[int], times: int) -> None:
    sketch = Sketch.of(values, [times] * len(values))
    data = sketch.encode()
    assert Sketch.decode(data) == sketch
    assert sketch.count == times * len(values)
    assert len(data) <= SKETCH_BYTES_MAX


def test_every_bucket_stands_for_its_ends_within_one_percent() -> None:
    values = np.unique(np.floor(np.exp(np.linspace(0, np.log(VALUE_MAX), 200_000))))
    found = values_of(buckets_of(values))
    assert np.max(np.abs(found - values) / values) <= RELATIVE_ERROR * (1 + 1e-9)


def test_a_sketch_of_all_buckets_fits() -> None:
    full = Sketch.added(np.arange(BUCKET_MAX + 1), np.full(BUCKET_MAX + 1, 1 << 62))
    assert len(full.encode()) == SKETCH_BYTES_MAX
    assert Sketch.decode(full.encode()) == full


def test_values_out_of_range_count_as_the_nearest_in_range() -> None:
    assert Sketch.of([-5, 0]) == Sketch.of([0, 0])
    assert Sketch.of([VALUE_MAX * 1000]) == Sketch.of([VALUE_MAX])
    assert Sketch.of([0]).percentiles([0.5]).tolist() == [0.0]


def test_nothing_has_no_percentiles() -> None:
    empty = Sketch.of([])
    assert np.isnan(empty.percentiles([0.5])).all()
    assert Sketch.decode(empty.encode()) == empty
    assert Sketch.added([3], [0]) == empty


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (b"", "0 bytes"),
        (b"\x02\x01\x00\x00", "version 2"),
        (b"\x01\x03\x00\x00", "counts of 3 bytes"),
        (b"\x01\x01\x01\x00\x05\x00", "does not take"),
        (b"\x01\x01\x01\x00\x05\x00\x01\x01", "does not take"),
        (b"\x01\x01\x01\x00\x05\x00\x00", "empty"),
        (b"\x01\x01\x02\x00\x05\x00\x05\x00\x01\x01", "ascend"),
        (b"\x01\x01\x01\x00\xff\xff\x01", "beyond"),
        (b"\x01\x08\x01\x00\x05\x00\xff\xff\xff\xff\xff\xff\xff\xff", "empty"),
    ],
)
def test_bytes_that_are_no_sketch_are_refused(data: bytes, why: str) -> None:
    with pytest.raises(SketchError, match=why):
        Sketch.decode(data)
