"""class CopyThread: writes the master's commits to a slave's log, in the order in which they arrived."""

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial

from qmq.clock import Clock
from qmq_node.log.copied_log import CopiedCommits, CopiedLog, CopyRejected
from qmq_node.log.record import CommitHeader
from qmq_node.process.job_thread import Job, JobThread, StartThread
from qmq_node.replication.slave.confirmations import FollowerCounters
from qmq_node.replication.slave.sync_sharing import SHARED_BYTES_MAX, SHARED_COMMITS_MAX, SyncSharing

COMMITS_PER_CONFIRMATION = 4
"""While each commit has its own sync, a slave confirms after this number of them, however many have arrived together. A
master rejects sends when stored messages have waited 2 s without progress. With syncs of 0.2 s there is a confirmation
every 0.8 s, or every 1.2 s where a segment is created."""

ROUNDS_MAX = 2
"""Jobs of the thread that are on their way while commits share syncs: each takes all commits that wait when it
begins."""

Written = Callable[[Sequence[CommitHeader]], None]
Rejected = Callable[[CopyRejected], None]


@dataclass(eq=False, slots=True)
class _Copy:
    """Commits to be written."""

    commits: CopiedCommits
    put_at: float
    on_written: Written
    on_rejected: Rejected
    headers: Sequence[CommitHeader] = ()
    rejected: CopyRejected | None = None


@dataclass(eq=False, slots=True)
class _Other:
    """Another job of the thread, in order with the writes."""

    job: Job
    done: Job


@dataclass(eq=False, repr=False)
class CopyThread:
    """The one writer of a slave's log."""

    _copied: CopiedLog
    _clock: Clock
    _start_thread: StartThread
    _on_failed: Callable[[BaseException], None]
    """Called on the event loop when the disk has refused: the log takes no more."""
    _on_synced: Callable[[], None]
    """Called on the event loop after commits were written, of which more may be synced now."""
    _counters: FollowerCounters
    _thread: JobThread | None = field(default=None, init=False)
    _waiting: deque[_Copy | _Other] = field(default_factory=deque, init=False)
    """What was put and not begun, in order. The event loop adds, the thread removes."""
    _rounds: int = field(default=0, init=False)
    """Jobs of the thread that are on their way."""
    _sharing: SyncSharing = field(default_factory=SyncSharing, init=False)
    _idle: asyncio.Event = field(default_factory=asyncio.Event, init=False)
    pending_bytes: int = field(default=0, init=False)
    """Bytes of commits that are not written yet."""
    _written: int = field(default=0, init=False)
    """How often commits were written."""

    def __post_init__(self) -> None:
        self._idle.set()

    def start(self) -> None:
        """Start the thread; on the event loop."""
        self._thread = self._start_thread("copier", self._failed)

    def put(self, commits: CopiedCommits, written: Written, rejected: Rejected, *, is_copying: bool) -> None:
        """Write commits behind those that were put before.

        Args:
            written: called on the event loop with the headers of those that are part of the log now, in order.
            rejected: called instead, for those that can't follow on what the log has. Nothing of them was written, nor of those
                behind them, for which it may be called as well.
            is_copying: whether the slave will copy when it is their turn.
        """
        self._idle.clear()
        self.pending_bytes += len(commits.data)
        now = self._clock.monotonic()
        for part in (commits,) if is_copying else commits.parts(COMMITS_PER_CONFIRMATION):
            self._put(_Copy(part, now, written, rejected))

    def then(self, job: Job, done: Job) -> None:
        """Do `job` behind all writes that were put before, then call `done` on the event loop. An OSError of it ends the log."""
        self._put(_Other(job, done))

    @property
    def write_under_way(self) -> int | None:
        """Identifies the write that is under way; None: none is."""
        return self._written if self.pending_bytes and not self._idle.is_set() else None

    @property
    def shares_syncs(self) -> bool:
        """Whether commits share syncs now."""
        return self._copied.shares_syncs

    async def drained(self) -> None:
        """Wait until nothing is being written."""
        await self._idle.wait()

    async def stop(self) -> None:
        """Write and sync what is left, so that no commits share syncs any more, and end the thread."""
        if self._thread is not None:
            for _ in range(len(self._waiting)):
                self._start_round()
            thread, self._thread = self._thread, None
            thread.put(self._copied.sync if self._copied.is_copying else self._copied.sync_each)
            await thread.stop()

    def _put(self, item: _Copy | _Other) -> None:
        self._waiting.append(item)
        if not self._copied.shares_syncs or self._rounds < ROUNDS_MAX:
            self._start_round()

    def _start_round(self) -> None:
        assert self._thread is not None
        self._rounds += 1
        begun: list[_Copy | _Other] = []
        self._thread.put(partial(self._begin, begun), partial(self._done, begun))

    # --- in the thread ---------------------------------------------------------------------------------------------

    def _begin(self, begun: list[_Copy | _Other]) -> None:
        """Do what comes next; nothing if that was done with what came before. Raises OSError or LogError if the log has
        failed.

        Args:
            begun: gets what was done.
        """
        if not self._waiting:
            return
        item = self._waiting[0]
        if isinstance(item, _Copy) and not self._copied.is_copying and self._shares_syncs_from(item):
            self._write_shared(begun)
            return
        begun.append(self._waiting.popleft())
        if isinstance(item, _Other):
            item.job()
            return
        self._write(item)
        if not self._copied.is_copying:
            self._count(len(item.headers), sum(header.record_count > 0 for header in item.headers))

    def _shares_syncs_from(self, copy: _Copy) -> bool:
        """Begin or end to share syncs, if it is time; whether they are shared."""
        now, sharing, copied = self._clock.monotonic(), self._sharing, self._copied
        if copied.shares_syncs:
            if sharing.may_end(now):
                copied.sync_each()
        elif sharing.is_needed(now - copy.put_at, len(self._waiting)):
            copied.share_syncs()
            sharing.began(now)
        return copied.shares_syncs

    def _write_shared(self, begun: list[_Copy | _Other]) -> None:
        """Write all commits that wait, as far as they may share a sync, then sync them."""
        commits = size = 0
        while self._waiting and isinstance(copy := self._waiting[0], _Copy):
            begun.append(self._waiting.popleft())
            self._write(copy)
            commits, size = commits + len(copy.headers), size + len(copy.commits.data)
            if copy.rejected is not None or commits >= SHARED_COMMITS_MAX or size >= SHARED_BYTES_MAX:
                break
        self._copied.sync()
        self._sharing.shared(commits)
        self._count(commits, 2)

    def _write(self, copy: _Copy) -> None:
        try:
            copy.headers = self._copied.write(copy.commits)
        except CopyRejected as error:
            copy.rejected = error

    def _count(self, commits: int, syncs: int) -> None:
        self._counters.written_commits += commits
        self._counters.commit_syncs += syncs

    # --- on the event loop -----------------------------------------------------------------------------------------

    def _done(self, begun: list[_Copy | _Other]) -> None:
        self._rounds -= 1
        if self._thread is not None and self._rounds < min(ROUNDS_MAX, len(self._waiting)):
            self._start_round()
        has_written = False
        for item in begun:
            if isinstance(item, _Other):
                item.done()
            elif self._is_written(item):
                has_written = True
        if has_written:
            self._on_synced()
            if self._copied.is_copying and not self.pending_bytes and self._thread is not None:
                # The master may wait for a confirmation before it sends more.
                self._thread.put(self._copied.sync, self._on_synced)

    def _is_written(self, copy: _Copy) -> bool:
        """Make commits part of the log, unless they were rejected."""
        self.pending_bytes -= len(copy.commits.data)
        self._written += 1
        if not self.pending_bytes:
            self._idle.set()
        if copy.rejected is not None:
            copy.on_rejected(copy.rejected)
            return False
        # Also if the session has ended meanwhile: the log has them.
        self._copied.complete(copy.headers)
        copy.on_written(copy.headers)
        return True

    def _failed(self, error: BaseException) -> None:
        self._idle.set()
        self._on_failed(error)
