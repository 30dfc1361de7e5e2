"""class RowChanges: changes of broker groups' rows in the database, with an answer that says what is known. No Django."""

import asyncio
import logging
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from typing import Protocol

from metaserver.memory.row_wishes import CandidateLog, LogLost, RowChange
from qmq.errors import QmqError
from qmq.protocol.group_rows import RowResult
from qmq.protocol.reasons import Reason
from qmq_node.process.counters import counted
from qmq_node.replication.rules.row import ChangeRejected, GroupRow

logger = logging.getLogger("qmq.meta.rows")

WAITING_MAX = 64
"""Changes that wait for the database; further ones are answered at once."""
ANSWER_SECONDS = 5.0
"""How long a request waits for the database."""
CLOSE_SECONDS = 1.0
"""How long the end of the metaserver waits for a change that is being made."""


class RowStore(Protocol):
    """Called from one thread only. Every call may raise when the database is unavailable."""

    def read(self, name: str) -> GroupRow:
        """The row of a broker group. Raises QmqError if there is none."""

    def change(
        self,
        name: str,
        change: RowChange,
        newest_place: tuple[int, int] | None,
        *,
        action: str,
        reason: Reason,
        log: CandidateLog | None = None,
    ) -> GroupRow:
        """Change the row by compare-and-set, as `metaserver.services.rows.change_row` does. Raises ChangeRejected, or QmqError if
        there is none."""

    def record_known(self, name: str, place: tuple[int, int]) -> None:
        """Record that this place of the row is known, if the stored row is older."""

    def close(self) -> None:
        """Close the connection to the database."""


@dataclass(frozen=True, slots=True)
class RowAnswer:
    """The answer to a request."""

    result: RowResult
    row: GroupRow | None
    """The newest row that was read; None if none was."""
    reason: str = ""
    lost: LogLost | None = None
    """Set if a promotion was refused because of what is stored of the node's log."""


@dataclass(slots=True)
class RowCounters:
    changes: int = counted("row_changes", "Changes of masters and in-sync sets")
    unavailable: int = counted("row_changes_unavailable", "Requested changes whose outcome is unknown")


@dataclass(eq=False, repr=False)
class RowChanges:
    """Makes changes one after the other, in a thread and with a connection of its own: they never wait for other writes."""

    _store: RowStore
    _on_row: Callable[[GroupRow], None]
    """Called on the event loop with each row that was read or stored."""
    _waiting: int = field(default=0, init=False)
    _is_closed: bool = field(default=False, init=False)
    counters: RowCounters = field(default_factory=RowCounters, init=False)
    _thread: ThreadPoolExecutor = field(default_factory=partial(ThreadPoolExecutor, 1, "rows"), init=False)

    async def make(
        self,
        name: str,
        change: RowChange,
        newest_place: tuple[int, int] | None,
        *,
        action: str,
        reason: Reason,
        log: CandidateLog | None = None,
    ) -> RowAnswer:
        """Change the row of a broker group.

        Args:
            newest_place: the highest epoch and version of the row that this metaserver has seen; None: the change replaces a row
                that was restored from a backup.
            action: what the audit log calls it.
            log: of the node that a promotion makes the master.
        """
        if self._waiting >= WAITING_MAX:
            return self._unavailable(f"{self._waiting} changes wait for the database")
        self._waiting += 1
        work = asyncio.get_running_loop().run_in_executor(
            self._thread, partial(self._make, name, change, newest_place, action, reason, log)
        )
        work.add_done_callback(self._made)
        try:
            # Shielded: the thread completes it in any case, and `_on_row` is called then.
            async with asyncio.timeout(ANSWER_SECONDS):
                answer = await asyncio.shield(work)
        except TimeoutError:
            return self._unavailable(f"the database has not responded for {ANSWER_SECONDS:g} s")
        if answer.result is RowResult.UNAVAILABLE:
            self.counters.unavailable += 1
        return answer

    async def read(self, name: str) -> None:
        """Read the row of a broker group for `_on_row`; nothing happens if there is none, or the database does not respond."""
        if self._waiting >= WAITING_MAX:
            return
        self._waiting += 1
        try:
            row = await asyncio.get_running_loop().run_in_executor(self._thread, self._read, name)
        finally:
            self._waiting -= 1
        if row is not None:
            self._on_row(row)

    async def record_known(self, name: str, place: tuple[int, int]) -> None:
        """Record in the database that a newer row is known than the stored one, so that no other metaserver changes that.

        Raises what the database raises. Nothing happens while too many changes wait.
        """
        if self._waiting >= WAITING_MAX or self._is_closed:
            return
        self._waiting += 1
        try:
            await asyncio.get_running_loop().run_in_executor(self._thread, self._store.record_known, name, place)
        finally:
            self._waiting -= 1

    def _unavailable(self, reason: str) -> RowAnswer:
        self.counters.unavailable += 1
        return RowAnswer(RowResult.UNAVAILABLE, None, reason)

    def _made(self, work: "asyncio.Future[RowAnswer]") -> None:
        self._waiting -= 1
        if work.cancelled() or work.exception() is not None:
            return
        answer = work.result()
        if answer.result is RowResult.DONE:
            self.counters.changes += 1
        if answer.row is not None:
            self._on_row(answer.row)

    async def close(self) -> None:
        """End the thread and its connection. Changes that wait are not made; one being made has CLOSE_SECONDS to complete."""
        self._is_closed = True
        closing = asyncio.get_running_loop().run_in_executor(self._thread, self._store.close)
        self._thread.shutdown(wait=False)
        await asyncio.wait([closing], timeout=CLOSE_SECONDS)

    # --- in the thread ---------------------------------------------------------------------------------------------

    def _make(
        self,
        name: str,
        change: RowChange,
        newest_place: tuple[int, int] | None,
        action: str,
        reason: Reason,
        log: CandidateLog | None,
    ) -> RowAnswer:
        intended: GroupRow | None = None

        def noted(row: GroupRow) -> GroupRow:
            nonlocal intended
            intended = change(row)
            return intended

        if self._is_closed:
            return RowAnswer(RowResult.UNAVAILABLE, None, "this metaserver stops")
        try:
            row = self._store.change(name, noted, newest_place, action=action, reason=reason, log=log)
        except ChangeRejected as rejected:
            result = RowResult.STALE if rejected.is_stale else RowResult.REFUSED
            lost = rejected if isinstance(rejected, LogLost) else None
            return RowAnswer(result, self._read(name), str(rejected), lost)
        except QmqError as error:
            return RowAnswer(RowResult.REFUSED, None, str(error))
        except Exception as error:  # noqa: BLE001 - any error of the database; the metaserver continues
            logger.warning("it is unknown whether the row of %s was changed (%s): %s", name, action, error)
            return self._resolved(name, intended, error)
        return RowAnswer(RowResult.DONE, row)

    def _resolved(self, name: str, intended: GroupRow | None, error: Exception) -> RowAnswer:
        """What became of a change after an error of the database: its answer may have been lost.

        Only a row that is as intended says anything for certain. A row that is as before may still be changed, by a
        transaction that the database has not ended yet.
        """
        row = self._read(name)
        if row is not None and intended is not None:
            if row == intended:
                return RowAnswer(RowResult.DONE, row)
            if row.version >= intended.version:
                return RowAnswer(RowResult.STALE, row, "the row has changed meanwhile")
        return RowAnswer(RowResult.UNAVAILABLE, row, f"the database failed: {error}")

    def _read(self, name: str) -> GroupRow | None:
        if self._is_closed:
            return None
        try:
            return self._store.read(name)
        except QmqError:
            # There is no such group: it has registered, and is not stored yet.
            return None
        except Exception as error:  # noqa: BLE001 - as in `_make`
            logger.info("the row of %s can't be read: %s", name, error)
            return None
