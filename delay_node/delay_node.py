"""class DelayNode: a node that stores messages until they are due, then delivers them to brokers."""

import asyncio
import logging
from itertools import islice
from typing import Any

from delay_node.admin import DelayPages
from delay_node.batches import BatchSender
from delay_node.bulk_read import BulkReads
from delay_node.changes import Changes
from delay_node.checkpoint import DelayCheckpoints
from delay_node.dispatcher import Dispatcher
from delay_node.due_lanes import DueLanes
from delay_node.errors import LimitReached
from delay_node.handlers import HandlerCounters, Handlers
from delay_node.metrics import DelayMetrics
from delay_node.options import DelayOptions
from delay_node.queries import Queries
from delay_node.recovery import open_store
from delay_node.sends import DelaySends
from delay_node.trusted_clock import HeldStep, HeldStepFile, TrustedClock
from qmq.net.open_files import FileBudget
from qmq.net.pool import Pool
from qmq.net.session import MetaSession
from qmq.net.timing import DEFAULT_BACKOFF, DEFAULT_TIMEOUTS
from qmq.protocol.codes import Role
from qmq_node.admin.server import AdminPages
from qmq_node.log.handles import HandleCache
from qmq_node.log.log import SegmentedLog
from qmq_node.node.node import JOB_SECONDS, Node
from qmq_node.policy import sends_policy
from qmq_node.process.machine import Machine
from qmq_node.requests.handlers import Rejections

logger = logging.getLogger("qmq.delay")

DAY_MS = 86_400_000
LOAD_RETRY_SECONDS = 5.0
"""Pause after an hour could not be read."""
RULES_SHOWN_MAX = 1_000
"""Subjects whose rules `/stats` lists."""
PROBLEMS_SHOWN_MAX = 20
"""Subjects with undeliverable messages that `/stats` lists."""
UNWRITTEN_FACTOR = 4
"""Sends are answered busy when this many times `checkpoint_bytes` of the schedule wait to be written."""


class DelayNode(Node):
    kind = "delay"
    role = Role.DELAY_MASTER
    options: DelayOptions
    metrics: DelayMetrics
    handlers: Handlers

    def __init__(self, options: DelayOptions, machine: Machine | None = None) -> None:
        super().__init__(options, machine)
        self._clock_change = asyncio.Lock()
        """Of the file of the held step."""
        self._delivering: asyncio.Task[None] | None = None
        self._has_logged_alarm = False
        self._delivered_before = 0
        self.delivered_per_s = 0.0

    def open_store(self, budget: FileBudget) -> SegmentedLog:
        options = self.options
        self._step_file = HeldStepFile(self.disk, options.data_dir)
        try:
            held = self._step_file.load()
        except OSError as error:
            logger.error("it is not known whether a step of the wall clock was held, the clock is accepted: %s", error)
            held = None
        self.trusted = TrustedClock(self.clock, held)
        self.store, report = open_store(
            self.disk,
            options.data_dir,
            segment_bytes=options.segment_bytes,
            handles=HandleCache(self.disk, budget.index_files, self.clock),
        )
        self._loaded_offset = report.loaded_offset
        return self.store.log

    def build(self) -> AdminPages:
        options = self.options
        self.metrics = DelayMetrics(self, self.store, self.trusted)
        delay_max_ms = round(options.delay_max_days * DAY_MS)
        self.queries = Queries(self.store)
        self.changes = Changes(self.store, self.queries, self.committer, self.trusted, delay_max_ms)
        counters = HandlerCounters()
        rejections = Rejections(counters, self.clock, logger, {LimitReached: "limit_reached"})
        unwritten_bytes_max = UNWRITTEN_FACTOR * options.checkpoint_bytes
        sends = DelaySends(
            self.store, self.committer, self.trusted, self.admission, delay_max_ms, unwritten_bytes_max, rejections, counters
        )  # fmt: skip
        bulk_reads = BulkReads(self.store, self.committer, self.bulk_reads, options.broker_group, self.node_id)
        self.handlers = self.metrics.handlers = Handlers(
            rejections, counters, sends, self.queries, self.changes, bulk_reads, self.supervisor
        )
        self.checkpoints = self.checkpointing(DelayCheckpoints(self.store), self._loaded_offset, self.committer)
        self.session = MetaSession(
            self.metaservers, app="delay-node", client_id="", timeouts=DEFAULT_TIMEOUTS, backoff=DEFAULT_BACKOFF
        )
        self._pool = Pool(DEFAULT_TIMEOUTS.connect)
        lanes = DueLanes(self.store.subjects, self.session, self.machine.rng)
        sender = BatchSender(
            self.store, self.committer, self.trusted, self._pool, self.supervisor, lanes,
            observe=self.metrics.observe_lateness, send_seconds=options.send_seconds,
        )  # fmt: skip
        self.dispatcher = self.metrics.dispatcher = Dispatcher(self.store, self.trusted, lanes, sender)
        self.store.placer.on_near = self.dispatcher.due_added
        self.session.on_change = self.dispatcher.routes_changed
        pages = DelayPages(self.describe, self.confirm_clock, self.queries, self.changes, self.clock)
        return AdminPages(pages.json_routes, pages.json_posts)

    async def before_serving(self) -> None:
        self._check_clock()
        to_load = self.store.open_hours.to_load(self.store.placer.near_before_ms)
        if to_load:
            # Nothing newer is delivered before these hours are loaded.
            self.dispatcher.frontier_ms = to_load[0].begin_ms
        self.supervisor.every(
            JOB_SECONDS, "hour_loading", self._load_hours, retry_seconds=LOAD_RETRY_SECONDS, is_vital=True
        )

    async def stopping(self) -> None:
        await super().stopping()
        await self.dispatcher.stop(min(self.options.stop_seconds, self.options.send_seconds))
        if self._delivering is not None:
            await self.supervisor.cancel(self._delivering)
        await self.session.close()
        await self._pool.close()
        try:
            await self._keep_step()
        except OSError as error:
            logger.error("the next start accepts the wall clock: the held step can't be written: %s", error)
        await self.store.io.close()

    def synced(self, synced_end: int) -> None:
        self.store.synced(synced_end)

    def start_jobs(self) -> None:
        if self.metaservers:
            self.session.start(self.supervisor)
        self._delivering = self.supervisor.critical("delivery", self.dispatcher.run())
        super().start_jobs()
        every = self.supervisor.every
        every(JOB_SECONDS, "clock", self._check_clock, is_vital=True)
        every(JOB_SECONDS, "clock_file", self._keep_step)
        every(JOB_SECONDS, "lateness", lambda: self.metrics.last_minute.tick(self.clock.monotonic()))
        every(JOB_SECONDS, "hour_closing", self._close_hours)
        every(JOB_SECONDS, "retention", self._drop_segments)
        every(JOB_SECONDS, "rates", self._sample_rates)

    def _drop_segments(self) -> None:
        self.segment_removal.drop_before(self.checkpoints.floor)

    def _sample_rates(self) -> None:
        delivered = self.store.counters.delivered
        self.delivered_per_s, self._delivered_before = delivered - self._delivered_before, delivered

    def _check_clock(self) -> None:
        """Move the time before which hours belong into the wheel; log when the clock's alarm starts and ends."""
        self.store.placer.near_before_ms = self.trusted.now_ms() + round(self.options.load_ahead_minutes * 60_000)
        alarm = self.trusted.held
        if (alarm is not None) == self._has_logged_alarm:
            return
        self._has_logged_alarm = alarm is not None
        if alarm is not None:
            logger.error(
                "the wall clock jumped ahead by %d ms; messages are delivered by the previous time until an operator"
                " confirms the new one (POST /clock/confirm) or the clock returns", alarm.ahead_ms,
            )  # fmt: skip
        else:
            logger.warning("the wall clock is trusted again")

    async def _keep_step(self) -> None:
        """Write the step that is not accepted, for a restart. Raises OSError."""
        async with self._clock_change:
            self.trusted.now_ms()
            held = self.trusted.held
            if not self._step_file.is_kept(held):
                await asyncio.to_thread(self._step_file.keep, held)

    async def confirm_clock(self) -> HeldStep | None:
        """Accept the wall clock, also after a restart; return the step that was held. Raises OSError; it is held as before."""
        async with self._clock_change:
            await asyncio.to_thread(self._step_file.keep, None)
            alarm = self.trusted.held
            self.trusted.confirm()
        self.dispatcher.wake()
        return alarm

    async def _load_hours(self) -> None:
        """Load hours that begin soon into the wheel, oldest first; nothing newer is delivered before. Raises LogError."""
        while hours := self.store.open_hours.to_load(self.store.placer.near_before_ms):
            self.dispatcher.frontier_ms = hours[0].begin_ms
            await self.store.load(hours[0])
            self.dispatcher.wake()
        self.dispatcher.frontier_ms = None

    def _close_hours(self) -> None:
        """Close hours that are past and have nothing left to do; the next checkpoint removes the files of old ones."""
        now_ms = self.trusted.now_ms()
        keep_ms = round(self.options.keep_hours * 3_600_000)
        for hour in self.store.hours.before(now_ms):
            if not hour.is_complete or hour.end_ms >= now_ms or hour.opening.locked() or hour.users:
                continue
            if hour.end_ms + keep_ms < now_ms:
                self.store.hours.finished.add(hour.number)
            elif hour.is_near:
                hour.is_near = False
                hour.close()

    def restrictions(self) -> dict[str, str]:
        """As of every node, and `clock` while a step of the wall clock is not accepted: a restart would change nothing."""
        found, alarm = super().restrictions(), self.trusted.held
        if alarm is not None:
            found["clock"] = (
                f"the wall clock jumped ahead by {alarm.ahead_ms} ms; messages are delivered by the previous time"
            )
        return found

    def describe(self) -> dict[str, Any]:
        """Return the content of `/stats`: the fields of every node and those of a delay node."""
        store, lanes, now_ms, held = self.store, self.dispatcher.lanes, self.trusted.now_ms(), self.trusted.held
        return super().describe() | {
            "pending": store.pending,
            "due_soon": self.dispatcher.due_soon,
            "overdue": lanes.overdue,
            "put_aside": store.refused,
            "unreadable_messages": store.counters.lost + store.bodies.unreadable,
            "hours": len(store.hours),
            "subjects": len(store.subjects),
            "wheel": {"messages": store.wheel.count, "memory_bytes": store.wheel.memory_bytes},
            "hours_memory_bytes": store.hours.memory_bytes,
            "unwritten_bytes": store.hours.unwritten_bytes,
            "delivered": store.counters.delivered,
            "delivered_per_second": self.delivered_per_s,
            "lateness_p99_seconds": self.metrics.last_minute.quantile(0.99),
            "cancelled": store.counters.cancelled,
            "moved": store.counters.moved,
            "is_loading": self.dispatcher.frontier_ms is not None,
            "undeliverable": lanes.problems(PROBLEMS_SHOWN_MAX),
            "subject_rules": [
                {"subject": name, **sends_policy(rules)}
                for name, rules in islice(self.policy.subjects.items(), RULES_SHOWN_MAX)
                if rules.closed or rules.has_quota
            ],
            "clock": {
                "now_ms": now_ms,
                "ahead_ms": held.ahead_ms if held is not None else 0,
                "held_since_ms": held.since_ms if held is not None else None,
            },
        }
