"""Counters that are declared with their metric."""

from collections import Counter
from dataclasses import dataclass

from prometheus_client import CollectorRegistry, Histogram
from prometheus_client.core import Metric
from prometheus_client.exposition import generate_latest
from prometheus_client.registry import Collector

from qmq_node.process.counters import Buckets, MetricFamilies, counted, counted_by


@dataclass(slots=True)
class Counters:
    sends: int = counted("sent_messages", "Messages received")
    refused: Counter[str] = counted_by("reason", "refused_messages", "Rejected messages, by reason")
    internal: int = 0


def exposition(*families: Metric) -> str:
    class Families(Collector):
        def collect(self) -> tuple[Metric, ...]:
            return families

    registry = CollectorRegistry()
    registry.register(Families())
    return generate_latest(registry).decode()


def test_fields_count_from_zero_and_instances_share_nothing() -> None:
    one, two = Counters(), Counters()
    one.sends += 2
    one.refused["full"] += 1
    assert (two.sends, dict(two.refused), two.internal) == (0, {}, 0)


def test_counted_fields_are_exported_with_the_labels_of_the_daemon() -> None:
    counters = Counters()
    counters.sends = 3
    counters.refused.update(["full", "full", "closed"])
    text = exposition(*MetricFamilies("qmq_broker", {"broker_group": "g1"}).counters(counters))
    assert 'qmq_broker_sent_messages_total{broker_group="g1"} 3.0' in text
    assert 'qmq_broker_refused_messages_total{broker_group="g1",reason="full"} 2.0' in text
    assert 'qmq_broker_refused_messages_total{broker_group="g1",reason="closed"} 1.0' in text
    assert "internal" not in text


def test_families_without_labels() -> None:
    families = MetricFamilies("qmq_meta")
    text = exposition(
        families.gauge("subjects", "Subjects", 7), families.gauge_by("live", "Live groups", "broker_group", {"g1": 1})
    )
    assert "qmq_meta_subjects 7.0" in text
    assert 'qmq_meta_live{broker_group="g1"} 1.0' in text


def test_buckets_are_exported_as_the_histogram_of_prometheus() -> None:
    buckets, histogram = Buckets(0.5, 1, 1 << 20), Histogram("size", "Sizes", buckets=(0.5, 1, 1 << 20), registry=None)
    for value in (0.1, 0.5, 0.7, 1, 3, 5_000_000):
        buckets.observe(value)
        histogram.observe(value)
    expected = [line for line in exposition(*histogram.collect()).splitlines() if "_created" not in line]
    assert exposition(buckets.family("size", "Sizes")).splitlines() == expected
