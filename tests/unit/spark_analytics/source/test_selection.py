"""Options and filters as values."""

from datetime import UTC, datetime

import pytest

from qmq.errors import SettingError
from spark_analytics.schemas import SCHEMAS
from spark_analytics.source.options import OPTIONS, parse_options, rows_per_batch
from spark_analytics.source.selection import (
    HIGHEST,
    TIME_MARGIN_MS,
    Selection,
    Span,
    microseconds,
    parse_names,
    parse_time,
)
from tests.support.servers.processes import PROJECT

NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)
NOON_US = 1_772_366_400_000_000


@pytest.mark.parametrize(
    ("patterns", "wanted", "others"),
    [
        ("", ["a", "%RETRY%a%g", ""], []),
        ("orders, pay*", ["orders", "pay", "payments"], ["order", "xpay", "orders2"]),
        ("a?c", ["abc", "a.c"], ["ac", "abbc"]),
        ("a.b[1]", ["a.b[1]"], ["axb1", "a.b1"]),
        ("*", ["a\nb"], []),
    ],
)
def test_names(patterns: str, wanted: list[str], others: list[str]) -> None:
    names = parse_names(patterns)
    assert all(name in names for name in wanted)
    assert not any(name in names for name in others)
    assert names.is_any == (not patterns)


def test_times() -> None:
    assert parse_time("2026-03-01T12:00:00Z", "from") == NOON_US
    assert parse_time("2026-03-01T12:00:00", "from") == NOON_US
    assert parse_time("2026-03-01T13:30:00.000001+01:30", "from") == NOON_US + 1
    assert microseconds(datetime(1969, 12, 31, 23, 59, 59, 999_999, tzinfo=UTC)) == -1
    with pytest.raises(SettingError, match="option from is 'noon'"):
        parse_time("noon", "option from")


def test_nodes_are_asked_beyond_the_times_wanted() -> None:
    assert Selection().time_bounds_ms() == (-1, -1)
    bounds = Selection(times=Span(NOON_US + 1, NOON_US + 1)).time_bounds_ms()
    assert bounds == (NOON_US // 1000 - TIME_MARGIN_MS, NOON_US // 1000 + 1 + TIME_MARGIN_MS)


def test_options() -> None:
    given = {
        "Metaserver": "host:80",
        "TABLE": "messages",
        "columns": "size, sequence",
        "from": "2026-03-01",
        "token": "t",
    }
    options = parse_options(given)
    assert options.metaserver == "http://host:80/meta/address"
    assert options.columns == ("sequence", "size")
    assert options.rows_per_partition == 50_000
    assert options.selection.times.end == HIGHEST
    assert parse_options({"metaserver": "h:1", "table": "index", "rows_per_batch": "7"}).rows_per_batch == 7


@pytest.mark.parametrize(
    ("more", "text"),
    [
        ({"from": "2026-03-02", "to": "2026-03-02"}, "is not before option to"),
        ({"metaserver": ""}, "metaserver is missing"),
        ({"rows_per_batch": "many"}, "option rows_per_batch is 'many'"),
        ({"rows_per_partition": str(1 << 41)}, "from 1 to"),
        ({"path": "/x"}, "no option path; there are metaserver"),
    ],
)
def test_wrong_options(more: dict[str, str], text: str) -> None:
    with pytest.raises(SettingError, match=text):
        parse_options({"metaserver": "h:1", "table": "index", **more})


@pytest.mark.parametrize(
    ("setting", "cores", "rows"), [(0, 2, 5_000_000), (0, 16, 40_000_000), (0, 0, 2_500_000), (7, 16, 7)]
)
def test_batches_follow_the_cores_unless_a_setting_says_otherwise(setting: int, cores: int, rows: int) -> None:
    assert rows_per_batch(setting, cores) == rows


def test_every_option_and_table_is_documented() -> None:
    page = (PROJECT / "docs" / "reference" / "spark.md").read_text()
    assert [name for name in (*OPTIONS, *SCHEMAS) if f"`{name}`" not in page] == []
