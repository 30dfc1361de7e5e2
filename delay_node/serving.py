"""class DelayServing: what a delay node does for its clients and operators, and to brokers, once its data is open."""

import asyncio
import logging
from contextlib import suppress
from itertools import islice
from typing import Any

from delay_node.admin import DelayPages
from delay_node.batches import BatchSender
from delay_node.bulk_read import BulkReads
from delay_node.changes import Changes
from delay_node.delay_data import DelayData
from delay_node.dispatcher import Dispatcher
from delay_node.due_lanes import DueLanes
from delay_node.errors import LimitReached
from delay_node.handlers import HandlerCounters, Handlers
from delay_node.hour import Hour
from delay_node.metrics import DelayMetrics
from delay_node.options import DelayOptions
from delay_node.queries import Queries
from delay_node.sends import DelaySends
from delay_node.trusted_clock import HeldStep
from qmq.errors import NoSpace
from qmq.net.pool import Pool
from qmq.net.session import MetaSession
from qmq.net.timing import DEFAULT_BACKOFF, DEFAULT_TIMEOUTS
from qmq_node.admin.server import AdminPages
from qmq_node.member.replication import Replication
from qmq_node.node.node import Node, NodeServing
from qmq_node.node.storage import JOB_SECONDS
from qmq_node.policy import sends_policy
from qmq_node.requests.handlers import Rejections

logger = logging.getLogger("qmq.delay")

DAY_MS = 86_400_000
LOAD_RETRY_SECONDS = 5.0
"""Pause after an hour could not be read."""
RULES_SHOWN_MAX = 1_000
"""Subjects whose rules `/stats` lists."""
PROBLEMS_SHOWN_MAX = 20
"""Subjects with undeliverable messages that `/stats` lists."""
ENDED_HOURS_MAX = 10_000
"""Hours that end with one record; the next second ends further ones."""


class DelayServing(NodeServing):
    """Sends, changes and queries of delayed messages; admin pages; delivery."""

    handlers: Handlers
    metrics: DelayMetrics

    def __init__(self, node: Node, options: DelayOptions, replication: Replication, data: DelayData) -> None:
        super().__init__(node)
        self._options = options
        self._replication = replication
        self._data = data
        self._is_built = False
        self._delivering: asyncio.Task[None] | None = None
        self._delivered_before = 0
        self.delivered_per_s = 0.0

    def build(self) -> AdminPages:
        options = self._options
        self.metrics = DelayMetrics(self._node, self._replication, self._data.store, self._data.group_time)
        delay_max_ms = round(options.delay_max_days * DAY_MS)
        self.queries = Queries(self._data.store, self._storage.committer.synced, self._node.disk, self._node.clock)
        self.changes = Changes(
            self._data.store, self.queries, self._storage.committer, self._data.trusted, delay_max_ms
        )
        counters = HandlerCounters()
        rejections = Rejections(counters, self._node.clock, logger, {LimitReached: "limit_reached"})
        sends = DelaySends(
            self._data.store, self._storage.committer, self._data.trusted, self._node.registration.admission, delay_max_ms,
            self._data.unwritten_bytes_max, rejections, counters,
        )  # fmt: skip
        bulk_reads = BulkReads(self._node, self._data.store)
        self.session = MetaSession(
            self._node.registration.urls,
            app="delay-node",
            client_id="",
            timeouts=DEFAULT_TIMEOUTS,
            backoff=DEFAULT_BACKOFF,
        )
        self._pool = Pool(DEFAULT_TIMEOUTS.connect)
        lanes = DueLanes(self._data.store.subjects, self.session, self._node.machine.rng)
        sender = BatchSender(
            self._data.store, self._storage.committer, self._data.trusted, self._pool, self._node.supervisor, lanes,
            observe=self.metrics.observe_lateness, send_seconds=options.send_seconds,
        )  # fmt: skip
        self.dispatcher = self.metrics.dispatcher = Dispatcher(self._data.store, self._data.trusted, lanes, sender)
        self._data.store.placer.on_near = self.dispatcher.due_added
        self.session.on_change = self.dispatcher.routes_changed
        self.session.on_master_changed = self.dispatcher.master_changed
        self.handlers = self.metrics.handlers = Handlers(
            rejections, counters, sends, self.queries, self.changes, bulk_reads, self.dispatcher, self._node.supervisor
        )
        self._storage.on_synced.append(self._data.store.synced)
        self._is_built = True
        pages = DelayPages(self.describe, self.confirm_clock, self.queries, self.changes, self._node.clock)
        return AdminPages(pages.json_routes, {**pages.json_posts, **self._replication.posts()})

    async def prepare(self) -> None:
        self._check_clock()
        to_load = self._data.store.open_hours.to_load(self._data.store.placer.near_before_ms)
        if to_load:
            # Nothing newer is delivered before these hours are loaded.
            self.dispatcher.frontier_ms = to_load[0].begin_ms
        self._node.supervisor.every(
            JOB_SECONDS, "hour_loading", self._load_hours, retry_seconds=LOAD_RETRY_SECONDS, is_vital=True
        )

    async def stop(self) -> None:
        if not self._is_built:
            return
        await self.queries.close()
        # One that is no master any more can't record what brokers answer.
        grace_seconds = 0.0 if self._replication.is_no_master else self._options.send_seconds
        await self.dispatcher.stop(min(self._options.stop_seconds, grace_seconds))
        if self._delivering is not None:
            await self._node.supervisor.cancel(self._delivering)
        await self.session.close()
        await self._pool.close()

    async def finish(self) -> None:
        if self._is_built:
            await self.handlers.stop()
        await self._data.store.io.close()

    def run(self) -> None:
        if self._node.registration.urls:
            self.session.start(self._node.supervisor)
        self._delivering = self._node.supervisor.critical("delivery", self.dispatcher.run())
        every = self._node.supervisor.every
        every(JOB_SECONDS, "clock", self._check_clock, is_vital=True)
        every(JOB_SECONDS, "lateness", lambda: self.metrics.last_minute.tick(self._node.clock.monotonic()))
        every(JOB_SECONDS, "hour_closing", self._close_hours)
        every(JOB_SECONDS, "retention", self._drop_segments)
        every(JOB_SECONDS, "rates", self._sample_rates)

    def _drop_segments(self) -> None:
        self._storage.segment_removal.drop_before(
            min(self._storage.checkpoints.floor, self._replication.retained_from())
        )

    def _sample_rates(self) -> None:
        delivered = self._data.store.counters.delivered
        self.delivered_per_s, self._delivered_before = delivered - self._delivered_before, delivered

    def _check_clock(self) -> None:
        """Move the time before which hours belong into the wheel."""
        self._data.store.placer.near_before_ms = self._data.trusted.now_ms() + round(
            self._options.load_ahead_minutes * 60_000
        )

    async def confirm_clock(self) -> HeldStep | None:
        """As `GroupClock.confirm`."""
        held = await self._data.group_time.confirm()
        self.dispatcher.wake()
        return held

    async def _load_hours(self) -> None:
        """Load hours that begin soon into the wheel, oldest first; nothing newer is delivered before. Raises LogError."""
        while hours := self._data.store.open_hours.to_load(self._data.store.placer.near_before_ms):
            self.dispatcher.frontier_ms = hours[0].begin_ms
            await self._data.store.load(hours[0])
            self.dispatcher.wake()
        self.dispatcher.frontier_ms = None

    def _close_hours(self) -> None:
        """Close hours that are past and have nothing left to do; end old ones, whose files checkpoints then remove."""
        now_ms = self._data.trusted.now_ms()
        keep_ms = round(self._options.keep_hours * 3_600_000)
        ended: list[Hour] = []
        for hour in self._data.store.hours.before(now_ms):
            if not hour.is_complete or hour.end_ms >= now_ms or hour.opening.locked() or hour.users:
                continue
            if hour.end_ms + keep_ms < now_ms:
                # What this disk has lost may be whole on another member's.
                if not hour.lost or self._replication.member.is_alone:
                    ended.append(hour)
            elif hour.is_near:
                hour.is_near = False
                hour.close()
        # One that ends may begin again, and a slave may be copying its files.
        if ended and not self._replication.holds_files:
            # Without space for the record they stay.
            with suppress(NoSpace):
                self._data.store.end_hours(ended[:ENDED_HOURS_MAX], now_ms)
                self._storage.committer.kick()

    def describe(self) -> dict[str, Any]:
        """Return the content of `/stats`: the fields of every node and those of a delay node."""
        store, lanes = self._data.store, self.dispatcher.lanes
        return self._node.serving_stats() | {
            "replication": self._replication.report(),
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
                for name, rules in islice(self._node.policy.subjects.items(), RULES_SHOWN_MAX)
                if rules.closed or rules.has_quota
            ],
            "clock": self._data.group_time.report(),
        }
