"""class Broker: what a broker node owns, in which order it starts and stops."""

import asyncio
import logging
import time
from typing import Any

from broker_node.admin import BrokerAdmin
from broker_node.checkpointing import Checkpointing
from broker_node.delivery import Delivery
from broker_node.handlers import Handlers
from broker_node.metrics import BrokerMetrics
from broker_node.options import BrokerOptions
from broker_node.rates import RateTable
from broker_node.recovery import RecoveryReport, groups_with_orphans, open_store
from broker_node.retry import move_to_retry
from broker_node.stats import rate_counters
from broker_node.store import StoreLimits
from qmq import __version__
from qmq.clock import Clock, SystemClock
from qmq.daemon.committer import Committer
from qmq.daemon.data_dir import DataDir, DataDirOwner
from qmq.daemon.file_budget import file_budget
from qmq.daemon.membership import Membership
from qmq.log.commit import FlushPolicy
from qmq.log.disk import Disk, SystemDisk
from qmq.log.index import HandleCache
from qmq.log.retention import SegmentAge, keep_from
from qmq.net.server import FrameServer, ServerLimits
from qmq.protocol.codes import BrokerGroupState, BrokerRequestType, Role
from qmq.protocol.extensions import NodeRegisterRequest, NodeRegisterResponse

logger = logging.getLogger("qmq.broker")

EPOCH = 1
"""Commits carry it; promotions raise it once groups have slaves."""
TICK_SECONDS = 1.0
"""How often rates are sampled, free space and retention are looked at."""
SWEEP_SUBJECTS_MAX = 2_000
"""Subjects looked through for silent consumers in one tick; all of them in turn."""
SWEEP_CONSUMERS_MAX = 100
"""Consumers settled in one sweep: moving messages takes the event loop's time."""


class Broker:
    """One broker node. `start` binds and recovers, `failed` ends when it can't go on, `close` may be called twice."""

    def __init__(self, options: BrokerOptions, clock: Clock | None = None, disk: Disk | None = None) -> None:
        self.options = options
        self.clock: Clock = clock or SystemClock()
        self.disk: Disk = disk or SystemDisk()
        self.node_id = options.node_id or f"{options.group}-a"
        self.rates = RateTable()
        self.disk_free_bytes = 0
        self.operator_read_only = "the broker was started read only" if options.read_only else ""
        self.metaserver_read_only = ""
        self.started_at_ms = 0
        self._started_at = 0.0
        self._is_started = False
        self._is_ready = False
        self._is_closed = False
        self._data_dir: DataDir | None = None
        self._failure: asyncio.Future[None] | None = None
        self._timers: list[asyncio.TimerHandle] = []
        self._stop_membership = asyncio.Event()
        self._membership_task: asyncio.Task[None] | None = None
        self._to_sweep: list[str] = []

    # --- life ------------------------------------------------------------------------------------------------------

    async def start(self) -> None:
        """Recover and serve.

        Raises:
            SettingError: the data folder is another's or in use.
            LogError: the log can't be read.
            OSError: an address or the disk refused.
        """
        options, began = self.options, time.perf_counter()
        self._loop = asyncio.get_running_loop()
        self._failure = self._loop.create_future()
        budget = file_budget(options.connections_max)
        owner = DataDirOwner("broker", options.group, self.node_id)
        self._data_dir = DataDir.open(options.data_dir, owner, self.disk)
        self.store, self.recovery = open_store(
            self.disk,
            options.data_dir,
            self.clock,
            limits=StoreLimits(options.subjects_max, options.groups_per_subject_max, options.consumers_per_group_max),
            segment_bytes=options.segment_bytes,
            handles=HandleCache(self.disk, budget.index_files),
        )
        self._say_recovery(self.recovery, time.perf_counter() - began)
        self.delivery = Delivery(self.store, retry_delay_ms=round(options.retry_delay_seconds * 1000))
        self.metrics = BrokerMetrics(self)
        self.committer = Committer(
            self.store.log,
            clock=self.clock,
            on_synced=self._synced,
            on_failed=self._log_failed,
            policy=FlushPolicy(options.flush),
            interval_seconds=options.flush_interval_seconds,
        )
        self.committer.observe_commit = self._observe_commit
        self.handlers = Handlers(self.store, self.delivery, self.committer, self.clock, self.refuse_sends)
        self.checkpoints = Checkpointing(
            self.store,
            self.committer,
            self.clock,
            options.checkpoint_bytes,
            options.checkpoint_seconds,
            0 if self.recovery.rebuilt else self.recovery.from_offset,
        )
        self.server = FrameServer(
            options.host,
            options.port,
            self.handlers.handle,
            clock=self.clock,
            limits=ServerLimits(
                connections_max=budget.connections,
                frame_bytes_max=options.frame_bytes_max,
                in_flight_bytes_max=options.in_flight_bytes_max,
            ),
            logger=logging.getLogger("qmq.broker.net"),
        )
        self.admin = BrokerAdmin(self).server()
        self._look_at_disk()
        self.committer.start()
        self._retry_orphans()
        await self.server.start()
        await self.admin.start()
        self.started_at_ms, self._started_at = self.clock.wall_ms(), self.clock.monotonic()
        self._is_ready = self._is_started = True
        self._tick()
        if options.meta:
            self.membership: Membership | None = Membership(
                options.meta, self._registration, self._registered, self.clock
            )
            self._membership_task = self._loop.create_task(self.membership.run(self._stop_membership))
            self._membership_task.add_done_callback(self._membership_ended)
        else:
            self.membership = None
        logger.info(
            "broker %s of group %s serves on %s:%d, admin on %s:%d",
            self.node_id, options.group, *self.server.address, *self.admin.address,
        )  # fmt: skip

    def _say_recovery(self, report: RecoveryReport, seconds: float) -> None:
        logger.info(
            "recovered in %.2f s: %d commits with %d messages from log offset %d on%s",
            seconds,
            report.replayed_commits,
            report.replayed_messages,
            report.from_offset,
            f"; all derived files made again: {report.why_rebuilt}" if report.rebuilt else "",
        )
        if report.torn_bytes:
            logger.warning("%d bytes of an unanswered commit at the log's end were cleared", report.torn_bytes)
        for damage in self.store.log.damaged:
            logger.error(
                "the log is damaged between offsets %d and %d (%s): messages there are withheld, sends are refused",
                damage.begin, damage.end, damage.why,
            )  # fmt: skip

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

    async def serve(self, stop: asyncio.Event) -> None:
        """Run until `stop` is set, or until the node can't go on (then the reason is raised)."""
        assert self._failure is not None
        waiting: asyncio.Future[bool] = asyncio.ensure_future(stop.wait())
        both: list[asyncio.Future[Any]] = [waiting, self._failure]
        await asyncio.wait(both, return_when=asyncio.FIRST_COMPLETED)
        waiting.cancel()
        if self._failure.done():
            self._failure.result()

    async def close(self) -> None:
        """Stop gracefully: say goodbye, answer what is under way, write everything, make a checkpoint."""
        if self._is_closed or self._failure is None:
            return
        self._is_closed = True
        if not self._is_started:
            # A start that failed: whatever it had bound or locked goes with the process; the folder is let go at once.
            if self._data_dir is not None:
                self._data_dir.close()
            self._failure.cancel()
            return
        self._is_ready = False
        for timer in self._timers:
            timer.cancel()
        self._stop_membership.set()
        if self._membership_task is not None:
            await asyncio.wait([self._membership_task])
        self.handlers.stop()
        cut = await self.server.close(self.options.stop_seconds if self.committer.failed is None else 0)
        if cut:
            logger.warning("%d connections had requests unanswered at the end", cut)
        if self.committer.failed is None:
            await self.committer.drain()
            await self.checkpoints.finish()
        await self.committer.stop()
        await self.admin.close()
        self.store.log.close()
        if self._data_dir is not None:
            self._data_dir.close()
        if not self._failure.done():
            self._failure.cancel()
        logger.info("broker %s stopped", self.node_id)

    # --- what happens ----------------------------------------------------------------------------------------------

    def _synced(self, synced_end: int) -> None:
        self.handlers.synced(self.store.completed(synced_end))
        self.checkpoints.maybe()

    def _observe_commit(self, seconds: float, size: int) -> None:
        self.metrics.commit_seconds.observe(seconds)
        self.metrics.commit_bytes.observe(size)

    def _log_failed(self, error: BaseException) -> None:
        """A write or sync failed: what is in memory may not be on disk. Nothing is answered any more, the process ends."""
        logger.critical("the message log failed, this node stops: %s", error)
        self._is_ready = False
        self.server.stop_listening()
        for connection in list(self.server.connections):
            connection.abort()
        if self._failure is not None and not self._failure.done():
            self._failure.set_exception(error)

    def _membership_ended(self, task: "asyncio.Task[None]") -> None:
        error = None if task.cancelled() else task.exception()
        if error is not None and self._failure is not None and not self._failure.done():
            self._failure.set_exception(error)

    def _tick(self) -> None:
        now = self.clock.monotonic()
        self.rates.add(now, rate_counters(self.store.touched))
        self.store.touched.clear()
        self._look_at_disk()
        self.committer.prepare()
        self._retain()
        self.checkpoints.maybe()
        self._sweep(now)
        self._timers[:] = [self._loop.call_later(TICK_SECONDS, self._tick)]

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
                    if silent < lease or settled >= SWEEP_CONSUMERS_MAX:
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

    def _look_at_disk(self) -> None:
        try:
            self.disk_free_bytes = self.disk.free_bytes(self.options.data_dir)
        except OSError as error:
            logger.warning("free space can't be read: %s", error)

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

    # --- state -----------------------------------------------------------------------------------------------------

    def refuse_sends(self) -> str:
        """Why sends are refused now; "" when they are taken. Acks and pulls go on in any case."""
        if self.operator_read_only:
            return self.operator_read_only
        if self.metaserver_read_only:
            return self.metaserver_read_only
        log = self.store.log
        if log.damaged:
            return "read only: the log is damaged, see the node's log"
        reserve = self.options.disk_reserve_bytes
        # Small segments hold a smaller reserve: else no send would ever fit beside it.
        log_reserve = min(reserve, self.options.segment_bytes // 2)
        room = log.room_bytes
        if self.disk_free_bytes < reserve and room < 2 * log_reserve:
            return f"no space: {self.disk_free_bytes} bytes free on disk, the reserve is {reserve}"
        if room < log_reserve and self.committer.is_out_of_space:
            return f"no space: {room} bytes left in the log, the reserve is {log_reserve}"
        return ""

    def health(self) -> str:
        """What is wrong for good; "" when nothing is."""
        if self.committer.failed is not None:
            return f"the message log failed: {self.committer.failed}"
        return f"the log is damaged in {len(self.store.log.damaged)} places" if self.store.log.damaged else ""

    def readiness(self) -> str:
        """Why the node does not serve yet, or any more."""
        if not self._is_ready:
            return "not serving"
        if self.membership is not None and self.membership.last is None:
            return f"not registered: {self.membership.last_error}"
        return ""

    @property
    def state(self) -> BrokerGroupState:
        return BrokerGroupState.READ_ONLY if self.refuse_sends() else BrokerGroupState.READ_WRITE

    def describe(self) -> dict[str, Any]:
        """The head of `/stats`."""
        log = self.store.log
        refused = self.refuse_sends()
        return {
            "broker_group": self.options.group,
            "node_id": self.node_id,
            "role": "master",
            "state": "read_only" if refused else "read_write",
            "state_reason": refused,
            "epoch": EPOCH,
            "version": __version__,
            "uptime_seconds": round(self.clock.monotonic() - self._started_at, 3),
            "log": {
                "begin": log.begin,
                "end": log.written_end,
                "synced_end": log.synced_end,
                "damaged": [{"begin": d.begin, "end": d.end, "why": d.why} for d in log.damaged],
            },
            "disk_free_bytes": self.disk_free_bytes,
            "connections": len(self.server.connections),
        }

    def _registration(self, request_type: BrokerRequestType) -> NodeRegisterRequest:
        host = self.options.advertise_host or self.options.host
        state = BrokerGroupState.OFFLINE if request_type is BrokerRequestType.OFFLINE else self.state
        return NodeRegisterRequest(
            request_type=request_type,
            broker_group=self.options.group,
            node_id=self.node_id,
            kind="broker",
            role=Role.MASTER,
            address=f"{host}:{self.server.address[1]}",
            admin_address=f"{self.options.admin_host}:{self.admin.address[1]}",
            state=state,
            epoch=EPOCH,
            log_end=self.store.log.synced_end,
            started_at_ms=self.started_at_ms,
            version=__version__,
        )

    def _registered(self, answer: NodeRegisterResponse) -> None:
        """What the metaserver decided. Read only is sticky until it says otherwise."""
        if not answer.accepted:
            self.metaserver_read_only = f"read only: the metaserver refused this node: {answer.reason}"
        elif answer.state == BrokerGroupState.READ_ONLY and answer.reason:
            self.metaserver_read_only = f"read only: {answer.reason}"
        else:
            self.metaserver_read_only = ""
