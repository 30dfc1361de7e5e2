"""class CopyThread: writes the master's commits to a slave's log, in the order in which they arrived."""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial

from qmq_node.log.copied_log import CopiedCommits, CopiedLog, CopyRejected
from qmq_node.log.record import CommitHeader
from qmq_node.process.job_thread import Job, JobThread, StartThread

COMMITS_PER_CONFIRMATION = 4
"""While each commit has its own sync, a slave confirms after this number of them, however many have arrived together. A
master rejects sends when stored messages have waited 2 s without progress. With syncs of 0.2 s there is a confirmation
every 0.8 s, or every 1.2 s where a segment is created."""

Written = Callable[[Sequence[CommitHeader]], None]
Rejected = Callable[[CopyRejected], None]


@dataclass(eq=False, slots=True)
class _Copy:
    """One job of the thread."""

    log: CopiedLog
    commits: CopiedCommits
    headers: Sequence[CommitHeader] = ()
    rejected: CopyRejected | None = None

    def write(self) -> None:
        """Check, write and sync the commits. Raises OSError or LogError if the log has failed."""
        try:
            self.headers = self.log.write(self.commits)
        except CopyRejected as error:
            self.rejected = error


@dataclass(eq=False, repr=False)
class CopyThread:
    """The one writer of a slave's log."""

    _copied: CopiedLog
    _start_thread: StartThread
    _on_failed: Callable[[BaseException], None]
    """Called on the event loop when the disk has refused: the log takes no more."""
    _on_synced: Callable[[], None]
    """Called on the event loop after a sync of copied commits that were written without one."""
    _thread: JobThread | None = field(default=None, init=False)
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
            written: called on the event loop with the headers of those that are part of the log now, in order. While the slave
                follows, that is at least once for each COMMITS_PER_CONFIRMATION of them.
            rejected: called instead, for those that can't follow on what the log has. Nothing of them was written, nor of those
                behind them, for which it may be called as well.
            is_copying: whether they will share syncs when it is their turn.
        """
        assert self._thread is not None
        self._idle.clear()
        self.pending_bytes += len(commits.data)
        for part in (commits,) if is_copying else commits.parts(COMMITS_PER_CONFIRMATION):
            copy = _Copy(self._copied, part)
            self._thread.put(copy.write, partial(self._done, copy, written, rejected))

    def then(self, job: Job, done: Job) -> None:
        """Do `job` behind all writes that were put before, then call `done` on the event loop. An OSError of it ends the log."""
        assert self._thread is not None
        self._thread.put(job, done)

    @property
    def write_under_way(self) -> int | None:
        """Identifies the write that is under way; None: none is."""
        return self._written if self.pending_bytes and not self._idle.is_set() else None

    async def drained(self) -> None:
        """Wait until nothing is being written."""
        await self._idle.wait()

    async def stop(self) -> None:
        """Write and sync what is left, and end the thread."""
        thread, self._thread = self._thread, None
        if thread is not None:
            if self._copied.is_copying:
                thread.put(self._copied.sync)
            await thread.stop()

    def _done(self, copy: _Copy, written: Written, rejected: Rejected) -> None:
        self.pending_bytes -= len(copy.commits.data)
        self._written += 1
        if not self.pending_bytes:
            self._idle.set()
        if copy.rejected is not None:
            rejected(copy.rejected)
            return
        # Also if the session has ended meanwhile: the log has them.
        self._copied.complete(copy.headers)
        written(copy.headers)
        if self._copied.is_copying and not self.pending_bytes and self._thread is not None:
            # The master may wait for a confirmation before it sends more.
            self._thread.put(self._copied.sync, self._on_synced)

    def _failed(self, error: BaseException) -> None:
        self._idle.set()
        self._on_failed(error)
