"""class BrokerServing: what a broker does for its clients and operators once its data is open."""

import asyncio
import logging
from typing import Any

from broker_node.admin.metrics import BrokerMetrics
from broker_node.admin.pages import BrokerPages
from broker_node.admin.view import NodeView
from broker_node.delivery.consumer_leases import ConsumerLeases
from broker_node.delivery.delivery import Delivery
from broker_node.delivery.retry_writer import Budget, move_orphans
from broker_node.handlers import Handlers
from broker_node.options import BrokerOptions
from broker_node.recovery.broker_data import BrokerData
from broker_node.retention.subject_removal import SubjectRemoval
from broker_node.retention.subject_retention import SubjectRetention
from broker_node.storage.disk_work import DiskWork
from broker_node.storage.rates import RateTable
from broker_node.storage.subject_table import LimitReached
from qmq.errors import LogError, NoSpace
from qmq_node.admin.server import AdminPages
from qmq_node.log.retention import keep_from
from qmq_node.member.replication import Replication
from qmq_node.node.node import Node, NodeServing
from qmq_node.node.storage import JOB_SECONDS
from qmq_node.slices import Pacer

logger = logging.getLogger("qmq.broker")

SAMPLE_UNITS = 1_000
"""Subjects and groups whose rates are sampled in one iteration of the event loop."""


class BrokerServing(NodeServing):
    """Sends, pulls and acks; admin pages; retention, rates and leases."""

    handlers: Handlers
    delivery: Delivery
    metrics: BrokerMetrics
    _pages: BrokerPages

    def __init__(self, node: Node, options: BrokerOptions, replication: Replication, data: BrokerData) -> None:
        super().__init__(node)
        self._options = options
        self._replication = replication
        self._data = data
        self.rates = RateTable()
        self._is_built = False

    def build(self) -> AdminPages:
        store = self._data.store
        options = self._options
        store.lacks_space_for_copy = self._storage.space.lacks_space_for_copy
        self._storage.committer.while_written = store.write_histories
        self.delivery = Delivery(
            store,
            retry_delay_ms=round(options.retry_delay_seconds * 1000),
            lease_seconds=options.consumer_lease_seconds,
        )
        self.handlers = Handlers(self._node, store, self.delivery)
        self.handlers.pulls.apply(self._node.policy)
        self.subject_retention = SubjectRetention(store, options.retention_hours, self._data.retention_clock)
        self.subject_retention.apply(self._node.policy)
        self.subject_removal = SubjectRemoval(store)
        self.consumer_leases = ConsumerLeases(
            store,
            self.delivery.settlements,
            self.handlers.settlements,
            self._storage.committer,
            lease_seconds=options.consumer_lease_seconds,
            forget_seconds=options.consumer_forget_hours * 3600,
        )
        view = NodeView(
            node=self._node,
            store=store,
            handlers=self.handlers,
            delivery=self.delivery,
            rates=self.rates,
            changes=self._data.changes,
            boot_id=f"{self._node.machine.rng.getrandbits(48):012x}",
            lease_seconds=options.consumer_lease_seconds,
            describe=self.describe,
        )
        self.metrics = BrokerMetrics(view, self._replication, self._data.retention_clock)
        self._storage.on_synced.append(lambda end: self.handlers.synced(store.completed(end)))
        self._is_built = True
        pages = self._pages = BrokerPages(view)
        return AdminPages(pages.routes, {**pages.posts, **self._replication.posts()})

    def describe(self) -> dict[str, Any]:
        """The head of `/stats`."""
        return {**self._node.serving_stats(), "replication": self._replication.report()}

    def apply_policy(self) -> None:
        """Another policy is in force."""
        if not self._is_built:
            # `build` applies the policy that is in force then.
            return
        self.handlers.pulls.apply(self._node.policy)
        self.subject_retention.apply(self._node.policy)
        self._data.changes.reset()

    async def prepare(self) -> None:
        await self._retry_orphans()
        # What the policy dropped before may be back: files made again, or a checkpoint from before.
        while True:
            try:
                await self.subject_retention.tick()
            except LogError as error:
                logger.error("%s", error)
            if not self.subject_retention.has_more:
                return
            await asyncio.sleep(0)

    async def _retry_orphans(self) -> None:
        """Messages whose assignment was lost with a damaged commit go to their group's retry subject, slice by slice."""
        found = [
            (subject, group) for subject in self._data.store.subjects.values() for group in subject.groups.values()
        ]
        for subject, group in found:
            if not group.progress.orphans:
                continue
            moved = 0
            plan: DiskWork | None = None
            while group.progress.orphans:
                try:
                    moved += move_orphans(self._data.store, subject, group, Budget(), plan)
                except DiskWork as work:
                    plan = work
                    await work.complete_in_thread()
                    continue
                except (LimitReached, NoSpace) as error:
                    logger.error("messages of a lost assignment can't be retried before the next start: %s", error)
                    break
                subject.changed()
                await self._storage.committer.drain()
            logger.warning(
                "subject %s, group %s: %d messages of a lost assignment are retried",
                subject.name, group.progress.group, moved,
            )  # fmt: skip

    def run(self) -> None:
        every = self._node.supervisor.every
        every(JOB_SECONDS, "rates", self._sample_rates)
        every(JOB_SECONDS, "retention", self._retain)
        every(JOB_SECONDS, "retention_clock", self._keep_gaps)
        every(JOB_SECONDS, "subject_retention", self.subject_retention.tick)
        every(JOB_SECONDS, "history_retention", self._data.history_retention.tick)
        every(JOB_SECONDS, "subject_removal", self._remove_subjects)
        every(JOB_SECONDS, "consumer_leases", self.consumer_leases.check)
        every(JOB_SECONDS, "long_poll_deadlines", self.handlers.polls.check)

    async def stop(self) -> None:
        if not self._is_built:
            return
        self.handlers.stop()
        await self._pages.searches.close()
        try:
            await asyncio.to_thread(
                self._data.gap_file.keep, self._data.retention_clock.gaps(), self._node.clock.wall_ms()
            )
        except OSError as error:
            logger.error("the next start counts the broker as away since its newest record: %s", error)

    async def _sample_rates(self) -> None:
        self._data.changes.advance()
        rates, pacer = self.rates, Pacer(SAMPLE_UNITS)
        was_measurable = rates.is_measurable
        rates.begin(self._node.clock.monotonic())
        if rates.is_measurable and not was_measurable:
            # Readers of earlier pages have no rate of any subject, and those without activity would not be read again.
            self._data.changes.reset()
        for subject in self._data.changes.take_unsampled():
            await pacer.spend(1 + len(subject.groups))
            rates.count(subject.meter, subject.sent_total, subject.bytes_total)
            for group in subject.groups.values():
                rates.count(group.meter, group.pulled_total, group.acked_total)

    async def _remove_subjects(self) -> None:
        counters = self._data.store.counters
        before = counters.removed_subjects
        try:
            await self.subject_removal.tick()
        finally:
            if counters.removed_subjects > before:
                self._storage.committer.kick()
                logger.info("%d empty subjects removed", counters.removed_subjects - before)

    async def _keep_gaps(self) -> None:
        """Keep what does not count towards ages for a restart. Raises OSError."""
        gaps = self._data.retention_clock.gaps()
        if not self._data.gap_file.is_kept(gaps):
            await asyncio.to_thread(self._data.gap_file.keep, gaps, self._node.clock.wall_ms())

    def _retain(self) -> None:
        data, storage = self._data, self._storage
        cut = keep_from(
            data.store.segment_ages(),
            before_ms=data.retention_clock.before_ms(data.keep_ms),
            keep_bytes=self._options.retention_bytes,
            floor=min(storage.checkpoints.floor, self._replication.retained_from()),
        )
        data.drop_before(storage, cut)
