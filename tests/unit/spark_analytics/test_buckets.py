"""Counts by bucket: percentiles within 1 %, and counts that add up exactly."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from spark_analytics.buckets import RELATIVE_ERROR, VALUE_MAX, Longs, added, buckets_of, percentiles, values_of

durations = st.lists(st.integers(0, int(VALUE_MAX)), min_size=1, max_size=60)
RATIOS = [0.0, 0.5, 0.9, 0.99, 0.999, 1.0]


def exact(values: list[int], ratio: float, times: int = 1) -> int:
    """The value of rank ceil(ratio x count) when each value is there so many times."""
    rank = max(1, int(np.ceil(round(ratio * len(values) * times, 6))))
    return sorted(values)[(rank - 1) // times]


def counted(*of_series: list[int], times: int = 1) -> tuple[Longs, Longs, Longs]:
    """Several series, in the order of their values, each value so many times."""
    series = np.concatenate([np.full(len(values), number) for number, values in enumerate(of_series)])
    values = np.concatenate(of_series)
    return added(series, buckets_of(values), np.full(len(values), times))


@given(st.lists(durations, min_size=1, max_size=4), st.integers(1, 1000))
def test_percentiles_of_each_series_are_within_one_percent_of_the_exact_ones(
    lists: list[list[int]], times: int
) -> None:
    for values, found in zip(lists, percentiles(*counted(*lists, times=times), RATIOS), strict=True):
        for ratio, value in zip(RATIOS, found, strict=True):
            want = exact(values, ratio, times)
            assert abs(value - want) <= RELATIVE_ERROR * want * (1 + 1e-9), (ratio, want, value)


@given(durations, durations)
def test_counts_of_two_parts_add_up_to_those_of_the_whole(some: list[int], others: list[int]) -> None:
    parts = [counted(some), counted(others)]
    merged = added(*(np.concatenate(columns) for columns in zip(*parts, strict=True)))
    for found, whole in zip(merged, counted(some + others), strict=True):
        assert np.array_equal(found, whole)
    assert merged[2].sum() == len(some) + len(others)


def test_every_bucket_stands_for_its_ends_within_one_percent() -> None:
    values = np.unique(np.floor(np.exp(np.linspace(0, np.log(VALUE_MAX), 200_000))))
    found = values_of(buckets_of(values))
    assert np.max(np.abs(found - values) / values) <= RELATIVE_ERROR * (1 + 1e-9)


def test_values_out_of_range_count_as_the_nearest_in_range() -> None:
    assert buckets_of([-5, 0]).tolist() == [0, 0]
    assert buckets_of([VALUE_MAX * 1000]) == buckets_of([VALUE_MAX])
    assert percentiles(*counted([0]), [0.5]).tolist() == [[0.0]]


def test_nothing_adds_up_to_nothing() -> None:
    none = np.zeros(0, dtype=np.int64)
    assert [len(column) for column in added(none, none, none)] == [0, 0, 0]
