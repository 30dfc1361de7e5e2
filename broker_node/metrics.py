"""The broker's Prometheus metrics, read from its counters when somebody asks.

Beside each stands the name that QMQ's operators know (`docs/reference/metrics.md`).
"""

from collections.abc import Iterable
from typing import TYPE_CHECKING

from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    Histogram,
    Metric,
)
from prometheus_client.registry import Collector, CollectorRegistry

from qmq.lag import lag_of

if TYPE_CHECKING:
    from broker_node.broker import Broker

SUBJECT_SERIES_MAX = 2_000
"""Subjects with series of their own; the busiest are shown, `qmq_broker_subjects` tells how many there are."""


class BrokerMetrics(Collector):
    """Collects from a broker; histograms are kept here."""

    def __init__(self, broker: "Broker") -> None:
        self._broker = broker
        self.registry = CollectorRegistry()
        self.commit_seconds = Histogram(
            "qmq_broker_commit_seconds",
            "Time of one commit, write and sync (QMQ: putMessageTime)",
            buckets=(0.0002, 0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.5, 1, 5),
            registry=self.registry,
        )
        self.commit_bytes = Histogram(
            "qmq_broker_commit_bytes",
            "Bytes of one commit",
            buckets=(256, 1024, 4096, 16384, 65536, 262144, 1 << 20, 4 << 20, 8 << 20),
            registry=self.registry,
        )
        self.registry.register(self)

    def collect(self) -> Iterable[Metric]:
        broker = self._broker
        store, delivery, handlers, server = broker.store, broker.delivery, broker.handlers, broker.server.metrics
        labels = {"broker_group": broker.options.group}

        def counter(name: str, text: str, value: float) -> Metric:
            family = CounterMetricFamily(f"qmq_broker_{name}", text, labels=list(labels))
            family.add_metric(list(labels.values()), value)
            return family

        def gauge(name: str, text: str, value: float) -> Metric:
            family = GaugeMetricFamily(f"qmq_broker_{name}", text, labels=list(labels))
            family.add_metric(list(labels.values()), value)
            return family

        def by_reason(name: str, text: str, label: str, values: dict[str, int]) -> Metric:
            family = CounterMetricFamily(f"qmq_broker_{name}", text, labels=[*labels, label])
            for reason, value in values.items():
                family.add_metric([*labels.values(), reason], value)
            return family

        yield counter("sent_messages", "Messages taken from producers (receivedMessagesCount)", handlers.counters.sends)
        yield counter("stored_message_bytes", "Bytes of messages made visible", store.counters.message_bytes)
        yield by_reason(
            "refused_messages",
            "Messages refused (storeMessageErrorCount, brokerReadOnlyMessageCount)",
            "result",
            dict(handlers.counters.send_failures),
        )
        yield counter("pull_requests", "Pulls (pullRequestCount)", handlers.counters.pulls)
        yield counter(
            "pulled_messages", "Messages handed out for the first time (pulledMessagesCount)", delivery.counters.pulled
        )
        yield counter("redelivered_messages", "Messages handed out again", delivery.counters.redelivered)
        yield counter("ack_requests", "Acks (ackRequestCount)", handlers.counters.acks)
        yield counter("acked_messages", "Messages acked (consumerAckCount)", delivery.counters.acked)
        yield counter(
            "duplicate_acks", "Acks of what was acked (consumerDuplicateAckCount)", delivery.counters.duplicate_acks
        )
        yield counter("lost_acks", "Acks of nothing known (consumerLostAckCount)", delivery.counters.lost_acks)
        yield counter(
            "behind_retention_messages", "Messages removed before a group read them", delivery.counters.fell_behind
        )
        yield counter("withheld_messages", "Stored messages that fail their checks", store.counters.withheld_messages)
        yield counter(
            "repaired_index_entries", "Index entries made again from the log", store.counters.repaired_entries
        )
        yield counter("flush_errors", "Index writes that failed and are tried again", store.counters.flush_errors)
        yield counter("commits", "Commits written", broker.committer.commits)
        yield counter("cold_pulls", "Pulls that waited for the disk", handlers.counters.cold_pulls)
        yield by_reason("bad_requests", "Requests refused, by reason", "reason", dict(handlers.counters.bad_requests))
        yield by_reason("bad_frames", "Frames that closed their connection", "reason", dict(server.bad_frames))
        yield counter("half_frames", "Connections closed for half a frame and silence", server.half_frames)
        yield counter("write_stalls", "Connections closed for not reading", server.write_stalls)
        yield counter("refused_connections", "Connections over the limit", server.refused)
        yield counter("handler_errors", "Requests that met an error of ours", server.handler_errors)
        yield counter("received_bytes", "Bytes from clients", server.bytes_in)
        yield counter("sent_bytes", "Bytes to clients", server.bytes_out)
        yield gauge("connections", "Client connections (brokerActiveClientCount)", server.connections)
        yield gauge("held_pulls", "Pulls waiting for messages", handlers.polls.held)
        yield gauge("unsynced_bytes", "Bytes appended and not on disk", store.log.pending_bytes)
        yield gauge("log_end_bytes", "Log offset behind the last commit", store.log.written_end)
        yield gauge("log_begin_bytes", "Oldest log offset kept", store.log.begin)
        yield gauge("damaged_ranges", "Ranges of the log that can't be read", len(store.log.damaged))
        yield gauge("disk_free_bytes", "Free space where the log is", broker.disk_free_bytes)
        yield gauge("subjects", "Subjects on this node", len(store.subjects))
        yield gauge("writable", "1 when sends are taken", 0 if broker.refuse_sends() else 1)
        yield from self._per_subject(labels)

    def _per_subject(self, labels: dict[str, str]) -> Iterable[Metric]:
        store = self._broker.store
        busiest = sorted(store.subjects.values(), key=lambda s: s.sent_total, reverse=True)[:SUBJECT_SERIES_MAX]
        sent = CounterMetricFamily("qmq_broker_subject_messages", "Messages stored", labels=[*labels, "subject"])
        names = [*labels, "subject", "group"]
        backlog = GaugeMetricFamily("qmq_broker_backlog_messages", "Backlog (messageSequenceLag)", labels=names)
        in_flight = GaugeMetricFamily("qmq_broker_in_flight_messages", "Pulled and not acked", labels=names)
        dead = GaugeMetricFamily(
            "qmq_broker_dead_letter_messages",
            "Messages in a dead-letter subject (deadLetterQueueCount)",
            labels=[*labels, "subject"],
        )
        for subject in busiest:
            sent.add_metric([*labels.values(), subject.name], subject.sent_total)
            if subject.name.startswith("%DEAD_RETRY"):
                dead.add_metric([*labels.values(), subject.name], subject.visible_end - subject.begin)
            for name, group in subject.groups.items():
                progress = group.progress
                lag = lag_of(subject.visible_end, progress.next_sequence, subject.begin, progress.in_flight)
                backlog.add_metric([*labels.values(), subject.name, name], lag.backlog)
                in_flight.add_metric([*labels.values(), subject.name, name], lag.in_flight)
        yield from (sent, backlog, in_flight, dead)
