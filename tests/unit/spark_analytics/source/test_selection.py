"""Options and filters as values."""

from datetime import UTC, datetime, timedelta, timezone

import pytest
from pyspark.sql.datasource import (
    EqualNullSafe,
    EqualTo,
    Filter,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    IsNotNull,
    LessThan,
    LessThanOrEqual,
    Not,
    StringContains,
    StringStartsWith,
)

from qmq.errors import SettingError
from spark_analytics.schemas import SCHEMAS
from spark_analytics.source.datasource import narrow
from spark_analytics.source.options import OPTIONS, parse_options
from spark_analytics.source.selection import (
    HIGHEST,
    LOWEST,
    TIME_MARGIN_MS,
    Names,
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


def test_names_narrowed() -> None:
    names = parse_names("a*").only(["a1", "b1", "a2"]).beginning("a1")
    assert [name for name in ("a1", "a2", "b1", "a11") if name in names] == ["a1"]
    assert "a1" not in names.only(["a2"])
    assert not names.is_any


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


def after(*filters: Filter, table: str = "index") -> tuple[Selection, list[bool]]:
    """A selection with these filters, and which of them need not be looked at again."""
    selection, done = Selection(), []
    for one in filters:
        selection, is_done = narrow(table, selection, one)
        done.append(is_done)
    return selection, done


@pytest.mark.parametrize(
    ("one", "span", "is_done"),
    [
        (EqualTo(("sequence",), 5), Span(5, 6), True),
        (EqualNullSafe(("sequence",), 5), Span(5, 6), True),
        (GreaterThan(("sequence",), 5), Span(6, HIGHEST), True),
        (GreaterThanOrEqual(("sequence",), 5), Span(5, HIGHEST), True),
        (LessThan(("sequence",), 5), Span(LOWEST, 5), True),
        (LessThanOrEqual(("sequence",), 5), Span(LOWEST, 6), True),
        (In(("sequence",), (7, 3)), Span(3, 8), False),
        (In(("sequence",), (7, None)), Span(), False),
        (Not(EqualTo(("sequence",), 5)), Span(), False),
        (EqualTo(("sequence",), True), Span(), False),
        (EqualTo(("sequence",), None), Span(), False),
        (EqualTo(("size",), 5), Span(), False),
    ],
)
def test_numbers(one: Filter, span: Span, is_done: bool) -> None:
    selection, done = after(one)
    assert (selection.numbers, done) == (span, [is_done])
    assert selection.times == Span()


def test_times_are_compared_to_the_microsecond() -> None:
    zone = timezone(timedelta(hours=3))
    selection, done = after(
        GreaterThan(("stored_at",), NOON.astimezone(zone)), LessThanOrEqual(("stored_at",), NOON + timedelta(seconds=1))
    )
    assert (selection.times, done) == (Span(NOON_US + 1, NOON_US + 1_000_001), [True, True])
    assert after(EqualTo(("at",), NOON), table="progress")[0].times == Span(NOON_US, NOON_US + 1)
    assert after(EqualTo(("created_at",), NOON), table="messages") == (Selection(), [False])


def test_names_in_filters() -> None:
    selection, done = after(
        EqualTo(("subject",), "a"),
        In(("group",), ("g", "h")),
        StringStartsWith(("broker_group",), "b"),
        table="progress",
    )
    assert done == [True] * 3
    assert selection == Selection(Names(prefixes=("b",)), Names(among=frozenset("a")), Names(among=frozenset("gh")))
    assert after(EqualTo(("group",), "g"), table="index") == (Selection(), [False]), "the index has no groups"
    assert after(StringContains(("subject",), "a"), In(("subject",), ("a", None))) == (Selection(), [False, False])


def test_what_can_not_be_null_is_not_asked_for() -> None:
    assert after(IsNotNull(("subject",)), IsNotNull(("stored_at",)))[1] == [True, False]
    assert after(IsNotNull(("subject",)), EqualTo(("kind",), "broker"), table="nodes") == (Selection(), [False, False])


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
        ({"push_filters": "1"}, "true or false"),
        ({"path": "/x"}, "no option path; there are metaserver"),
    ],
)
def test_wrong_options(more: dict[str, str], text: str) -> None:
    with pytest.raises(SettingError, match=text):
        parse_options({"metaserver": "h:1", "table": "index", **more})


def test_every_option_and_table_is_documented() -> None:
    page = (PROJECT / "docs" / "reference" / "spark.md").read_text()
    assert [name for name in (*OPTIONS, *SCHEMAS) if f"`{name}`" not in page] == []
