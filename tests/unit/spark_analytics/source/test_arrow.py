"""Entries decoded in bulk are what nodes wrote, and damage is seen."""

from datetime import UTC, datetime
from zlib import crc32

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from broker_node.storage.actions import RecordKind
from broker_node.storage.consume_log import ENTRY, encode_withheld
from broker_node.storage.progress_log import PROGRESS_ENTRY, consumer_key
from delay_node.records import HOUR_MS, State
from delay_node.schedule_log import INDEX as NODE_SCHEDULE
from delay_node.schedule_log import checks_of, lost_index, make_index
from qmq.protocol.bulk_read import SCHEDULE_STATES
from qmq.protocol.messages import Message, encode_raw
from spark_analytics.source import arrow
from spark_analytics.source.arrow import (
    INDEX,
    PROGRESS,
    SCHEDULE,
    failures_page,
    index_page,
    log_end,
    messages_page,
    progress_checks,
    progress_page,
    schedule_page,
    times,
)
from tests.unit.spark_analytics.source.entries import NOW_MS, index_entries, progress_entry

ALL_INDEX = {"sequence", "stored_at", "size", "log_offset", "tag_bits", "is_withheld"}
ALL_PROGRESS = {"position", "at", "kind", "consumer_key", "consumer_id", "begin", "end", "next_sequence"}
ALL_FAILURES = {"sequence", "stored_at", "size", "message_id", "attempt", "cause"}
NOW = datetime(2023, 11, 14, 22, 13, 20, 123_000, tzinfo=UTC)


def rows(page: arrow.Page, *names: str) -> list[tuple[object, ...]]:
    return list(zip(*(page.columns[name].to_pylist() for name in names), strict=True))


def test_the_layouts_are_the_nodes_own() -> None:
    entry = ENTRY.pack(1, 2, 3, 2**64 - 1, 5)
    assert np.frombuffer(entry, dtype=INDEX)[0].item() == (1, 2, 3, 2**64 - 1, 5)
    assert encode_withheld(1) == arrow.WITHHELD
    entry = PROGRESS_ENTRY.pack(1, 2, 3, 4, 5, 6, 7)
    assert np.frombuffer(entry, dtype=PROGRESS)[["at_ms", "consumer_key", "begin", "end", "next_sequence", "kind"]][
        0
    ].item() == (1, 2, 3, 4, 5, 6)
    assert SCHEDULE == NODE_SCHEDULE


def test_every_kind_of_action_that_nodes_write_is_known() -> None:
    known = {kind.value for kind in RecordKind} - {RecordKind.MESSAGES, RecordKind.FORGET, RecordKind.DROP_SUBJECT}
    assert known <= set(arrow.KINDS)
    assert {state.value for state in State} == set(SCHEDULE_STATES)


def test_index_columns() -> None:
    page = index_page(index_entries(100, 0, 50), 7, ALL_INDEX)
    assert rows(page, "sequence", "size", "log_offset", "is_withheld") == [
        (7, 100, 1000, False),
        (8, 0, 0, True),
        (9, 50, 1100, False),
    ]
    assert page.columns["stored_at"].to_pylist() == [NOW, None, NOW.replace(microsecond=125_000)]
    assert page.columns["tag_bits"].to_pylist() == [-(2**63), 0, -(2**63) + 2]
    assert not page.is_damaged.any()


def test_only_columns_asked_for_are_made() -> None:
    assert set(index_page(index_entries(1, 2), 0, {"size"}).columns) == {"size"}
    assert len(index_page(index_entries(1, 2), 0, set())) == 2


@settings(deadline=None)
@given(st.lists(st.integers(0, 3), min_size=1, max_size=30), st.data())
def test_changed_index_entries_are_damage_or_still_in_order(sizes: list[int], data: st.DataObject) -> None:
    whole = index_entries(*sizes)
    changed = bytearray(whole)
    place = data.draw(st.integers(0, len(sizes) - 1))
    # The first word of an offset, or the first byte of a time: far outside of what the neighbours say.
    changed[32 * place + data.draw(st.sampled_from([0, 12]))] ^= 0x80
    page = index_page(bytes(changed), 0, {"sequence"})
    assert page.is_damaged[place]
    assert set(page.columns["sequence"].to_pylist()) == set(range(len(sizes))) - set(np.flatnonzero(page.is_damaged))
    assert [n for a, b in page.damaged_ranges(0) for n in range(a, b)] == np.flatnonzero(page.is_damaged).tolist()


def test_entries_that_overlap_in_the_log_are_both_damage() -> None:
    entries = index_entries(10, 10, 10)
    swapped = entries[32:64] + entries[:32] + entries[64:]
    assert index_page(swapped, 0, ALL_INDEX).is_damaged.tolist() == [True, True, False]
    assert index_page(entries, 0, ALL_INDEX, previous_end=1001).is_damaged.tolist() == [True, False, False]
    assert index_page(entries, 0, ALL_INDEX, previous_end=1000).is_damaged.tolist() == [False] * 3
    assert log_end(entries, -1) == 1030
    assert log_end(encode_withheld(2), 17) == 17


def test_a_withheld_entry_with_anything_in_it_is_damage() -> None:
    wrong = bytearray(encode_withheld(1))
    wrong[15] = 1
    assert index_page(bytes(wrong) + encode_withheld(1), 3, ALL_INDEX).damaged_ranges(3) == [(3, 4)]


def test_times_beyond_what_can_be_shown_are_null() -> None:
    found = times(np.array([0, 2**62, -(2**62), NOW_MS, 253_402_300_799_999], dtype=np.int64))
    assert found.to_pylist()[:4] == [datetime(1970, 1, 1, tzinfo=UTC), None, None, NOW]
    assert found[4].as_py().year == 9999


def test_progress_columns() -> None:
    key = consumer_key("c1")
    data = b"".join(
        progress_entry(kind, key if kind != RecordKind.OFFLINE else 2**64 - 1, begin=n, end=n + 3, after=40 + n)
        for n, kind in enumerate([RecordKind.PULL, RecordKind.ACK, 7, RecordKind.OFFLINE, RecordKind.START])
    )
    page = progress_page(data, 100, ALL_PROGRESS, {key: "c1", 9: "other"})
    assert rows(page, "position", "kind", "consumer_id", "begin", "end", "next_sequence") == [
        (100, "pull", "c1", 0, 3, 40),
        (101, "ack", "c1", 1, 4, 41),
        (102, "settle", "c1", 2, 5, 42),
        (103, "offline", None, 3, 6, 43),
        (104, "start", "c1", 4, 7, 44),
    ]
    assert page.columns["at"].to_pylist() == [NOW] * 5
    assert page.columns["consumer_key"][3].as_py() == -1
    assert progress_page(data, 0, {"consumer_id"}, {}).columns["consumer_id"].null_count == 5


@settings(deadline=None)
@given(st.binary(min_size=48 * 3, max_size=48 * 3))
def test_progress_checks_are_crcs(data: bytes) -> None:
    assert progress_checks(data).tolist() == [crc32(data[at : at + 44]) for at in (0, 48, 96)]


@settings(deadline=None)
@given(st.integers(0, 47), st.integers(1, 255))
def test_any_changed_byte_of_a_progress_entry_is_seen(place: int, change: int) -> None:
    data = bytearray(progress_entry(RecordKind.PULL) * 3)
    data[48 + place] ^= change
    page = progress_page(bytes(data), 0, ALL_PROGRESS, {})
    assert page.is_damaged.tolist() == [False, True, False]
    assert page.columns["position"].to_pylist() == [0, 2]


@pytest.mark.parametrize("kind", [0, 1, 8, 255])
def test_a_kind_nobody_writes_is_damage(kind: int) -> None:
    assert progress_page(progress_entry(kind), 0, {"kind"}, {}).is_damaged.all()


@pytest.mark.parametrize("layout", [0, 2])
def test_a_layout_that_means_something_else_is_not_read(layout: int) -> None:
    entries = progress_entry(RecordKind.PULL, layout=layout) + progress_entry(RecordKind.PULL)
    assert progress_page(entries, 0, {"kind"}, {}).is_damaged.tolist() == [True, False]


def test_message_columns() -> None:
    raws = [
        encode_raw(Message("s", "m0", {"k": "v"}, ("a",), created_at_ms=NOW_MS)),
        b"",
        encode_raw(Message("s", "m2")),
    ]
    entries = b"".join(ENTRY.pack(5, len(raw), NOW_MS, 0, 0) if raw else encode_withheld(1) for raw in raws)
    wanted = {"sequence", "stored_at", "message_id", "created_at", "tags", "properties"}
    page = messages_page(entries, b"".join(raws), 3, wanted)
    assert rows(page, "sequence", "message_id", "created_at", "tags", "properties") == [
        (3, "m0", NOW, ["a"], [("k", "v")]),
        (4, None, None, None, None),
        (5, "m2", datetime(1970, 1, 1, tzinfo=UTC), [], []),
    ]
    assert page.columns["stored_at"].to_pylist() == [NOW, None, NOW]


def test_a_message_that_is_none_is_left_out_and_named() -> None:
    raws = [encode_raw(Message("s", "m0")), b"x" * 40]
    entries = b"".join(ENTRY.pack(5, len(raw), NOW_MS, 0, 0) for raw in raws)
    page = messages_page(entries, b"".join(raws), 3, {"sequence", "properties"})
    assert rows(page, "sequence", "properties") == [(3, [])]
    assert page.damaged_ranges(3) == [(4, 5)]


def test_why_messages_are_in_a_retry_subject() -> None:
    retry = "%RETRY%orders%g"
    messages = [
        Message(retry, "m0", {"qmq_times": "2", "qmq_retryCause": "TimeoutError"}),
        Message(retry, "m1", {"qmq_times": "3"}),
        Message("orders", "m2"),
        Message(retry, "m3", {"qmq_times": "many", "qmq_retryCause": ""}),
    ]
    raws = [*map(encode_raw, messages), b""]
    entries = b"".join(ENTRY.pack(5, len(raw), NOW_MS, 0, 0) if raw else encode_withheld(1) for raw in raws)
    page = failures_page(entries, b"".join(raws), 0, ALL_FAILURES, retry, is_dead=False)
    assert rows(page, "message_id", "attempt", "cause") == [
        ("m0", 2, "TimeoutError"),
        ("m1", 3, "unknown"),
        ("m2", 1, "consumer_left"),
        ("m3", 1, "unknown"),
        (None, None, "unknown"),
    ]
    dead = failures_page(entries, b"".join(raws), 0, ALL_FAILURES, retry, is_dead=True)
    assert rows(dead, "attempt", "cause")[:3] == [(1, "TimeoutError"), (2, "unknown"), (1, "unknown")]


def test_schedule_columns() -> None:
    hour = NOW_MS // HOUR_MS
    data = make_index(
        np.array([0, 50], dtype=np.int64),
        np.array([NOW_MS, NOW_MS + 1], dtype=np.int64),
        np.array([50, 60], dtype=np.int64),
        np.array([1, 2], dtype=np.uint32),
        1,
    ).tobytes() + lost_index(1)
    states = bytes([State.PENDING, State.CLAIMED, State.LOST])
    page = schedule_page(data, states, hour, 10, {"subject", "due_at", "number", "size", "state"}, pa.array(["a", "b"]))
    assert rows(page, "subject", "number", "size", "state") == [
        ("b", 10, 50, "pending"),
        ("b", 11, 60, "delivering"),
        (None, 12, 0, "lost"),
    ]
    unnamed = schedule_page(data, states, hour, 10, {"subject"}, pa.array(["a"]))
    assert unnamed.columns["subject"].to_pylist() == [None] * 3, "a subject whose name did not come along"
    begin_of_hour = datetime.fromtimestamp(hour * 3600, UTC)
    assert page.columns["due_at"].to_pylist() == [NOW, NOW.replace(microsecond=124_000), begin_of_hour]


@settings(deadline=None)
@given(st.binary(min_size=32 * 3, max_size=32 * 3))
def test_schedule_checks_are_the_node_s(data: bytes) -> None:
    assert arrow.schedule_checks(data).tolist() == checks_of(np.frombuffer(data, dtype=NODE_SCHEDULE)).tolist()


def test_a_batch_has_the_schema_asked_for() -> None:
    schema = pa.schema([pa.field("subject", pa.string(), nullable=False), pa.field("size", pa.int32(), nullable=False)])
    batch = index_page(index_entries(5, 6), 0, {"size"}).to_batch(schema, {"subject": "orders", "broker_group": "g1"})
    assert batch.schema.equals(schema)
    assert batch.to_pylist() == [{"subject": "orders", "size": 5}, {"subject": "orders", "size": 6}]
    assert index_page(b"", 0, {"size"}).to_batch(schema, {"subject": "orders"}).num_rows == 0
