"""Retention of single subjects, shorter than the node's: entries of the consume log are dropped, their bytes leave with their
segment.

Store times may step back with the wall clock, so entries are looked at one after the other and the first young one ends it:
nothing that is young enough is dropped, whatever stands behind it.
"""

import logging
from collections import deque
from collections.abc import Callable

from broker_node.consume_log import ENTRY, ENTRY_BYTES
from broker_node.disk_work import DiskWork
from broker_node.index_repair import DamagedEntries
from broker_node.reader import WITHHELD
from broker_node.retention_clock import RetentionClock
from broker_node.store import MessageStore
from broker_node.subject import Subject
from qmq.errors import LogError
from qmq.policy import NodePolicy

logger = logging.getLogger("qmq.broker.retention")

TICK_ENTRIES_MAX = 128 * 1024
"""Entries dropped in one tick, over all subjects: looking at them takes the event loop's time, some 10 ms for all."""
TICK_SUBJECTS_MAX = 500
"""Subjects looked at in one tick; all of them in turn."""
CHUNK_ENTRIES = 8 * 1024
FIRST_CHUNK_ENTRIES = 32
"""Most looks find nothing old, or little."""


class _EntriesRead(DiskWork):
    """Index entries that are not in memory."""

    def __init__(self, subject: Subject, begin: int, end: int) -> None:
        super().__init__()
        self._subject = subject
        self._begin = begin
        self._view = subject.consume_log.index.view(begin, end)
        self._found: bytes | LogError = b""
        self.is_finished = False

    def read(self) -> None:
        try:
            self._found = self._view.read(self._view.begin, self._view.end)
        except LogError as error:
            self._found = error

    def finish(self) -> DiskWork | None:
        self.is_finished = True
        return None

    def is_of(self, subject: Subject, begin: int) -> bool:
        """Whether it reads a subject's entries from `begin` on."""
        return (self._subject, self._begin) == (subject, begin)

    def entries(self) -> bytes:
        """What was read. Raises LogError: the file could not be read."""
        if isinstance(self._found, LogError):
            raise self._found
        return self._found


class SubjectRetention:
    """Drops what a policy says is too old."""

    def __init__(
        self,
        store: MessageStore,
        node_hours: float,
        in_background: Callable[[DiskWork], None],
        clock: RetentionClock,
    ) -> None:
        self._store = store
        self._clock = clock
        self._in_background = in_background
        self._reads: dict[str, _EntriesRead] = {}
        """Entries being read in a thread, or read by one, by subject."""
        self._node_hours = node_hours
        self._keep_ms: dict[str, int] = {}
        self._queue: deque[str] = deque()
        self._may_wait = False
        self.dropped = 0
        self.problem = ""
        """The first failure of the last tick; "" when there was none."""

    def apply(self, policy: NodePolicy) -> None:
        """Go by this policy from now on. What was dropped stays dropped."""
        self._keep_ms = {
            subject: round(rules.retention_hours * 3_600_000)
            for subject, rules in policy.subjects.items()
            if rules.retention_hours is not None and rules.retention_hours < self._node_hours
        }
        self._queue.clear()
        self._reads.clear()

    def tick(self, *, may_wait: bool = False) -> bool:
        """Look at subjects in turn; whether the turn, or a subject in it, was cut short by a limit.

        Args:
            may_wait: wait for the disk; else subjects whose entries are not in memory are looked at when they are.
        """
        self._may_wait = may_wait
        self.problem = ""
        if not self._queue:
            self._queue.extend(self._keep_ms)
        room, subjects = TICK_ENTRIES_MAX, min(len(self._queue), TICK_SUBJECTS_MAX)
        for _ in range(subjects):
            if room <= 0:
                break
            name = self._queue.popleft()
            subject, keep_ms = self._store.subjects.get(name), self._keep_ms.get(name)
            if subject is None or keep_ms is None:
                continue
            dropped, is_done = self._drop(subject, self._clock.before_ms(keep_ms), room)
            room -= dropped
            if subject.is_empty:
                self._store.maybe_empty[name] = None
            if not is_done:
                self._queue.append(name)
        return bool(self._queue)

    def _drop(self, subject: Subject, before_ms: int, most: int) -> tuple[int, bool]:
        """Drop up to `most` entries stored before a wall time: (how many, whether that is all of them)."""
        begin, chunk = subject.begin, FIRST_CHUNK_ENTRIES
        try:
            while subject.begin < subject.visible_end and subject.begin - begin < most:
                if not self._drop_chunk(subject, before_ms, min(chunk, most - (subject.begin - begin))):
                    return self._dropped(subject, begin), True
                chunk = CHUNK_ENTRIES
        except (LogError, OSError) as error:
            problem = f"subject {subject.name}: its retention stops at sequence {subject.begin}: {error}"
            self.problem = self.problem or problem
            return self._dropped(subject, begin), True
        return self._dropped(subject, begin), subject.begin >= subject.visible_end

    def _dropped(self, subject: Subject, before: int) -> int:
        count = subject.begin - before
        if count:
            subject.changed()
            self.dropped += count
            logger.debug("subject %s: %d messages dropped, it begins at %d", subject.name, count, subject.begin)
        return count

    def _drop_chunk(self, subject: Subject, before_ms: int, most: int) -> bool:
        """Drop the old entries that the subject begins with; whether there is more to look at behind them."""
        begin, index = subject.begin, subject.consume_log.index
        entries = self._entries(subject, begin, begin + most)
        if entries is None:
            return False
        count, is_damaged = 0, False
        for _, size, stored_at_ms, _, _ in ENTRY.iter_unpack(entries):
            if not size:
                at = count * ENTRY_BYTES
                is_damaged = entries[at : at + ENTRY_BYTES] != WITHHELD
                if is_damaged:
                    break
            elif stored_at_ms >= before_ms:
                break
            count += 1
        index.hide_before(begin + count)
        if not is_damaged:
            return count * ENTRY_BYTES == len(entries)
        # An entry without a size is damaged: it is made again, or passed over when its message is lost.
        sequence = begin + count
        if index.is_withheld(sequence):
            # Its age is not known until its page can be repaired.
            return False
        if (subject.name, sequence) not in self._store.withheld:
            self._in_background(DamagedEntries(self._store, subject, [sequence]))
            return False
        index.hide_before(sequence + 1)
        return True

    def _entries(self, subject: Subject, begin: int, end: int) -> bytes | None:
        """Index entries; None when a thread reads them now. Raises LogError."""
        index = subject.consume_log.index
        entries = index.read_cached(begin, end)
        if entries is None and self._may_wait:
            entries = index.view(begin, end).read(begin, end)
        if entries is not None:
            self._reads.pop(subject.name, None)
            return entries
        read = self._reads.get(subject.name)
        if read is None or not read.is_of(subject, begin):
            self._reads[subject.name] = read = _EntriesRead(subject, begin, end)
            self._in_background(read)
        elif read.is_finished:
            return self._reads.pop(subject.name).entries()
        return None
