"""Tables read from running nodes: every row, once, and only what was asked for."""

from collections import Counter
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql.functions import col

from broker_node.storage.progress_log import consumer_key
from qmq.sync import Consumer
from tests.served.spark.reading import Read, read_table
from tests.served.spark.shop import DEAD, FAILED, NOTE, ORDERS, PAYMENTS, TAKEN, Shop

GROUPS = ("g1", "g2")


def rows(frame: DataFrame) -> list[Row]:
    return frame.collect()


def utc(moment: datetime) -> datetime:
    """As Python shows a TIMESTAMP: collected ones have no zone and are local."""
    return moment.astimezone(UTC)


def test_the_index_has_every_message_once(read: Read, shop: Shop) -> None:
    found = rows(read("index", subjects="orders,payments"))
    assert Counter(row.subject for row in found) == {"orders": ORDERS, "payments": PAYMENTS}
    for group in GROUPS:
        for subject in shop.sent:
            stored = shop.system.admin(group, f"/stats?subject={subject}")["subjects"][0]["end_sequence"]
            of_range = sorted(row.sequence for row in found if (row.broker_group, row.subject) == (group, subject))
            assert of_range == list(range(stored))
    assert {row.is_withheld for row in found} == {False}
    assert len({(row.broker_group, row.log_offset) for row in found}) == len(found)
    # Three further days of clock would not matter: times are between the first send and the last.
    assert all(shop.began_at <= utc(row.stored_at) + timedelta(seconds=1) for row in found)
    assert all(utc(row.stored_at) <= shop.ended_at for row in found)


def test_messages_are_what_was_sent(read: Read, shop: Shop) -> None:
    found = rows(read("messages", subjects="orders,payments"))
    assert sorted(row.message_id for row in found) == sorted(id for ids in shop.sent.values() for id in ids)
    for row in found:
        number = int(row.message_id.rpartition("-")[2])
        assert row.tags == ["odd" if number % 2 else "even"]
        assert row.properties["n"] == str(number)
        assert row.properties.get("note", "") == ("" if row.message_id != "payments-0" else NOTE)
        assert abs(utc(row.created_at) - utc(row.stored_at)) < timedelta(seconds=60)


def test_without_columns_of_messages_none_is_read(read: Read, shop: Shop) -> None:
    found = rows(read("messages", columns="sequence,size", subjects="payments"))
    sizes = rows(read("index", columns="size,sequence", subjects="payments"))
    assert [tuple(row.asDict()) for row in found[:1]] == [("sequence", "size")]
    assert Counter(found) == Counter(sizes)
    assert len(found) == PAYMENTS


def test_a_schema_given_by_hand_prunes_and_is_checked(read: Read) -> None:
    found = read("index", "size int, subject string", subjects="payments")
    assert found.columns == ["size", "subject"]
    assert found.count() == PAYMENTS
    for schema, text in (("siz int", "no column siz"), ("size string", "is int, the schema says string")):
        with pytest.raises(Exception, match=text):
            read("index", schema).collect()


def test_history_of_groups(read: Read, shop: Shop) -> None:
    found = rows(read("progress", subjects="orders", groups="billing"))
    taken = Counter[str]()
    for row in found:
        taken[row.kind] += row.end - row.begin
        assert (row.group, row.is_broadcast) == ("billing", False)
    # The consumer left with what it had pulled ahead, however much that was, and the broker settled that.
    assert TAKEN < taken["pull"] <= ORDERS
    assert +taken == Counter(pull=taken["pull"], ack=TAKEN, settle=taken["pull"] - TAKEN)
    c1 = int.from_bytes(consumer_key("c1").to_bytes(8, "big"), "big", signed=True)
    assert {(row.consumer_key, row.consumer_id) for row in found if row.kind == "ack"} == {(c1, "c1")}, "it has left"
    for group in GROUPS:
        positions = [row.position for row in found if row.broker_group == group]
        assert sorted(positions) == list(range(len(positions)))


def test_a_consumer_that_is_there_has_its_name(read: Read, shop: Shop) -> None:
    with Consumer(shop.system.meta_url, "watched", "guards", start="earliest", consumer_id="here") as consumer:
        got = [delivery for _ in range(2) for delivery in consumer.pull(1, timeout=20)]
        for delivery in got:
            delivery.ack()
        found = rows(read("progress", subjects="watched", columns="kind,consumer_id"))
    assert {row.consumer_id for row in found if row.kind == "pull"} == {"here"}


def test_retries_and_dead_letters_with_their_causes(read: Read, shop: Shop) -> None:
    retries = rows(read("retries"))
    # The consumer of orders left with what it had pulled ahead.
    history = rows(read("progress", subjects="orders", groups="billing", columns="kind,begin,end"))
    settled = sum(row.end - row.begin for row in history if row.kind == "settle")
    assert settled > 0
    assert Counter((row.subject, row.group, row.attempt, row.cause) for row in retries) == {
        ("payments", "checks", 2, "unknown"): FAILED,
        ("orders", "billing", 1, "consumer_left"): settled,
    }
    dead = rows(read("dead_letters"))
    assert sorted(row.message_id for row in dead) == sorted(shop.dead)
    assert {(row.subject, row.group, row.attempt) for row in dead} == {("payments", "checks", 2)}
    assert len(dead) == DEAD
    assert {row.cause for row in dead} == {"unknown"}
    assert rows(read("retries", subjects="order?", groups="checks")) == []
    assert len(rows(read("retries", groups="check?"))) == FAILED


def test_delayed_messages(read: Read, shop: Shop) -> None:
    found = rows(read("delayed", subjects="reminders,orders"))
    assert sorted(utc(row.due_at) for row in found) == sorted(shop.due.values())
    assert Counter(row.subject for row in found) == {"orders": 3, "reminders": 2}
    assert {(row.broker_group, row.state) for row in found} == {("d1", "pending")}
    after = min(shop.due.values()) + timedelta(minutes=1)
    later = read("delayed").where(col("due_at") >= after).where(col("subject") == "orders")
    assert later.count() == 2


def test_nodes(read: Read, shop: Shop) -> None:
    found = {row.broker_group: row for row in rows(read("nodes"))}
    assert set(found) == {"g1", "g2", "d1"}
    assert {row.kind for row in found.values()} == {"broker", "delay"}
    for row in found.values():
        assert row.log_end_bytes > 0
        assert 0 < row.disk_used_bytes < row.disk_total_bytes
        assert abs(utc(row.seen_at) - utc(row.measured_at)) < timedelta(seconds=30)


def test_queries_of_one_frame_do_not_disturb_each_other(read: Read, shop: Shop) -> None:
    frame = read("index", columns="subject", subjects="orders,payments")
    orders, payments = frame.where(col("subject") == "orders"), frame.where(col("subject") == "payments")
    assert orders.union(payments).count() == ORDERS + PAYMENTS
    assert (payments.count(), frame.count()) == (PAYMENTS, ORDERS + PAYMENTS)


def test_times_as_options(read: Read, shop: Shop) -> None:
    times = sorted(row.stored_at for row in rows(read("index", columns="stored_at", subjects="orders")))
    moments = sorted(set(times))
    begin, end = utc(moments[len(moments) // 4]), utc(moments[len(moments) * 3 // 4])
    assert begin < end, "the shop's orders came at several times"
    found = rows(
        read("index", columns="stored_at", subjects="orders", **{"from": begin.isoformat(), "to": end.isoformat()})
    )
    assert sorted(row.stored_at for row in found) == [at for at in times if begin <= utc(at) < end]


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"table": "indexes"}, "one of index, progress"),
        ({"table": "index", "subject": "orders"}, "no option subject"),
        ({"table": "index", "columns": "size,when"}, "has no column when"),
        ({"table": "index", "from": "yesterday"}, "must be an ISO time"),
        ({"table": "index", "on_gap": "ignore"}, "error or record"),
        ({"table": "index", "on_gap": "record"}, "holes is missing"),
        ({"table": "index", "rows_per_partition": "0"}, "from 1 to"),
    ],
)
def test_wrong_options_are_named(spark: SparkSession, shop: Shop, options: dict[str, str], text: str) -> None:
    with pytest.raises(Exception, match=text):
        read_table(spark, shop.system.meta_url, **options).collect()


def test_a_node_that_cannot_be_read_fails_the_read_with_its_name(read: Read, shop: Shop) -> None:
    assert read("index").count() > 0
    broker = shop.system.brokers["g2"]
    broker.stop()
    try:
        with pytest.raises(Exception, match=r"broker group g2 \(127\.0\.0\.1:\d+\)"):
            read("index").collect()
        assert read("index", broker_groups="g1").count() > 0
    finally:
        broker.start()


def test_nothing_to_read_is_an_empty_table(read: Read, tmp_path: Path) -> None:
    assert read("index", subjects="nobody").count() == 0
    assert read("holes", holes=str(tmp_path / "not yet")).collect() == []
