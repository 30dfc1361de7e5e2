"""The one writing task: gather what arrived, one write, one sync in a thread, answer all that waited.

While a commit is on its way to the disk the event loop goes on gathering the next, so the number of messages that share
a sync grows with the load by itself; `qmq.daemon.group_commit` decides when the next one waits. Cost per commit: one
hand-over to the thread and back, one pwritev, one fdatasync.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial

from qmq.clock import Clock
from qmq.daemon.group_commit import GATHER_SECONDS, GroupCommit
from qmq.daemon.job_thread import JobThread, StartThread
from qmq.daemon.segment_preparation import SegmentPreparation
from qmq.errors import CommitNotApplied, LogError
from qmq.log.commit import FlushPolicy, SealedCommit
from qmq.log.log import SegmentedLog
from qmq.supervisor import Supervisor, describe

logger = logging.getLogger("qmq.committer")

SEAL_AFTER_SECONDS = 0.05
"""Idle this long, an empty commit is written (not synced): it proves to a later recovery that the last one was synced."""
SLOW_SYNC_SECONDS = 0.5
"""A commit slower than this is said in the log."""


@dataclass(eq=False, repr=False)
class Committer:
    """Writes a log's commits in order, from one thread, and calls back what waited.

    It is fail-stop: once a write, a sync or the application of a commit has failed, no callback is called any more.
    """

    _log: SegmentedLog
    """Only the committer calls its `take`, `write` and `complete`."""
    _clock: Clock
    _on_synced: Callable[[int], None]
    """Applies a commit: called on the event loop with the new synced end, before the callbacks of `when_synced`. If it raises, the
    committer fails."""
    _on_failed: Callable[[BaseException], None]
    """Called once on the event loop with the failure: OSError or LogError of a write or sync (whether the commit is on disk is
    unknown), or CommitNotApplied."""
    _supervisor: Supervisor
    _policy: FlushPolicy
    _interval_seconds: float
    """For `FlushPolicy.INTERVAL`, how often the log is synced."""
    _start_thread: StartThread
    """Starts what writes and syncs."""
    _waiting: deque[tuple[int, Callable[[], None]]] = field(default_factory=deque, init=False)
    _awaited: dict[asyncio.Future[None], None] = field(default_factory=dict, init=False)
    """Futures of pending calls of `synced`, in the order of the calls; a failure ends them."""
    _thread: JobThread | None = field(default=None, init=False)
    _in_flight: bool = field(default=False, init=False)
    _scheduled: bool = field(default=False, init=False)
    _is_urgent: bool = field(default=False, init=False)
    """Whether pending records need a commit at once; acks alone wait for further requests."""
    _gather_timer: asyncio.TimerHandle | None = field(default=None, init=False)
    _seal_timer: asyncio.TimerHandle | None = field(default=None, init=False)
    _idle: asyncio.Event = field(default_factory=asyncio.Event, init=False)
    _started_at: float = field(default=0.0, init=False)
    failed: BaseException | None = field(default=None, init=False)
    commits: int = field(default=0, init=False)
    observe_commit: Callable[[float, int], None] | None = field(default=None, init=False)
    while_written: Callable[[], None] | None = field(default=None, init=False)
    """Called after a commit was passed to the writing thread, for work to do while that thread starts."""
    _during_sync: Callable[[], None] | None = field(default=None, init=False)

    def __post_init__(self) -> None:
        self._group = GroupCommit(self._clock)
        self.segments = SegmentPreparation(self._log, self._supervisor)
        self._idle.set()

    def start(self) -> None:
        """Start the writing thread and the periodic jobs; on the event loop."""
        self._loop = asyncio.get_running_loop()
        self._thread = self._start_thread("committer", self._fail)
        self.segments.start()
        if self._policy is FlushPolicy.INTERVAL:
            self._supervisor.every(self._interval_seconds, "interval_sync", self._sync_by_interval, until_close=True)

    def when_synced(self, offset: int, callback: Callable[[], None], *, is_urgent: bool = True) -> None:
        """Call back once the record at log offset `offset` is on disk; at once when it is already (or is -1).

        What is not urgent waits up to GATHER_SECONDS for the next commit: a consumer sends its next pull right after an
        ack, and one sync is enough for both.

        A callback that raises is counted and logged, and the next ones are called: what it belongs to is durable and
        applied, only one answer is missing. After a failure of the committer nothing is called back.
        """
        if self.failed is not None:
            return
        if offset < self._log.synced_end and not self._waiting:
            callback()
            return
        self._waiting.append((offset, callback))
        if is_urgent:
            self.kick()
        elif not self._in_flight:
            self._gather()

    async def synced(self, offset: int) -> None:
        """Wait until the record at a log offset is on disk. Raises LogError when the committer fails; the outcome is unknown."""
        if self.failed is not None:
            raise _has_failed(self.failed)
        done = asyncio.get_running_loop().create_future()
        self._awaited[done] = None
        self.when_synced(offset, lambda: None if done.done() else done.set_result(None))
        try:
            await done
        finally:
            del self._awaited[done]

    def during_sync(self, work: Callable[[], None]) -> None:
        """Call `work` once on the event loop during the sync of the next commit; if that is not synced, after it was passed to the
        writing thread. `work` should take no longer than a sync, about 100 us."""
        self._during_sync = work

    @property
    def waiting(self) -> int:
        """Answers held back until their records are synced."""
        return len(self._waiting)

    def kick(self) -> None:
        """Something was appended: begin a commit at the end of this turn of the event loop, unless one is on its way."""
        self._is_urgent = True
        if self._in_flight or self._scheduled or self.failed is not None or self._thread is None:
            return
        if self._group.expects_more(len(self._waiting)):
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
        """Wait until everything appended so far is on disk and called back."""
        was_off = self._group.is_off
        self.hurry()
        try:
            await self._idle.wait()
        finally:
            self._group.is_off = was_off

    async def stop(self) -> None:
        """Write what is left, end the thread."""
        if self.failed is None:
            await self.drain()
        if self._seal_timer is not None:
            self._seal_timer.cancel()
        thread, self._thread = self._thread, None
        if thread is not None:
            await thread.stop()

    def _begin(self) -> None:
        self._scheduled = False
        if self._gather_timer is not None:
            self._gather_timer.cancel()
            self._gather_timer = None
        if self._in_flight or self.failed is not None or self._thread is None:
            return
        is_written = self._write(self._log.take)
        # More than one commit holds: the rest follows at once.
        self._is_urgent = self._is_urgent and self._log.has_pending
        if is_written:
            self._group.begun(len(self._waiting), is_partial=self._log.has_pending)
        else:
            self._release(self._log.synced_end)
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
        write = partial(self._log.write, commit, sync=is_synced, on_written=on_written)
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
            text = f"the commit at log offset {commit.offset} is on disk and could not be applied: {describe(error)}"
            failure = CommitNotApplied(text)
            failure.__cause__ = error
            self._fail(failure)
            return
        requests = len(self._waiting)
        self._release(self._log.synced_end)
        if self._policy is FlushPolicy.ALWAYS:
            self._group.completed(requests, len(self._waiting), commit.end - commit.offset)
        self.segments.soon()
        if self._waiting and (not self._is_urgent or self._group.expects_more(len(self._waiting))):
            self._gather()
        elif not self._scheduled:
            self._begin()

    def _complete(self, commit: SealedCommit) -> None:
        self._in_flight = False
        self._log.complete(commit)
        seconds = self._clock.monotonic() - self._started_at
        self.commits += 1
        if self.observe_commit is not None and not commit.is_seal:
            self.observe_commit(seconds, commit.end - commit.offset)
        if seconds > SLOW_SYNC_SECONDS:
            logger.warning("a commit of %d bytes took %.2f s to reach the disk", commit.end - commit.offset, seconds)
        if not commit.is_seal:
            self._on_synced(self._log.synced_end)

    def _release(self, synced_end: int) -> None:
        waiting = self._waiting
        while waiting and waiting[0][0] < synced_end:
            callback = waiting.popleft()[1]
            try:
                callback()
            except Exception as error:  # noqa: BLE001 - counted; other clients' answers must not wait for this one
                self._supervisor.report("answer", error)

    def _seal_later(self) -> None:
        if self._seal_timer is None and self._policy is FlushPolicy.ALWAYS and self._log.needs_seal:
            self._seal_timer = self._supervisor.later(SEAL_AFTER_SECONDS, "idle_seal", self._seal)

    def _seal(self) -> None:
        self._seal_timer = None
        if not (self._in_flight or self._scheduled or self.failed is not None):
            self._write(self._log.seal_idle)

    def _sync_by_interval(self) -> None:
        if self.failed is None and self._thread is not None:
            self._thread.put(self._log.sync)

    def _fail(self, error: BaseException) -> None:
        if self.failed is None:
            self.failed = error
            self._waiting.clear()
            self._idle.set()
            self._on_failed(error)
            for done in self._awaited:
                if not done.done():
                    done.set_exception(_has_failed(error))


def _has_failed(error: BaseException) -> LogError:
    failure = LogError(f"the message log has failed: {error}")
    failure.__cause__ = error
    return failure
