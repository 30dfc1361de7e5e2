"""Ranges become partitions of even size, and nothing is read twice or left out."""

from collections import Counter

from hypothesis import given, settings
from hypothesis import strategies as st

from spark_analytics.source import partitions
from spark_analytics.source.partitions import Range, cut, plan

RANGES = st.lists(
    st.builds(
        lambda node, begin, count: Range(f"g{node}", f"host:{node}", f"s{begin}", begin, begin + count),
        st.integers(1, 3),
        st.integers(0, 1000),
        st.integers(0, 400),
    ),
    max_size=30,
    unique_by=lambda one: (one.broker_group, one.subject),
)


@settings(deadline=None)
@given(RANGES, st.integers(1, 100))
def test_every_row_is_in_one_partition_of_one_node_and_none_is_too_large(ranges: list[Range], rows: int) -> None:
    bundles = plan(ranges, rows)
    found = Counter(
        (one.broker_group, one.subject, n)
        for bundle in bundles
        for one in bundle.ranges
        for n in range(one.begin, one.end)
    )
    assert found == Counter((one.broker_group, one.subject, n) for one in ranges for n in range(one.begin, one.end))
    for bundle in bundles:
        assert 0 < sum(one.rows for one in bundle.ranges) <= rows
        assert len({one.address for one in bundle.ranges}) == 1


@settings(deadline=None)
@given(st.integers(1, 10_000), st.integers(1, 50))
def test_pieces_differ_by_one_at_most(count: int, pieces: int) -> None:
    sizes = [piece.rows for piece in cut(Range("g", "a", "s", 7, 7 + count), pieces)]
    assert sum(sizes) == count
    assert max(sizes) - min(sizes) <= 1


def test_small_ranges_are_packed_as_evenly_as_they_go() -> None:
    ranges = [Range("g", "a", f"s{n}", 0, 10) for n in range(40)]
    assert [sum(one.rows for one in bundle.ranges) for bundle in plan(ranges, 100)] == [100] * 4


def test_very_many_small_ranges_are_spread(monkeypatch) -> None:  # type: ignore[no-untyped-def]
    monkeypatch.setattr(partitions, "RANGES_PER_PARTITION_MAX", 3)
    bundles = plan([Range("g", "a", f"s{n}", 0, 1) for n in range(10)], 1000)
    assert sorted(len(bundle.ranges) for bundle in bundles) == [2, 2, 3, 3]


def test_there_are_never_more_partitions_than_the_driver_should_hold(monkeypatch) -> None:  # type: ignore[no-untyped-def]
    monkeypatch.setattr(partitions, "PARTITIONS_MAX", 10)
    assert len(plan([Range("g", "a", "s", 0, 1_000_000)], 10)) == 10
