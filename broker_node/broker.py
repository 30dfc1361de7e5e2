"""class Broker: a node that keeps real-time messages and hands them to consumers."""

import asyncio
import logging

from broker_node.admin import BrokerAdmin
from broker_node.checkpointing import BrokerCheckpoints
from broker_node.delivery import Delivery
from broker_node.handlers import Handlers
from broker_node.history_retention import HistoryRetention
from broker_node.metrics import BrokerMetrics
from broker_node.options import BrokerOptions
from broker_node.rates import RateTable
from broker_node.reading import BrokerReading
from broker_node.recovery import RecoveryReport, groups_with_orphans, open_store
from broker_node.retry import move_to_retry
from broker_node.stats import rate_counters
from broker_node.store import StoreLimits
from broker_node.subject_retention import SubjectRetention
from qmq.clock import Clock
from qmq.daemon.admin_http import AdminHttp
from qmq.daemon.checkpointing import Checkpointing
from qmq.daemon.file_budget import FileBudget
from qmq.daemon.node import Node
from qmq.log.disk import Disk
from qmq.log.index import HandleCache
from qmq.log.log import SegmentedLog
from qmq.log.retention import SegmentAge, keep_from
from qmq.net.server import Connection
from qmq.protocol.codes import Role
from qmq.protocol.frames import Frame

logger = logging.getLogger("qmq.broker")

SWEEP_SUBJECTS_MAX = 2_000
"""Subjects looked through for silent consumers in one tick; all of them in turn."""
SWEEP_CONSUMERS_MAX = 100
"""Consumers settled in one sweep: moving messages takes the event loop's time."""


class Broker(Node):
    """One broker node."""

    kind = "broker"
    role = Role.MASTER
    options: BrokerOptions
    metrics: BrokerMetrics

    def __init__(self, options: BrokerOptions, clock: Clock | None = None, disk: Disk | None = None) -> None:
        super().__init__(options, clock, disk)
        self.rates = RateTable()
        self._to_sweep: list[str] = []

    # --- life ------------------------------------------------------------------------------------------------------

    def open_store(self, budget: FileBudget) -> SegmentedLog:
        options = self.options
        self.store, self.recovery = open_store(
            self.disk,
            options.data_dir,
            self.clock,
            limits=StoreLimits(options.subjects_max, options.groups_per_subject_max, options.consumers_per_group_max),
            segment_bytes=options.segment_bytes,
            handles=HandleCache(self.disk, budget.index_files),
        )
        self._say_recovery(self.recovery)
        return self.store.log

    def build(self) -> AdminHttp:
        options = self.options
        self.delivery = Delivery(
            self.store,
            retry_delay_ms=round(options.retry_delay_seconds * 1000),
            lease_seconds=options.consumer_lease_seconds,
        )
        self.metrics = BrokerMetrics(self)
        self.handlers = Handlers(
            self.store,
            self.delivery,
            self.committer,
            self.clock,
            self.refuse_sends,
            self.send_gate,
            BrokerReading(self.store, self.committer, self.clock, self.read_gate, options.group, self.node_id),
        )
        self.handlers.apply(self.policy)
        self.subject_retention = SubjectRetention(self.store, options.retention_hours)
        self.subject_retention.apply(self.policy)
        self.history_retention = HistoryRetention(self.store, options.retention_hours)
        self.checkpoints = Checkpointing(
            BrokerCheckpoints(self.store),
            self.store.log,
            self.committer,
            self.clock,
            options.checkpoint_bytes,
            options.checkpoint_seconds,
            0 if self.recovery.rebuilt else self.recovery.from_offset,
        )
        return BrokerAdmin(self).server()

    def _say_recovery(self, report: RecoveryReport) -> None:
        logger.info(
            "%d commits with %d messages replayed from log offset %d on%s",
            report.replayed_commits,
            report.replayed_messages,
            report.from_offset,
            f"; all derived files made again: {report.why_rebuilt}" if report.rebuilt else "",
        )

    async def before_serving(self) -> None:
        self._retry_orphans()
        # What the policy dropped before may be back: files made again, or a checkpoint from before.
        has_more = True
        while has_more:
            has_more = self.subject_retention.tick(0)
            await asyncio.sleep(0)

    def _retry_orphans(self) -> None:
        """Messages whose assignment was lost with a damaged commit go to their group's retry subject."""
        for subject, group in groups_with_orphans(self.store):
            moved = move_to_retry(self.store, subject, group, group.progress.orphans)
            self.store.counters.orphans += moved
            group.progress.orphans.clear()
            logger.warning(
                "subject %s, group %s: %d messages of a lost assignment are retried",
                subject.name,
                group.progress.group,
                moved,
            )
        self.committer.kick()

    async def stopping(self) -> None:
        self.handlers.stop()

    # --- what happens ----------------------------------------------------------------------------------------------

    def handle(self, connection: Connection, frame: Frame) -> None:
        self.handlers.handle(connection, frame)

    def synced(self, synced_end: int) -> None:
        self.handlers.synced(self.store.completed(synced_end))

    def tick(self, now: float) -> None:
        self.rates.add(now, rate_counters(self.store.touched))
        self.store.touched.clear()
        self._retain()
        self.subject_retention.tick(self.checkpoints.saved)
        self.history_retention.tick(now, self.checkpoints.saved)
        self._sweep(now)

    def policy_changed(self) -> None:
        self.handlers.apply(self.policy)
        self.subject_retention.apply(self.policy)

    def _sweep(self, now: float) -> None:
        """Settle consumers that fell silent; forget those silent for very long."""
        lease, forget = self.options.consumer_lease_seconds, self.options.consumer_forget_hours * 3600
        settled = 0
        if not self._to_sweep:
            self._to_sweep = list(self.store.subjects)
        names, self._to_sweep = self._to_sweep[:SWEEP_SUBJECTS_MAX], self._to_sweep[SWEEP_SUBJECTS_MAX:]
        for subject in [self.store.subjects[name] for name in names]:
            for group in list(subject.groups.values()):
                for consumer in list(group.progress.consumers.values()):
                    silent = now - consumer.seen_at
                    if settled >= SWEEP_CONSUMERS_MAX:
                        continue
                    if silent < lease:
                        if self.delivery.abandoned(group, consumer, now):
                            settled += 1
                            self.delivery.settle_abandoned(subject, group, consumer)
                        continue
                    if consumer.log.in_flight and not group.progress.broadcast:
                        settled += 1
                        logger.info(
                            "consumer %s of group %s is silent for %.0f s: its %d unacked messages of %s are retried",
                            consumer.consumer_id, group.progress.group, silent, consumer.log.in_flight, subject.name,
                        )  # fmt: skip
                        self.delivery.settle(subject, group, consumer)
                    elif silent >= forget and not consumer.log.in_flight:
                        settled += 1
                        self.delivery.leave(subject, group, consumer)
        if settled:
            self.committer.kick()

    def _retain(self) -> None:
        log = self.store.log
        infos = log.segments()
        if len(infos) < 2:
            return
        newest = self.store.segment_newest_ms
        ages = [
            SegmentAge(info.base, info.end, newest.get(info.base)) for info in infos if info.base <= log.written_end
        ]
        cut = keep_from(
            ages,
            now_ms=self.clock.wall_ms(),
            keep_ms=round(self.options.retention_hours * 3_600_000),
            keep_bytes=self.options.retention_bytes,
            floor=self.checkpoints.floor,
        )
        gone = log.drop_before(cut)
        for base in gone:
            newest.pop(base, None)
        if gone:
            logger.info("retention: %d segments deleted, the log begins at offset %d", len(gone), log.begin)
