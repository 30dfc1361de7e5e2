"""From real nodes to summary tables: what was sent, acked, given up and delayed is what pages show."""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from shutil import rmtree

import pytest
from pyspark.sql import SparkSession

from console.analytics.models import AnalyticsRun, RunState
from console.analytics.tables import TABLES
from qmq.sync import Consumer, Producer
from spark_analytics import schemas
from spark_analytics.jobs.catalog import ORDER
from spark_analytics.jobs.runner import Request, Runner
from spark_analytics.lake import Lake
from spark_analytics.lake.delta import now_ms
from spark_analytics.lake.tables import STREAMED
from tests.served.spark.live_runs import LATER_MS, run, sums
from tests.served.spark.shop import Shop
from tests.support.servers.system import System
from tests.support.waiting import eventually
from tests.support.whole import in_whole_spark_runs

pytestmark = pytest.mark.django_db(transaction=True)

SENT = 300


@pytest.fixture
def nodes(tmp_path: Path) -> Iterator[System]:
    """Two broker groups and a delay group with some traffic on them."""
    found = System(tmp_path)
    found.add_delay("d1")
    try:
        found.start()
        yield found
    finally:
        found.stop()


@dataclass(frozen=True, slots=True)
class Done:
    """What a consumer did, in messages."""

    acked: int
    given_up: int

    @property
    def settled(self) -> int:
        """Who gives a message up acks it too: it goes on as another one, in the dead-letter subject."""
        return self.acked + self.given_up


def traffic(nodes: System) -> Done:
    """SENT messages of which most were consumed, some given up, and one that is due in two days."""
    with Consumer(nodes.meta_url, "orders", "billing", consumer_id="b1", start="earliest", attempts_max=1) as consumer:
        with Producer(nodes.meta_url) as producer:
            for number in range(SENT):
                producer.send_soon("orders", {"order": number})
            producer.flush()
            producer.send("orders", {"late": True}, delay=timedelta(days=2))
        acked, given_up = 0, 0
        while acked + given_up < SENT - 50:
            for delivery in consumer.pull(10, timeout=5):
                if given_up < 3:
                    delivery.retry()
                    given_up += 1
                else:
                    delivery.ack()
                    acked += 1
    return Done(acked, given_up)


def assert_counted(done: Done) -> None:
    assert sums("subject_rates", "sent_messages", subject="orders") == SENT
    assert sums("group_rates", "acked_messages", subject="orders", group="billing") == done.settled
    assert sums("failures", "messages", subject="orders", kind="dead_letter") == done.given_up


def test_rows_are_complete_up_to_the_nodes_own_time(spark: SparkSession, shop: Shop, tmp_path: Path) -> None:
    """By this machine's clock, which is ahead of the nodes' here, they would seem complete before they are."""
    lake = Lake(spark, str(tmp_path / "lake"))
    before_ms = now_ms()
    report = Runner(lake, Request({"metaserver": shop.system.meta_url}), now_ms=lambda: now_ms() + LATER_MS).run(
        ["ingest"]
    )
    assert not report.failed, report.failed
    for table in STREAMED:
        watermarks = lake.snapshot(table).watermarks
        assert set(watermarks) == {"g1", "g2"}
        assert all(before_ms <= at_ms <= now_ms() for at_ms in watermarks.values()), table


@in_whole_spark_runs
def test_what_happened_on_the_nodes_is_counted(spark: SparkSession, nodes: System, tmp_path: Path) -> None:
    done = traffic(nodes)
    lake = Lake(spark, str(tmp_path / "lake"))
    report = run(lake, nodes, ("ingest", "rates", "failures"))
    assert report.watermark_ms is not None
    assert_counted(done)
    assert {run.state for run in AnalyticsRun.objects.all()} == {RunState.SUCCEEDED}
    read = AnalyticsRun.objects.get(job="ingest")
    assert (read.rows_read or 0) > SENT
    assert read.watermark_at is not None
    first = report.rows_read

    with Producer(nodes.meta_url) as producer:
        for number in range(40):
            producer.send_soon("orders", {"order": number})
        producer.flush()
    again = run(lake, nodes, ("ingest", "rates"))
    assert again.rows_read < first, "what was read is not read again"
    rows = lake.snapshot("index").files.values()
    assert sum(item.rows for item in rows) >= SENT + 40


@in_whole_spark_runs
def test_a_broker_group_that_is_down_holds_up_its_own_rows_only(
    spark: SparkSession, nodes: System, tmp_path: Path
) -> None:
    def sent() -> int:
        return int(sums("subject_rates", "sent_messages", subject="orders"))

    total = 0

    def send() -> None:
        """One by one: what is sent together goes to one broker group."""
        nonlocal total
        with Producer(nodes.meta_url) as producer:
            for _ in range(20):
                producer.send("orders", {"order": total})
                total += 1

    def of_group(group: str) -> int:
        read = spark.read.format("qmq").options(metaserver=nodes.meta_url, table="index", subjects="orders")
        return read.load().where(f"broker_group = '{group}'").count()

    def send_until_in_g2() -> int:
        send()
        while not (found := of_group("g2")):
            send()
        return found

    lake = Lake(spark, str(tmp_path / "lake"))
    in_g2 = send_until_in_g2()
    run(lake, nodes, ("ingest", "rates"))
    assert sent() == total

    nodes.brokers["g2"].kill()
    before = lake.watermark_ms()
    send()
    report = run(lake, nodes, ("ingest", "rates"))
    assert set(report.missing) == {"g2"}
    assert "without g2" in report.result().text
    after = lake.watermark_ms()
    assert before is not None
    assert after is not None
    assert after > before, "the others' rows are complete"
    assert sent() == total
    late_rows = AnalyticsRun.objects.filter(job="ingest").latest("pk").late_rows
    assert late_rows is not None
    assert late_rows >= 20, "the watermark was moved ahead of them: their hour is computed again"
    for job in ("ingest", "rates"):
        assert AnalyticsRun.objects.filter(job=job).latest("pk").missing == ["g2"], "what it published is partial"
    assert AnalyticsRun.objects.filter(job="rates").earliest("pk").missing == []

    # It comes back with an empty folder: what it held is gone from it, not from the lake.
    rmtree(nodes.folder / "g2")
    nodes.brokers["g2"].start()
    nodes.accept_log_loss("g2")
    eventually(lambda: "g2" not in run(lake, nodes, ("ingest",)).missing, what="g2 can be read again")
    new_in_g2 = send_until_in_g2()
    run(lake, nodes, ("ingest", "rates"))
    assert sent() == total
    assert AnalyticsRun.objects.filter(job="rates").latest("pk").missing == []
    holes = (
        spark.read.format("qmq").options(metaserver=nodes.meta_url, table="holes", holes=f"{lake.root}/_holes").load()
    )
    assert {(hole.broker_group, hole.reason) for hole in holes.collect()} == {("g2", "emptied")}
    rows = lake.read("index", 0, now_ms() + LATER_MS).where("subject = 'orders' and broker_group = 'g2'")
    first, *others = sorted(row.sequence for row in rows.collect())
    new = [sequence for sequence in (first, *others) if sequence >= schemas.SEQUENCES_PER_LOG]
    assert len(new) == new_in_g2
    assert new[0] == schemas.SEQUENCES_PER_LOG
    assert len(others) + 1 == in_g2 + len(new)


@in_whole_spark_runs
def test_every_job_in_the_products_own_session(product_spark: SparkSession, nodes: System, tmp_path: Path) -> None:
    done = traffic(nodes)
    run(Lake(product_spark, str(tmp_path / "lake")), nodes, ORDER)
    assert_counted(done)
    assert sums("latencies", "messages", subject="orders", kind="handling") == done.settled
    assert sums("consumer_shares", "acked_messages", subject="orders", consumer_id="b1") == done.settled, "it has left"
    pending = TABLES["delayed_load"].model._default_manager.filter(step_seconds=86400)
    assert sum(row.pending_messages for row in pending) == 1
    assert {run.state for run in AnalyticsRun.objects.all()} == {RunState.SUCCEEDED}
