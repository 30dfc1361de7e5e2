"""class CopySteps: brings a slave from one phase of its copy to the next."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Generator
from dataclasses import dataclass, field
from functools import partial
from typing import TypeVar

from qmq.errors import LogError
from qmq.net.caller import Caller
from qmq_node.replication.slave.copy_thread import CopyThread
from qmq_node.replication.slave.follow_outcomes import FollowerIdentity
from qmq_node.replication.slave.slave_copy import SlaveCopy
from qmq_node.replication.slave.state_copy import StateRemoved, read_file, read_state
from qmq_node.replication.state_files import WantedBytes

T = TypeVar("T")

logger = logging.getLogger("qmq_node.replication.rules")


@dataclass(eq=False, repr=False)
class CopySteps:
    """Each step is made durable in the thread that writes the log, so in order with what is written."""

    _copy: SlaveCopy
    _thread: CopyThread
    _on_ended: Callable[[], None]
    """Called when the copy is complete: what is synced may be confirmed, or the log has to be opened (`is_log_copied`)."""
    _read_elsewhere: Callable[[WantedBytes], Awaitable[bytes]]
    """Reads what is damaged at the master from another member, whole; nothing if none has it."""
    on_change: Callable[[], None] = field(default_factory=lambda: lambda: None, init=False)
    """Called when the slave begins or ends to copy."""
    _is_ending: bool = field(default=False, init=False)

    @property
    def is_copying(self) -> bool:
        """Whether what is put to the writing thread now will be written while the slave copies."""
        return self._copy.is_copying and not self._is_ending

    async def read_state(self, caller: Caller, identity: FollowerIdentity) -> int:
        """Read the master's state, and store it. Return its size in bytes. Raises QmqError."""
        data, log_id = await read_state(caller, identity, self._copy.read)
        await self._in_thread(partial(self._copy.store_state, data, identity.epoch, log_id))
        return len(data)

    async def copy_files(self, caller: Caller, identity: FollowerIdentity, on_read: Callable[[int], None]) -> None:
        """Copy the files that the stored state counts.

        Args:
            on_read: called with the size of each piece in bytes.

        Raises QmqError: another session continues.
        """
        copy = self._copy
        steps = copy.copy_files()
        data: bytes | None = None
        try:
            while (wanted := await self._in_thread(partial(_advance, steps, data))) is not None:
                copy.read(wanted.done_bytes, wanted.total_bytes)
                if wanted.is_damaged:
                    data = await self._read_elsewhere(wanted)
                else:
                    data = await read_file(caller, identity, copy.state_offset, wanted)
                on_read(len(data))
        except StateRemoved:
            copy.state_removed()
            raise
        await self._in_thread(copy.store_files)

    async def _in_thread(self, job: Callable[[], T]) -> T:
        """Return what a job returns in the thread that writes. It is done before those of another follower. Raises LogError."""
        done = asyncio.Event()
        results, errors = list[T](), list[LogError]()

        def work() -> None:
            try:
                results.append(job())
            except LogError as error:
                errors.append(error)

        self._thread.then(work, done.set)
        await done.wait()
        if errors:
            raise errors[0]
        return results[0]

    def advance(self, received_end: int, applied_end: int) -> bool:
        """Begin or end copying when it is time; whether the slave copies now, so that nothing may be confirmed.

        Args:
            received_end: where the log ends when everything that has arrived is written.
            applied_end: up to where it is applied to the store.
        """
        copy = self._copy
        if not copy.is_copying:
            if copy.must_begin(received_end):
                logger.info("this slave lacks %d bytes: it copies them", copy.goal - received_end)
                copy.begin()
                self._thread.then(copy.store_begin, self.on_change)
        elif copy.has_log():
            self._end(copy.store_log, self._log_copied)
        elif copy.may_end(applied_end):
            self._end(copy.store_end, self._copied)
        return copy.is_copying

    def _end(self, store: Callable[[], None], then: Callable[[], None]) -> None:
        if not self._is_ending:
            self._is_ending = True
            self._thread.then(store, then)

    def _log_copied(self) -> None:
        self._copy.is_log_copied = True
        self._on_ended()

    def _copied(self) -> None:
        self._is_ending = False
        self._copy.ended()
        self.on_change()
        self._on_ended()


def _advance(steps: Generator[WantedBytes, bytes, None], data: bytes | None) -> WantedBytes | None:
    """Return what comes next after what was wanted before is here, None at first; None: all is complete."""
    try:
        return next(steps) if data is None else steps.send(data)
    except StopIteration:
        return None
