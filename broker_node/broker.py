"""class Broker: a node that keeps real-time messages and hands them to consumers."""

import asyncio
import logging
from collections.abc import Sequence
from typing import Any

from broker_node.admin.metrics import BrokerMetrics
from broker_node.admin.pages import BrokerPages
from broker_node.admin.view import NodeView
from broker_node.delivery.consumer_leases import ConsumerLeases
from broker_node.delivery.delivery import Delivery
from broker_node.delivery.retry_writer import Budget, move_orphans
from broker_node.handlers import Handlers
from broker_node.options import BrokerOptions
from broker_node.reads.bulk_read import BulkReads
from broker_node.recovery.checkpoint import CHECKPOINT_NAME, BrokerCheckpoints
from broker_node.recovery.checkpoint_reading import save_copied
from broker_node.recovery.open_store import clear_store, open_store, renew_leases
from broker_node.retention.retention_clock import Gap, GapFile, RetentionClock
from broker_node.retention.subject_removal import SubjectRemoval
from broker_node.retention.subject_retention import HistoryRetention, SubjectRetention
from broker_node.storage.disk_work import DiskWork
from broker_node.storage.rates import RateTable
from broker_node.storage.subject_changes import SubjectChanges
from broker_node.storage.subject_table import LimitReached, StoreLimits, StorePaths
from qmq.errors import LogError, NoSpace
from qmq.net.open_files import FileBudget
from qmq.protocol.codes import Role
from qmq_node.admin.server import AdminPages
from qmq_node.commits.checkpointing import Checkpointing
from qmq_node.commits.committer import Committer
from qmq_node.log.checkpoint import CheckpointStore
from qmq_node.log.handles import HandleCache
from qmq_node.log.log import SegmentedLog
from qmq_node.log.replay import Replay
from qmq_node.log.retention import keep_from
from qmq_node.member.member_node import MemberNode
from qmq_node.node.node import JOB_SECONDS
from qmq_node.process.machine import Machine
from qmq_node.slices import Pacer, run_in_slices

logger = logging.getLogger("qmq.broker")

SAMPLE_UNITS = 1_000
"""Subjects and groups whose rates are sampled in one iteration of the event loop."""


class Broker(MemberNode):
    """One broker node."""

    kind = "broker"
    role = Role.MASTER
    options: BrokerOptions
    metrics: BrokerMetrics
    handlers: Handlers

    def __init__(self, options: BrokerOptions, machine: Machine | None = None) -> None:
        super().__init__(options, machine)
        self.rates = RateTable()

    # --- life ------------------------------------------------------------------------------------------------------

    def open_store(self, budget: FileBudget) -> SegmentedLog:
        options = self.options
        self.store, self.recovery = open_store(
            self.disk,
            options.data_dir,
            self.clock,
            limits=StoreLimits(
                options.subjects_max,
                options.groups_per_subject_max,
                options.consumers_per_group_max,
                options.consumer_in_flight_max,
            ),
            segment_bytes=options.segment_bytes,
            handles=HandleCache(self.disk, budget.index_files, self.clock),
            member=self.opening,
        )
        self._keep_ms = round(options.retention_hours * 3_600_000)
        self._gap_file = GapFile(self.disk, options.data_dir)
        self.retention_clock = self._retention_clock()
        self.history_retention = HistoryRetention(self.store, options.retention_hours, self.retention_clock)
        self.changes = SubjectChanges(self.store.subjects, self.store.touched, lambda: self.store.log.begin, self.clock)
        return self.store.log

    def new_checkpoints(self, committer: Committer | None) -> Checkpointing[Any]:
        return self.checkpointing(BrokerCheckpoints(self.store), self.recovery.loaded_offset, committer)

    @property
    def checkpoint_store(self) -> CheckpointStore:
        return CheckpointStore(self.disk, StorePaths(self.options.data_dir).checkpoint, CHECKPOINT_NAME)

    def clear_store(self) -> None:
        clear_store(self.disk, StorePaths(self.options.data_dir))

    def save_copied_state(self, data: bytes) -> tuple[int, int]:
        return save_copied(self.checkpoint_store, data)

    async def prepare_to_lead(self) -> None:
        self.store.continue_times()
        await run_in_slices(renew_leases(self.store))

    @property
    def log_folder(self) -> str:
        return StorePaths(self.options.data_dir).log

    @property
    def replay(self) -> Replay:
        return self.recovery.replay

    def build(self) -> AdminPages:
        options = self.options
        self.store.lacks_space_for_copy = self.space.lacks_space_for_copy
        self.committer.while_written = self.store.write_histories
        self.delivery = Delivery(
            self.store,
            retry_delay_ms=round(options.retry_delay_seconds * 1000),
            lease_seconds=options.consumer_lease_seconds,
        )
        identity = options.broker_group, self.node_id, self.replica.state.log_id
        self.handlers = Handlers(
            self.store,
            self.delivery,
            self.committer,
            self.clock,
            self.admission,
            BulkReads(self.store, self.committer, self.clock, self.bulk_reads, identity),
            self.supervisor,
            self.auth,
        )
        self.handlers.apply(self.policy)
        self.subject_retention = SubjectRetention(self.store, options.retention_hours, self.retention_clock)
        self.subject_retention.apply(self.policy)
        self.subject_removal = SubjectRemoval(self.store)
        self.consumer_leases = ConsumerLeases(
            self.store,
            self.delivery.settlements,
            self.handlers.settlements,
            self.committer,
            lease_seconds=options.consumer_lease_seconds,
            forget_seconds=options.consumer_forget_hours * 3600,
        )
        if self.opening is None:
            self.checkpoints = self.new_checkpoints(self.committer)
        self.metrics = BrokerMetrics(self, self.store, self.delivery, self.handlers, self.retention_clock)
        view = NodeView(
            store=self.store,
            clock=self.clock,
            rates=self.rates,
            changes=self.changes,
            boot_id=f"{self.machine.rng.getrandbits(48):012x}",
            lease_seconds=options.consumer_lease_seconds,
            describe=lambda: self.describe(),
            policy=lambda: self.policy,
            is_paused=self.handlers.pulls.is_paused,
            address_of=self.handlers.pulls.consumer_connections.find,
            duplicate_addresses=self.delivery.duplicates.addresses,
            deferred_settlements=lambda: len(self.delivery.settlements.deferred),
            wake=self.handlers.wake,
            synced=self.committer.synced,
        )
        pages = BrokerPages(view)
        return AdminPages(pages.routes, {**pages.posts, **self.member_posts()})

    def _retention_clock(self) -> RetentionClock:
        gaps: Sequence[Gap] = ()
        ran_ms = self.store.newest_ms
        try:
            gaps, kept_ms = self._gap_file.load()
        except OSError as error:
            logger.error("steps of the wall clock before this start count towards the age of messages: %s", error)
        else:
            ran_ms = max((at_ms for at_ms in (ran_ms, kept_ms) if at_ms is not None), default=None)
        return RetentionClock(self.clock, self._keep_ms, gaps, ran_ms)

    async def before_serving(self) -> None:
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
        found = [(subject, group) for subject in self.store.subjects.values() for group in subject.groups.values()]
        for subject, group in found:
            if not group.progress.orphans:
                continue
            moved = 0
            plan: DiskWork | None = None
            while group.progress.orphans:
                try:
                    moved += move_orphans(self.store, subject, group, Budget(), plan)
                except DiskWork as work:
                    plan = work
                    await work.complete_in_thread()
                    continue
                except (LimitReached, NoSpace) as error:
                    logger.error("messages of a lost assignment can't be retried before the next start: %s", error)
                    break
                subject.changed()
                await self.committer.drain()
            logger.warning(
                "subject %s, group %s: %d messages of a lost assignment are retried",
                subject.name, group.progress.group, moved,
            )  # fmt: skip

    async def stopping(self) -> None:
        await super().stopping()
        if not self.is_serving:
            return
        self.handlers.stop()
        try:
            await asyncio.to_thread(self._gap_file.keep, self.retention_clock.gaps(), self.clock.wall_ms())
        except OSError as error:
            logger.error("the next start counts the broker as away since its newest record: %s", error)

    # --- what happens ----------------------------------------------------------------------------------------------

    def synced(self, synced_end: int) -> None:
        self.handlers.synced(self.store.completed(synced_end))

    def start_jobs(self) -> None:
        super().start_jobs()
        every = self.supervisor.every
        every(JOB_SECONDS, "rates", self._sample_rates)
        every(JOB_SECONDS, "retention", self._retain)
        every(JOB_SECONDS, "retention_clock", self._keep_gaps)
        every(JOB_SECONDS, "subject_retention", self.subject_retention.tick)
        every(JOB_SECONDS, "history_retention", self.history_retention.tick)
        every(JOB_SECONDS, "subject_removal", self._remove_subjects)
        every(JOB_SECONDS, "consumer_leases", self.consumer_leases.check)
        every(JOB_SECONDS, "long_poll_deadlines", self.handlers.polls.check)

    async def _sample_rates(self) -> None:
        self.changes.advance()
        rates, pacer = self.rates, Pacer(SAMPLE_UNITS)
        was_measurable = rates.is_measurable
        rates.begin(self.clock.monotonic())
        if rates.is_measurable and not was_measurable:
            # Readers of earlier pages have no rate of any subject, and those without activity would not be read again.
            self.changes.reset()
        for subject in self.changes.take_unsampled():
            await pacer.spend(1 + len(subject.groups))
            rates.count(subject.meter, subject.sent_total, subject.bytes_total)
            for group in subject.groups.values():
                rates.count(group.meter, group.pulled_total, group.acked_total)

    async def _remove_subjects(self) -> None:
        counters = self.store.counters
        before = counters.removed_subjects
        try:
            await self.subject_removal.tick()
        finally:
            if counters.removed_subjects > before:
                self.committer.kick()
                logger.info("%d empty subjects removed", counters.removed_subjects - before)

    def policy_changed(self) -> None:
        if not self.is_serving:
            # `build` applies the policy that is in force then.
            return
        self.handlers.apply(self.policy)
        self.subject_retention.apply(self.policy)
        self.changes.reset()

    async def _keep_gaps(self) -> None:
        """Keep what does not count towards ages for a restart. Raises OSError."""
        gaps = self.retention_clock.gaps()
        if not self._gap_file.is_kept(gaps):
            await asyncio.to_thread(self._gap_file.keep, gaps, self.clock.wall_ms())

    def _retain(self) -> None:
        cut = keep_from(
            self.store.segment_ages(),
            before_ms=self.retention_clock.before_ms(self._keep_ms),
            keep_bytes=self.options.retention_bytes,
            floor=min(self.checkpoints.floor, self.retained_from()),
        )
        self._drop_before(cut)

    async def retain_as_slave(self, master_begin: int) -> None:
        self._drop_before(min(master_begin, self.checkpoints.floor))
        # Those of the master leave by time, which no record says.
        await self.history_retention.tick()

    def _drop_before(self, cut: int) -> None:
        """Remove whole segments below a log offset."""
        log = self.store.log
        gone = self.segment_removal.drop_before(cut)
        self.store.message_log.unreadable.forget_before(log.begin)
        for base in gone:
            self.store.segment_newest_ms.pop(base, None)
        if gone:
            logger.info("retention: %d segments dropped, the log begins at offset %d", len(gone), log.begin)
