"""Which node is read, and which ranges a table has on it."""

from pathlib import Path

import pytest

from qmq.errors import ConnectionLost, SettingError
from qmq.protocol.bulk_read import GroupRange, HourCounts, NodeLine, NodesPage, RangesPage, SubjectRange
from spark_analytics.source import planning
from spark_analytics.source.listing import list_ranges, read_listings, write_listings
from spark_analytics.source.node_reader import NodeReader
from spark_analytics.source.offsets import Held
from spark_analytics.source.options import parse_options
from spark_analytics.source.planning import NodeUnreadable, masters, observe, plan_ranges
from spark_analytics.source.selection import Names, Selection


def node(
    group: str, name: str, *, kind: str = "broker", role: str = "master", state: str = "read_write", end: int = 0
) -> NodeLine:
    return NodeLine(group, name, kind, role, f"{name}:1", f"{name}:2", state, 1, end, 5)


NODES = (
    node("g1", "old", state="offline", end=900),
    node("g1", "new", end=10),
    node("g2", "b", state="offline"),
    node("d1", "d", kind="delay", role="delay"),
)
BILLING = GroupRange("billing", False, 9, 0, 8, 2, 6, ((7, "c1"),), 70)
AUDIT = GroupRange("audit", True, 9, 0, 3, 0, 3)
SUBJECTS = (
    SubjectRange("%DEAD_RETRY%orders%audit", 0, 2, 0, 2),
    SubjectRange("%RETRY%orders%billing", 0, 4, 0, 4),
    SubjectRange("orders", 5, 50, 10, 40, (BILLING,)),
)
FURTHER = (SubjectRange("orders", 5, 50, 10, 40, (AUDIT,)),)
"""A subject with many groups comes in parts, on pages that follow each other."""


@pytest.fixture
def nodes(monkeypatch: pytest.MonkeyPatch) -> list[tuple[int, int]]:
    """Brokers that hold SUBJECTS; the times they are asked for."""
    asked: list[tuple[int, int]] = []

    def pages(reader: NodeReader, from_ms: int = -1, to_ms: int = -1):  # type: ignore[no-untyped-def]
        asked.append((from_ms, to_ms))
        if reader.address == "b:1":
            raise ConnectionLost("nobody there")
        yield RangesPage("g1", "new", 100, SUBJECTS, "orders/billing")
        yield RangesPage("g1", "new", 200, FURTHER)

    monkeypatch.setattr(planning, "find_nodes", lambda metaserver, token: NodesPage(1, NODES))
    monkeypatch.setattr(NodeReader, "range_pages", pages)
    monkeypatch.setattr(
        NodeReader, "hours", lambda reader: ([HourCounts(10, 4, 1, 0, 9), HourCounts(12, 6, 1, 0, 9)], ["a"])
    )
    return asked


def ranges(table: str, **more: str) -> list[tuple[str, str, int, int]]:
    options = parse_options({"metaserver": "m:1", "table": table, "broker_groups": "g1,d1", **more})
    return [(one.subject, one.group, one.begin, one.end) for one in plan_ranges(options)]


def test_the_node_that_serves_is_read_and_every_group_has_one() -> None:
    found = masters(NODES, "broker", Selection())
    assert [one.node_id for one in found] == ["new", "b"]
    assert [one.node_id for one in masters(NODES, "delay", Selection())] == ["d"]
    assert masters(NODES, "broker", Selection(broker_groups=Names(("x",)))) == []


def test_every_table_has_its_ranges(nodes: list[tuple[int, int]]) -> None:
    assert ranges("index", subjects="orders") == [("orders", "", 10, 40)], "once, though it came in two parts"
    assert len(ranges("messages")) == 3
    assert ranges("progress") == [("orders", "billing", 2, 6), ("orders", "audit", 0, 3)]
    assert ranges("progress", groups="a*") == [("orders", "audit", 0, 3)]
    assert ranges("retries", subjects="orders") == [("%RETRY%orders%billing", "", 0, 4)]
    assert ranges("dead_letters", groups="audit") == [("%DEAD_RETRY%orders%audit", "", 0, 2)]
    assert ranges("retries", groups="audit") == []
    assert ranges("delayed") == [("", "", 0, 4), ("", "", 0, 6)]
    assert nodes[0] == (-1, -1)


def test_hours_are_those_of_the_times(nodes: list[tuple[int, int]]) -> None:
    hour = "1970-01-01T12:30:00"
    assert ranges("delayed", **{"from": hour}) == [("", "", 0, 6)]
    assert ranges("delayed", to="1970-01-01T12:00:00") == [("", "", 0, 4)]


def test_a_node_that_does_not_answer_is_named(nodes: list[tuple[int, int]]) -> None:
    with pytest.raises(NodeUnreadable, match=r"broker group g2 \(b:1\): nobody there"):
        ranges("index", broker_groups="*")


def test_a_stream_sees_every_range_once_and_when_it_looked(nodes: list[tuple[int, int]]) -> None:
    options = parse_options({"metaserver": "m:1", "table": "progress", "broker_groups": "g1", "from": "1970-01-02"})
    seen, places = observe(options)
    assert seen.read_at_ms == {"g1": 100}, "the first page's time"
    assert seen.ranges == {("g1", "orders", "billing"): Held(0, 8, 2, 70), ("g1", "orders", "audit"): Held(0, 3, 0, -1)}
    assert places["g1", "orders", "billing"].consumers == ((7, "c1"),)
    assert nodes == [(24 * 3_600_000 - 600_000, -1)]


def test_what_nodes_were_asked_once_is_what_several_streams_see(nodes: list[tuple[int, int]], tmp_path: Path) -> None:
    listings = [list_ranges(NODES[1], "")]
    write_listings(tmp_path / "listings", listings)
    del nodes[:]
    for table in ("index", "progress"):
        asked = parse_options({"metaserver": "m:1", "table": table, "broker_groups": "g1"})
        seen, places = observe(asked, read_listings(str(tmp_path / "listings")))
        assert not nodes
        again, again_places = observe(asked)
        assert (seen.ranges, seen.read_at_ms, places) == (again.ranges, again.read_at_ms, again_places)
        del nodes[:]
    others = parse_options({"metaserver": "m:1", "table": "index", "broker_groups": "g2"})
    assert observe(others, listings)[0].ranges == {}


@pytest.mark.parametrize("content", [None, b"half", bytes(7) + b"\x09" + b"half", (bytes(7) + b"\x04" + b"half") * 2])
def test_listings_that_can_not_be_read_are_named(tmp_path: Path, content: bytes | None) -> None:
    if content is not None:
        (tmp_path / "listings").write_bytes(content)
    with pytest.raises(SettingError, match="option listings is '/"):
        read_listings(str(tmp_path / "listings"))
