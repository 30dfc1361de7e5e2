"""The broker's Prometheus metrics, read from its counters on each request.

Beside each stands the name that QMQ's operators know (`docs/reference/metrics.md`).
"""

import asyncio
from collections.abc import Iterable
from heapq import nlargest

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric

from broker_node.admin.view import NodeView
from broker_node.retention.retention_clock import RetentionClock
from qmq.lag import lag_of
from qmq_node.member.replication import Replication
from qmq_node.member.role_metrics import role_metrics
from qmq_node.node.metrics import NodeMetrics
from qmq_node.slices import Pacer

PACE_UNITS = 100
"""Subjects and groups whose numbers are collected in one iteration of the event loop."""
SUBJECT_SERIES_MAX = 2_000
"""Subjects with series of their own; those with the most messages since start."""


class BrokerMetrics(NodeMetrics):
    """The metrics that only brokers have."""

    def __init__(self, view: NodeView, replication: Replication, retention_clock: RetentionClock) -> None:
        super().__init__(view.node, "qmq_broker")
        self._view, self._replication, self._retention_clock = view, replication, retention_clock

    def collect(self) -> Iterable[Metric]:
        counter, gauge = self.counter, self.gauge
        store, delivery, handlers = self._view.store, self._view.delivery, self._view.handlers
        yield from super().collect()
        yield from role_metrics(self, self._replication)
        yield from self.counters(handlers.counters, store.counters, delivery.counters)
        unreadable, index_pages = store.message_log.unreadable, store.handles.unreadable
        settlements, limits = delivery.settlements, store.limits
        gap_ms = sum(gap.ms for gap in self._retention_clock.gaps())
        duplicates = delivery.duplicates.count(store.clock.monotonic())
        read_errors = unreadable.read_errors + index_pages.read_errors
        yield counter("read_errors", "Failed reads of stored messages and index pages", read_errors)
        for name, text, value in (
            ("unreadable_messages", "Messages withheld because the disk can't read them", len(unreadable)),
            ("unreadable_index_pages", "Pages of index files that the disk can't read", len(index_pages)),
            ("settlements", "Consumers whose unacked messages are being retried", len(settlements.running)),
            (
                "deferred_settlements",
                "Consumers whose unacked messages wait for space to be retried",
                len(settlements.deferred),
            ),
            (
                "retention_gap_seconds",
                "Wall time that does not count towards the age of messages: clock steps and downtime of the broker",
                gap_ms / 1000,
            ),
            ("held_pulls", "Pulls waiting for messages", handlers.polls.held),
            ("duplicate_consumer_ids", "Consumer IDs used by two connections at the same time", duplicates),
            ("subjects", "Subjects on this node", len(store.subjects)),
            ("real_subjects", "Subjects without retry and dead-letter subjects", store.real_subjects),
            ("subjects_max", "Maximum number of real subjects of this node", limits.subjects_max),
        ):
            yield gauge(name, text, value)

    async def families(self) -> list[Metric]:
        return [*await super().families(), *await self._per_subject(self.labels)]

    async def _per_subject(self, labels: dict[str, str]) -> list[Metric]:
        subjects = list(self._view.store.subjects.values())
        busiest = await asyncio.to_thread(
            nlargest, SUBJECT_SERIES_MAX, subjects, key=lambda subject: subject.sent_total
        )
        names, node = [*labels, "subject"], list(labels.values())
        sent = CounterMetricFamily("qmq_broker_subject_messages", "Stored messages", labels=names)
        gauges = [
            GaugeMetricFamily(f"qmq_broker_{name}", text, labels=[*names, *more])
            for name, text, *more in (
                ("backlog_messages", "Backlog (messageSequenceLag)", "group"),
                ("in_flight_messages", "Messages pulled and not acknowledged", "group"),
                ("dead_letter_messages", "Messages in a dead-letter subject (deadLetterQueueCount)"),
                ("subject_withheld_messages", "Stored messages that are lost to corruption and can't be consumed"),
            )
        ]
        backlog, in_flight, dead, withheld = gauges
        pacer = Pacer(PACE_UNITS)
        for subject in busiest:
            await pacer.spend(1 + len(subject.groups))
            sent.add_metric([*node, subject.name], subject.sent_total)
            if count := subject.withheld_count:
                withheld.add_metric([*node, subject.name], count)
            if subject.name.startswith("%DEAD_RETRY"):
                dead.add_metric([*node, subject.name], subject.visible_end - subject.begin)
            for name, group in subject.groups.items():
                progress = group.progress
                lag = lag_of(subject.visible_end, progress.next_sequence, subject.begin, progress.in_flight)
                backlog.add_metric([*node, subject.name, name], lag.backlog)
                in_flight.add_metric([*node, subject.name, name], lag.in_flight)
        return [sent, *gauges]
