"""The delay node's Prometheus metrics, read from its counters. Texts in parentheses: QMQ's metric (docs/reference/metrics.md)."""

from bisect import bisect_left
from collections.abc import Iterable, Sequence
from itertools import accumulate

from prometheus_client.core import Metric

from delay_node.dispatcher import Dispatcher
from delay_node.group_clock import GroupClock
from delay_node.handlers import Handlers
from delay_node.store import DelayStore
from qmq_node.member.replication import Replication
from qmq_node.member.role_metrics import role_metrics
from qmq_node.node.metrics import NodeMetrics
from qmq_node.node.node import Node
from qmq_node.process.counters import Buckets

LATENESS_BUCKETS = (0.005, 0.01, 0.02, 0.035, 0.05, 0.075, 0.1, 0.25, 0.5, 1, 5, 30, 300, 3600)
SLOT_SECONDS = 10.0
SLOTS = 6


class LatenessWindow:
    """Counts of the last SLOTS * SLOT_SECONDS seconds, by the upper ends of `buckets` (seconds, rising)."""

    def __init__(self, buckets: Sequence[float]) -> None:
        self._buckets = tuple(buckets)
        self._slots: dict[int, list[int]] = {}
        self._counts = self._slots.setdefault(0, [0] * (len(buckets) + 1))

    def tick(self, now: float) -> None:
        """Advance to this moment (monotonic seconds); what is too old is forgotten."""
        newest = int(now / SLOT_SECONDS)
        for number in [number for number in self._slots if number <= newest - SLOTS]:
            del self._slots[number]
        self._counts = self._slots.setdefault(newest, [0] * (len(self._buckets) + 1))

    def observe(self, seconds: float) -> None:
        self._counts[bisect_left(self._buckets, seconds)] += 1

    def quantile(self, share: float) -> float | None:
        """The end of the bucket that this share of the deliveries does not exceed; None: there were none."""
        seen = list(accumulate(map(sum, zip(*self._slots.values(), strict=True))))
        if not seen[-1]:
            return None
        at = bisect_left(seen, seen[-1] * share)
        return self._buckets[min(at, len(self._buckets) - 1)]


class DelayMetrics(NodeMetrics):
    """The metrics of a delay node. `dispatcher` and `handlers` are set before the first collection."""

    dispatcher: Dispatcher
    handlers: Handlers

    def __init__(self, node: Node, replication: Replication, store: DelayStore, clock: GroupClock) -> None:
        super().__init__(node, "qmq_delay")
        self._replication = replication
        self._store = store
        self._clock = clock
        self.lateness_seconds = Buckets(*LATENESS_BUCKETS)
        self.last_minute = LatenessWindow(LATENESS_BUCKETS)

    def observe_lateness(self, seconds: float) -> None:
        self.lateness_seconds.observe(seconds)
        self.last_minute.observe(seconds)

    def collect(self) -> Iterable[Metric]:
        yield from super().collect()
        yield from role_metrics(self, self._replication)
        store, dispatcher, handlers = self._store, self.dispatcher, self.handlers
        yield from self.counters(handlers.counters, store.counters, dispatcher.sender.counters)
        text = "Time from a message's due time until a broker has stored it (delayTime)"
        yield self.lateness_seconds.family("qmq_delay_lateness_seconds", text)
        yield from self._clock.metrics(self)
        for name, text, value in (
            ("pending_messages", "Pending messages", store.pending),
            ("due_soon_messages", "Messages due within the next minute", dispatcher.due_soon),
            ("overdue_messages", "Due messages not delivered yet", dispatcher.lanes.overdue),
            ("lost_messages", "Messages whose schedule entry is corrupted", store.counters.lost),
            ("unreadable_messages", "Messages whose body is corrupted", store.bodies.unreadable),
            ("put_aside", "Held messages, which wait for an operator", store.refused),
            ("wheel_messages", "Messages in the timer wheel", store.wheel.count),
            ("wheel_memory_bytes", "Memory of the timer wheel", store.wheel.memory_bytes),
            ("hours_memory_bytes", "Memory of states and IDs of loaded hours", store.hours.memory_bytes),
            ("unwritten_bytes", "Schedule and dispatch logs not written to disk yet", store.hours.unwritten_bytes),
        ):
            yield self.gauge(name, text, value)
        yield self.gauge_by(
            "undeliverable_messages",
            "Due messages by subject that can't be delivered now",
            "subject",
            {problem["subject"]: problem["waiting"] for problem in dispatcher.lanes.problems(100)},
        )
