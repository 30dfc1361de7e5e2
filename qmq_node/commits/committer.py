"""The one writing task: gather what arrived, one write, one sync in a thread, answer all that waited.

While a commit is on its way to the disk the event loop gathers the next, so the number of messages that share
a sync grows with the load by itself; `qmq_node.commits.group_commit` decides when the next one waits. Cost per commit: one
hand-over to the thread and back, one pwritev, one fdatasync.

Answers wait for the high watermark. It follows the commits by itself, unless the log is replicated: then it moves when `confirm`
is called. The next commit begins in either case when this disk has the one before it.
"""

import asyncio
import logging
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial

from qmq.errors import LogError
from qmq_node.commits.answer_queue import AnswerQueue, not_applied
from qmq_node.commits.group_commit import GATHER_SECONDS, GroupCommit
from qmq_node.commits.segment_preparation import SegmentPreparation
from qmq_node.log.commit import FlushPolicy, SealedCommit
from qmq_node.process.job_thread import JobThread, StartThread

logger = logging.getLogger("qmq.committer")

SEAL_AFTER_SECONDS = 0.05
"""Idle this long, an empty commit is written (not synced): it proves to a later recovery that the last one was synced."""
SLOW_SYNC_SECONDS = 0.5
"""A commit slower than this is said in the log."""
UNCONFIRMED_COMMITS_MAX = 8_192
"""Commits above the high watermark, of which the ends are kept. When there are as many, the next commit begins after a
confirmation; until then its records gather."""


@dataclass(eq=False, repr=False)
class Committer(AnswerQueue):
    """Writes a log's commits in order, from one thread, and calls back what waited."""

    _policy: FlushPolicy
    _interval_seconds: float
    """For `FlushPolicy.INTERVAL`, how often the log is synced."""
    _start_thread: StartThread
    """Starts what writes and syncs."""
    _thread: JobThread | None = field(default=None, init=False)
    _scheduled: bool = field(default=False, init=False)
    _is_urgent: bool = field(default=False, init=False)
    """Whether pending records need a commit at once; acks alone wait for further requests."""
    _gather_timer: asyncio.TimerHandle | None = field(default=None, init=False)
    _seal_timer: asyncio.TimerHandle | None = field(default=None, init=False)
    _is_held: bool = field(default=False, init=False)
    """Whether the next commit waits for a confirmation."""
    _between: Callable[[], None] | None = field(default=None, init=False)
    """To be called before the next commit begins."""
    _idle: asyncio.Event = field(default_factory=asyncio.Event, init=False)
    _started_at: float = field(default=0.0, init=False)
    commits: int = field(default=0, init=False)
    observe_commit: Callable[[float, int], None] | None = field(default=None, init=False)
    on_stored: Callable[[int], None] | None = field(default=None, init=False)
    """If set, the log is replicated: it is called on the event loop with the end of each commit that this disk has synced, and only
    `confirm` moves the high watermark. For `FlushPolicy.ALWAYS` only. If it raises, the committer fails."""
    while_written: Callable[[], None] | None = field(default=None, init=False)
    """Called after a commit was passed to the writing thread, for work to do while that thread starts."""
    _during_sync: Callable[[], None] | None = field(default=None, init=False)

    def __post_init__(self) -> None:
        self._group = GroupCommit(self._clock)
        self.segments = SegmentPreparation(self._log, self._supervisor, self.resume_sends)
        self._idle.set()

    def start(self) -> None:
        """Start the writing thread and the periodic jobs; on the event loop."""
        self._loop = asyncio.get_running_loop()
        self._thread = self._start_thread("committer", self._fail)
        self.segments.start()
        if self._policy is FlushPolicy.INTERVAL:
            self._supervisor.every(self._interval_seconds, "interval_sync", self._sync_by_interval, until_close=True)

    @property
    def is_started(self) -> bool:
        """Whether the writing thread was started, and has not ended."""
        return self._thread is not None

    def during_sync(self, work: Callable[[], None]) -> None:
        """Call `work` once on the event loop during the sync of the next commit; if that is not synced, after it was passed to the
        writing thread. `work` should take no longer than a sync, about 100 us."""
        self._during_sync = work

    def between_commits(self, work: Callable[[], None]) -> None:
        """Call `work` on the event loop before the next commit begins, when none is being written. Not if the committer fails."""
        self._between = work
        self.kick()

    @property
    def is_writing(self) -> bool:
        """Whether a commit is being written."""
        return self._in_flight

    @property
    def write_under_way(self) -> int | None:
        """The number of the commit that is being written; None: none is."""
        return self.commits if self._in_flight and self.failed is None else None

    @property
    def is_replicated(self) -> bool:
        """Whether only `confirm` moves the high watermark."""
        return self.on_stored is not None

    def confirm(self, high_watermark: int) -> None:
        before, requests = self._log.high_watermark, len(self._waiting)
        super().confirm(high_watermark)
        if self._log.high_watermark > before:
            self._group.completed(requests, len(self._waiting), high_watermark - before)
        if self._is_held:
            self._is_held = False
            self.kick()

    def kick(self) -> None:
        self._is_urgent = True
        if self._in_flight or self._scheduled or self.failed is not None or self._thread is None:
            return
        if self._group.expects_more(self._new_requests):
            self._gather()
            return
        self._scheduled = True
        self._idle.clear()
        self._loop.call_soon(self._begin)

    def _gather(self) -> None:
        if self._scheduled or self._gather_timer is not None or self._thread is None:
            return
        if self._group.is_off:
            self.kick()
            return
        self._idle.clear()
        self._gather_timer = self._supervisor.later(GATHER_SECONDS, "gathered_commit", self._begin)

    @property
    def is_idle(self) -> bool:
        """Whether no commit is under way or about to begin."""
        return self._idle.is_set()

    def hurry(self) -> None:
        """Start each commit without waiting for further requests: the node is stopping, and its timers no longer fire."""
        self._group.is_off = True
        self.kick()

    async def drain(self) -> None:
        """Wait until everything appended so far is on this disk and, unless the log is replicated, called back."""
        was_off = self._group.is_off
        self.hurry()
        try:
            await self._idle.wait()
        finally:
            self._group.is_off = was_off

    async def stop(self) -> None:
        """Write what is left, and end the thread.

        What then waits for a confirmation is not called back, and `synced` raises LogError.
        """
        if self.failed is None:
            await self.drain()
        if self._seal_timer is not None:
            self._seal_timer.cancel()
        thread, self._thread = self._thread, None
        if thread is not None:
            await thread.stop()
        if self.failed is None:
            self._waiting.clear()
            self._end_waits(LogError("the node stops: the outcome is unknown"))

    def _begin(self) -> None:
        self._scheduled = False
        if self._gather_timer is not None:
            self._gather_timer.cancel()
            self._gather_timer = None
        if self._in_flight or self.failed is not None or self._thread is None:
            return
        if self._between is not None:
            work, self._between = self._between, None
            work()
        if (
            self.is_replicated
            and self._log.watermark.unconfirmed_commits >= UNCONFIRMED_COMMITS_MAX
            and not self._group.is_off
        ):
            self._is_held = True
            return
        is_written = self._write(self._log.gather.take)
        # More than one commit holds: the rest follows at once.
        self._is_urgent = self._is_urgent and self._log.gather.has_pending
        requests, self._new_requests = self._new_requests, 0
        if is_written:
            self._group.begun(requests, is_partial=self._log.gather.has_pending)
        else:
            self._release()
            self._idle.set()
            self._seal_later()

    def _write(self, take: Callable[[], SealedCommit | None]) -> bool:
        """Have the commit that `take` returns written; False when there is none."""
        try:
            commit = take()
        except Exception as error:  # noqa: BLE001 - nothing can be written any more
            self._fail(error)
            return True
        if commit is None:
            return False
        self._in_flight = True
        self._idle.clear()
        self._started_at = self._clock.monotonic()
        assert self._thread is not None
        is_synced = self._policy is FlushPolicy.ALWAYS and not commit.is_seal
        work, self._during_sync = self._during_sync, None
        on_written = partial(self._loop.call_soon_threadsafe, self._work, work) if work and is_synced else None
        write = partial(self._log.writer.write, commit, sync=is_synced, on_written=on_written)
        self._thread.put(write, partial(self._done, commit))
        self._work(self.while_written)
        self._work(None if is_synced else work)
        return True

    def _work(self, work: Callable[[], None] | None) -> None:
        if work is not None:
            self._supervisor.call("work_during_commit", work)

    def _done(self, commit: SealedCommit) -> None:
        try:
            self._complete(commit)
        except BaseException as error:  # noqa: BLE001 - memory and log may differ from here on
            self._fail(not_applied(commit.offset, error))
            return
        requests = len(self._waiting)
        self._release()
        if self._policy is FlushPolicy.ALWAYS and not self.is_replicated:
            self._group.completed(requests, len(self._waiting), commit.end - commit.offset)
        if not self.is_replicated:
            self.resume_sends()
        self.segments.soon()
        if (
            self._waiting
            and self._log.gather.has_pending
            and (not self._is_urgent or self._group.expects_more(self._new_requests))
        ):
            self._gather()
        elif not self._scheduled:
            self._begin()

    def _complete(self, commit: SealedCommit) -> None:
        self._in_flight = False
        self._log.complete(commit, is_confirmed=not self.is_replicated)
        seconds = self._clock.monotonic() - self._started_at
        self.commits += 1
        if self.observe_commit is not None and not commit.is_seal:
            self.observe_commit(seconds, commit.end - commit.offset)
        if seconds > SLOW_SYNC_SECONDS:
            logger.warning("a commit of %d bytes took %.2f s to reach the disk", commit.end - commit.offset, seconds)
        if not commit.is_seal:
            (self.on_stored or self._on_synced)(commit.end)

    def _seal_later(self) -> None:
        if self._seal_timer is None and self._policy is FlushPolicy.ALWAYS and self._log.gather.needs_seal:
            self._seal_timer = self._supervisor.later(SEAL_AFTER_SECONDS, "idle_seal", self._seal)

    def _seal(self) -> None:
        self._seal_timer = None
        if not (self._in_flight or self._scheduled or self.failed is not None):
            self._write(self._log.gather.seal_idle)

    def _sync_by_interval(self) -> None:
        if self.failed is None and self._thread is not None:
            self._thread.put(self._log.writer.sync)

    def _fail(self, error: BaseException) -> None:
        super()._fail(error)
        self._idle.set()
