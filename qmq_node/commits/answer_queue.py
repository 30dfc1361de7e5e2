"""class AnswerQueue: what waits until the records of a log are below its high watermark."""

import asyncio
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field

from qmq.clock import Clock
from qmq.errors import CommitNotApplied, LogError
from qmq.supervisor import Supervisor, describe
from qmq_node.log.log import SegmentedLog


@dataclass(eq=False, repr=False)
class AnswerQueue(ABC):
    """Callbacks and coroutines that wait for log offsets; on the event loop.

    It is fail-stop: once a write, a sync or the application of a commit has failed, no callback is called any more.
    """

    _log: SegmentedLog
    """Only the committer calls its `take`, `write`, `complete` and `confirm`."""
    _clock: Clock
    _on_synced: Callable[[int], None]
    """Applies commits: called on the event loop with the new high watermark, before the callbacks of `when_synced`. If it raises,
    the committer fails."""
    _on_failed: Callable[[BaseException], None]
    """Called once on the event loop with the failure: OSError or LogError of a write or sync (whether the commit is on disk is
    unknown), or CommitNotApplied."""
    _supervisor: Supervisor
    _waiting: deque[tuple[int, Callable[[], None]]] = field(default_factory=deque, init=False)
    _new_requests: int = field(default=0, init=False)
    """How many of them came since the last commit began."""
    _awaited: dict[asyncio.Future[None], None] = field(default_factory=dict, init=False)
    """Futures of pending calls of `synced`, in the order of the calls; a failure ends them."""
    _in_flight: bool = field(default=False, init=False)
    on_confirmed: Callable[[], None] | None = field(default=None, init=False)
    """Called by `resume_sends`: when the high watermark moved and what waited for it was called back, when the next segment exists,
    and when the node may have begun or ceased to accept sends."""
    failed: BaseException | None = field(default=None, init=False)

    @abstractmethod
    def kick(self) -> None:
        """Something was appended: begin a commit at the end of this turn of the event loop, unless one is on its way."""

    @abstractmethod
    def _gather(self) -> None:
        """Something was appended that may wait for more."""

    def when_synced(self, offset: int, callback: Callable[[], None], *, is_urgent: bool = True) -> None:
        """Call back once the record at log offset `offset` is below the high watermark; at once when it is already (or is -1).

        What is not urgent waits up to GATHER_SECONDS for the next commit: a consumer sends its next pull right after an
        ack, and one sync is enough for both.

        A callback that raises is counted and logged, and the next ones are called: what it belongs to is durable and
        applied, only one answer is missing. After a failure or the stop of the committer nothing is called back.
        """
        if self.failed is not None:
            return
        if offset < self._log.high_watermark and not self._waiting:
            callback()
            return
        self._waiting.append((offset, callback))
        self._new_requests += 1
        if is_urgent:
            self.kick()
        elif not self._in_flight:
            self._gather()

    async def synced(self, offset: int) -> None:
        """Wait until the record at a log offset is below the high watermark.

        Raises LogError when the committer fails or stops; the outcome is unknown.
        """
        if self.failed is not None:
            raise _has_failed(self.failed)
        done = asyncio.get_running_loop().create_future()
        self._awaited[done] = None
        self.when_synced(offset, lambda: None if done.done() else done.set_result(None))
        try:
            await done
        finally:
            del self._awaited[done]

    @property
    def waiting(self) -> int:
        """Answers held back until their records are below the high watermark."""
        return len(self._waiting)

    @property
    def high_watermark(self) -> int:
        """The first log offset that is not known to be on the disk of every member of the in-sync set."""
        return self._log.high_watermark

    @property
    def unconfirmed_bytes(self) -> int:
        """Bytes appended and not below the high watermark. Up to 64 of them may be a seal, for which nothing waits."""
        return self._log.gather.appended_end - self._log.high_watermark

    def confirm(self, high_watermark: int) -> None:
        """Move the high watermark of a replicated log, apply what is below it, and call back what waited for it.

        Args:
            high_watermark: the end of a commit that every member of the in-sync set has synced, this node included.

        Raises:
            ValueError: it is below the last one, above what is synced here, or not the end of a commit. Nothing was changed.
        """
        if self.failed is not None:
            return
        before = self._log.high_watermark
        self._log.watermark.confirm(high_watermark)
        if high_watermark == before:
            return
        try:
            self._on_synced(high_watermark)
        except BaseException as error:  # noqa: BLE001 - memory and log may differ from here on
            self._fail(not_applied(before, error))
            return
        self._release()
        self.resume_sends()

    def resume_sends(self) -> None:
        """Handle sends that wait, as far as they may continue or are rejected now."""
        if self.on_confirmed is not None:
            self.on_confirmed()

    def _release(self) -> None:
        waiting, end = self._waiting, self._log.high_watermark
        while waiting and waiting[0][0] < end:
            callback = waiting.popleft()[1]
            try:
                callback()
            except Exception as error:  # noqa: BLE001 - counted; other clients' answers must not wait for this one
                self._supervisor.report("answer", error)

    def _fail(self, error: BaseException) -> None:
        if self.failed is None:
            self.failed = error
            self._waiting.clear()
            self._on_failed(error)
            self._end_waits(_has_failed(error))

    def _end_waits(self, error: LogError) -> None:
        """Raise an error in all coroutines that wait."""
        for done in self._awaited:
            if not done.done():
                done.set_exception(error)


def not_applied(offset: int, error: BaseException) -> CommitNotApplied:
    """Return the failure of a node that stored the commit at a log offset and could not apply it."""
    failure = CommitNotApplied(
        f"the commit at log offset {offset} is on disk and could not be applied: {describe(error)}"
    )
    failure.__cause__ = error
    return failure


def _has_failed(error: BaseException) -> LogError:
    failure = LogError(f"the message log has failed: {error}")
    failure.__cause__ = error
    return failure
