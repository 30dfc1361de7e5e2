"""What pages show stays what was sent, whichever member of a broker group leads when analytics read it."""

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from console.analytics.models import AnalyticsRun
from qmq.sync import Consumer, Producer
from spark_analytics.lake import Lake
from tests.faults.replication.scene import in_sync, process_of
from tests.served.spark.live_runs import run, sums
from tests.support.servers.system import System
from tests.support.whole import in_whole_spark_runs

pytestmark = [pytest.mark.django_db(transaction=True), in_whole_spark_runs]

EACH = 40
GROUPS = ("g1", "g2")


@pytest.fixture
def nodes(tmp_path: Path) -> Iterator[System]:
    """Two broker groups with a slave each."""
    found = System(tmp_path, copies=2)
    try:
        found.start()
        yield found
    finally:
        found.close()


class Truth:
    """Sends and acknowledges messages, and compares what analytics published with them."""

    def __init__(self, nodes: System, lake: Lake) -> None:
        self._nodes, self._lake = nodes, lake
        self.sent = self.acked = 0

    def trade(self) -> None:
        """Send EACH messages one by one, so that both groups get some, and acknowledge half of what can be pulled."""
        with (
            Producer(self._nodes.meta_url) as producer,
            Consumer(self._nodes.meta_url, "orders", "billing", consumer_id="b1", start="earliest") as consumer,
        ):
            for _ in range(EACH):
                producer.send("orders", {"order": self.sent})
                self.sent += 1
            goal = self.acked + EACH // 2
            while self.acked < goal:
                for delivery in consumer.pull(min(10, goal - self.acked), timeout=5):
                    delivery.ack()
                    self.acked += 1

    def holds(self) -> None:
        """Run the jobs, and compare."""
        report = run(self._lake, self._nodes, ("ingest", "rates"))
        assert report.missing == {}
        assert sums("subject_rates", "sent_messages", subject="orders") == self.sent
        assert sums("group_rates", "acked_messages", subject="orders", group="billing") == self.acked
        assert AnalyticsRun.objects.filter(job="ingest").latest("pk").holes == 0


def masters(nodes: System) -> dict[str, str]:
    async def all_in_sync() -> dict[str, str]:
        return {group: await in_sync(nodes, group) for group in GROUPS}

    return asyncio.run(all_in_sync())


def test_numbers_are_what_was_sent_after_each_change_of_master(
    spark: SparkSession, nodes: System, tmp_path: Path
) -> None:
    first = masters(nodes)
    truth = Truth(nodes, Lake(spark, str(tmp_path / "lake")))
    truth.trade()
    truth.holds()

    # A master that stops has its slave promoted: a rolling restart, once and back.
    for _ in range(2):
        for master in masters(nodes).values():
            process = process_of(nodes, master)
            assert process.stop() == 0
            process.start(wait=False)
            masters(nodes)
        truth.trade()
        truth.holds()
    assert masters(nodes) == first, "the former masters lead again"

    # Failover, and back.
    for _ in range(2):
        process = process_of(nodes, masters(nodes)["g1"])
        process.kill()
        process.start(wait=False)
        masters(nodes)
        truth.trade()
        truth.holds()
