"""The delay node's Prometheus metrics, read from its counters when somebody asks.

Beside each stands the name that QMQ's operators know (`docs/reference/metrics.md`).
"""

from collections.abc import Iterable
from typing import TYPE_CHECKING

from prometheus_client.core import GaugeMetricFamily, Histogram, Metric

from delay_node.lateness import LatenessWindow
from qmq.daemon.node_metrics import NodeMetrics

if TYPE_CHECKING:
    from delay_node.delay_node import DelayNode

LATENESS_BUCKETS = (0.005, 0.01, 0.02, 0.035, 0.05, 0.075, 0.1, 0.25, 0.5, 1, 5, 30, 300, 3600)


class DelayMetrics(NodeMetrics):
    """What a delay node adds."""

    def __init__(self, node: "DelayNode") -> None:
        super().__init__(node, "qmq_delay")
        self._delay = node
        self.lateness_seconds = Histogram(
            "qmq_delay_lateness_seconds",
            "From a message's due time to the broker's answer that it is stored (delayTime)",
            buckets=LATENESS_BUCKETS,
            registry=self.registry,
        )

        self.last_minute = LatenessWindow(LATENESS_BUCKETS)

    def observe_lateness(self, seconds: float) -> None:
        """A message was delivered so late."""
        self.lateness_seconds.observe(seconds)
        self.last_minute.observe(seconds)

    def collect(self) -> Iterable[Metric]:
        yield from super().collect()
        node, counter, gauge = self._delay, self.counter, self.gauge
        store, delivery, handlers = node.store, node.delivery, node.handlers
        counters, trouble = store.counters, delivery.counters
        yield counter("sent_messages", "Messages taken from producers (receivedMessagesCount)", handlers.counters.sends)
        yield self.by("refused_sends", "Messages refused", "result", dict(handlers.counters.send_failures))
        yield self.by(
            "policy_refused_messages",
            "Messages refused by a policy, by reason",
            "reason",
            dict(handlers.counters.policy_refused_messages),
        )
        yield self.by("bad_requests", "Requests refused, by reason", "reason", dict(handlers.counters.bad_requests))
        yield self.by("queries", "Questions and changes", "command", dict(handlers.counters.queries))
        yield counter("scheduled_messages", "Messages put into the schedule", counters.scheduled)
        yield counter("delivered_messages", "Messages that a broker stored (scheduleDispatch)", counters.delivered)
        yield counter("cancelled_messages", "Messages cancelled", counters.cancelled)
        yield counter("moved_messages", "Messages given another due time", counters.moved)
        yield counter("put_aside_messages", "Messages that all brokers refuse, put aside", counters.refused)
        yield counter("lost_messages", "Schedule entries that fail their check", counters.lost)
        yield counter("unreadable_messages", "Messages whose bytes fail their checks", counters.unreadable)
        yield counter(
            "unknown_deliveries", "Messages sent again because nobody knows whether they arrived", trouble.unknown
        )
        yield counter("batches", "Batches sent to brokers", trouble.batches)
        yield counter("failed_batches", "Batches that no broker stored", trouble.failed_batches)
        yield counter("clock_steps_refused", "Forward steps of the wall clock not believed", node.clock_steps)
        yield gauge("pending_messages", "Messages waiting for their due time", store.pending)
        yield gauge("due_soon_messages", "Messages due within the next minute", node.due_soon)
        yield gauge("overdue_messages", "Due messages not delivered yet", delivery.overdue)
        yield gauge("put_aside", "Messages put aside and waiting for an operator", store.refused)
        yield gauge("wheel_messages", "Messages in the timer wheel", store.wheel.count)
        yield gauge("wheel_memory_bytes", "Memory of the timer wheel", store.wheel.memory_bytes)
        yield gauge("hours_memory_bytes", "Memory of the open hours' states and ids", node.hours_memory_bytes)
        yield gauge("unwritten_bytes", "Schedule and dispatch logs in memory only", store.unwritten_bytes)
        yield gauge(
            "clock_held", "1 while the wall clock is ahead by a step nobody confirmed", node.clock_alarm is not None
        )
        per_subject = GaugeMetricFamily(
            "qmq_delay_undeliverable_messages", "Due messages by subject that can't be delivered now",
            labels=[*self.labels, "subject"],
        )  # fmt: skip
        for problem in delivery.problems(100):
            per_subject.add_metric([*self.labels.values(), str(problem["subject"])], float(str(problem["waiting"])))
        yield per_subject
