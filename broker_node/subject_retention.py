"""Retention of single subjects, shorter than the node's: entries of the consume log are dropped, their bytes leave with their
segment.

Store times may step back with the wall clock, so entries are looked at one after the other and the first young one ends it:
nothing that is young enough is dropped, whatever stands behind it.
"""

import asyncio
from collections import deque

from broker_node.consume_log import ENTRY, ENTRY_BYTES
from broker_node.index_repair import DamagedEntries
from broker_node.reader import WITHHELD
from broker_node.retention_clock import RetentionClock
from broker_node.store import MessageStore
from broker_node.subject import Subject
from qmq.errors import LogError
from qmq.policy import NodePolicy

TICK_ENTRIES_MAX = 128 * 1024
"""Entries dropped in one tick, over all subjects: looking at them takes the event loop's time, some 10 ms for all."""
TICK_SUBJECTS_MAX = 500
"""Subjects looked at in one tick; all of them in turn."""
CHUNK_ENTRIES = 8 * 1024
FIRST_CHUNK_ENTRIES = 32
"""Most looks find nothing old, or little."""


class SubjectRetention:
    """Hides what a policy says is too old; checkpoints delete the files."""

    def __init__(self, store: MessageStore, node_hours: float, clock: RetentionClock) -> None:
        self._store = store
        self._clock = clock
        self._node_hours = node_hours
        self._keep_ms: dict[str, int] = {}
        self._queue: deque[str] = deque()
        self.dropped = 0

    def apply(self, policy: NodePolicy) -> None:
        """Go by this policy from now on. What was dropped stays dropped."""
        self._keep_ms = {
            subject: round(rules.retention_hours * 3_600_000)
            for subject, rules in policy.subjects.items()
            if rules.retention_hours is not None and rules.retention_hours < self._node_hours
        }
        self._queue.clear()

    @property
    def has_more(self) -> bool:
        """Whether the last tick, or a subject in it, was cut short by a limit."""
        return bool(self._queue)

    async def tick(self) -> None:
        """Look at some subjects, all of them in turn.

        Raises LogError in the end when entries of a subject could not be read: its retention stops there.
        """
        if not self._queue:
            self._queue.extend(self._keep_ms)
        stop, problem = self.dropped + TICK_ENTRIES_MAX, ""
        for name in [self._queue.popleft() for _ in range(min(len(self._queue), TICK_SUBJECTS_MAX))]:
            subject, keep_ms = self._store.subjects.get(name), self._keep_ms.get(name)
            if subject is None or keep_ms is None:
                continue
            try:
                if self.dropped >= stop or await self._drop(subject, self._clock.before_ms(keep_ms), stop):
                    self._queue.append(name)
            except (LogError, OSError) as error:
                problem = problem or f"subject {name}: its retention stops at sequence {subject.begin}: {error}"
            if subject.is_empty:
                self._store.maybe_empty[name] = None
        if problem:
            raise LogError(problem)

    async def _drop(self, subject: Subject, before_ms: int, stop: int) -> bool:
        """Hide entries stored before a wall time until `dropped` is `stop`; whether there may be more of them."""
        index, chunk, is_repaired = subject.consume_log.index, FIRST_CHUNK_ENTRIES, False
        while subject.begin < subject.visible_end:
            if self.dropped >= stop:
                return True
            begin = subject.begin
            end = begin + min(chunk, stop - self.dropped)
            entries = index.read_cached(begin, end)
            if entries is None:
                entries = await asyncio.to_thread(index.view(begin, end).read, begin, end)
                if subject.begin != begin:
                    continue
            count, is_damaged = self._old(subject, entries, before_ms)
            if count:
                index.hide_before(begin + count)
                subject.changed()
                self.dropped += count
            if is_damaged:
                # Made again, or passed over when its message is lost. Its age is not known until its page can be repaired.
                if is_repaired or index.is_withheld(begin + count):
                    return False
                is_repaired = True
                await DamagedEntries(self._store, subject, [begin + count]).complete_in_thread()
            elif count * ENTRY_BYTES < len(entries):
                return False
            else:
                chunk = CHUNK_ENTRIES
        return False

    def _old(self, subject: Subject, entries: bytes, before_ms: int) -> tuple[int, bool]:
        """How many entries from the subject's begin on are too old, and whether a damaged one follows them."""
        begin, withheld = subject.begin, self._store.withheld
        for count, (_, size, stored_at_ms, _, _) in enumerate(ENTRY.iter_unpack(entries)):
            if size and stored_at_ms >= before_ms:
                return count, False
            at = count * ENTRY_BYTES
            if (
                not size
                and entries[at : at + ENTRY_BYTES] != WITHHELD
                and (subject.name, begin + count) not in withheld
            ):
                return count, True
        return len(entries) // ENTRY_BYTES, False
