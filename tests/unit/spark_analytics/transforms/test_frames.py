"""How work in numpy is split."""

import pytest

from spark_analytics.transforms.frames import BUCKETS_MAX, bucket_count


@pytest.mark.parametrize(
    ("rows", "cores", "count"),
    [
        (0, 2, 8),
        (0, 0, 4),
        (4_000_000, 2, 8),
        (4_000_001, 2, 9),
        (100_000_000, 2, 200),
        (100_000_000, 400, BUCKETS_MAX),
        (1 << 40, 2, BUCKETS_MAX),
    ],
)
def test_parts_follow_rows_and_cores(rows: int, cores: int, count: int) -> None:
    assert bucket_count(rows, cores) == count
