"""Retention of single subjects, shorter than the node's, and of groups' histories (progress logs), as long as messages are kept.

Entries are hidden; checkpoints delete the files that hold nothing else, and the bytes of messages leave with their segment.

Store times may step back with the wall clock, so entries of a subject are checked one after the other and the first young one
ends it: nothing that is young enough is dropped, whatever stands behind it. A file of a history goes when all its entries are too
old, so of each history at most one file's worth (48 MiB) is kept beyond that. A group's position and what it holds are not in
there.
"""

import asyncio
from collections import deque
from collections.abc import Sequence

from broker_node.reads.index_repair import DamagedEntries
from broker_node.reads.message_reader import WITHHELD
from broker_node.retention.retention_clock import RetentionClock
from broker_node.storage.consume_log import ENTRY, ENTRY_BYTES
from broker_node.storage.progress_log import time_from
from broker_node.storage.store import MessageStore
from broker_node.storage.subject import Group, Subject
from qmq.errors import LogError
from qmq_node.log.index import IndexView
from qmq_node.policy import NodePolicy

TICK_ENTRIES_MAX = 128 * 1024
"""Entries dropped in one tick, over all subjects: looking at them takes the event loop's time, some 10 ms for all."""
TICK_SUBJECTS_MAX = 500
"""Subjects checked in one tick; all of them in turn."""
CHUNK_ENTRIES = 8 * 1024
FIRST_CHUNK_ENTRIES = 32
"""Most looks find nothing old, or little."""
LOOK_SECONDS = 600.0
"""How often all histories are checked."""
TICK_HISTORIES_MAX = 200
"""Subjects whose histories are checked in one tick. A history of one file costs nothing, another one a read of one entry."""

_Searched = tuple[Group, IndexView, Sequence[int]]


class SubjectRetention:
    """Hides what a policy says is too old; checkpoints delete the files."""

    def __init__(self, store: MessageStore, node_hours: float, clock: RetentionClock) -> None:
        self._store = store
        self._counters = store.counters
        self._clock = clock
        self._node_hours = node_hours
        self._keep_ms: dict[str, int] = {}
        self._queue: deque[str] = deque()

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
        stop, problem = self._counters.expired_messages + TICK_ENTRIES_MAX, ""
        for name in [self._queue.popleft() for _ in range(min(len(self._queue), TICK_SUBJECTS_MAX))]:
            subject, keep_ms = self._store.subjects.get(name), self._keep_ms.get(name)
            if subject is None or keep_ms is None:
                continue
            try:
                if self._counters.expired_messages >= stop or await self._drop(
                    subject, self._clock.before_ms(keep_ms), stop
                ):
                    self._queue.append(name)
            except (LogError, OSError) as error:
                problem = problem or f"subject {name}: its retention stops at sequence {subject.begin}: {error}"
            if subject.is_empty:
                self._store.maybe_empty[name] = None
        if problem:
            raise LogError(problem)

    async def _drop(self, subject: Subject, before_ms: int, stop: int) -> bool:
        """Hide entries stored before a wall time until the counter is `stop`; whether there may be more of them."""
        index, chunk, is_repaired = subject.consume_log, FIRST_CHUNK_ENTRIES, False
        while subject.begin < subject.visible_end:
            if self._counters.expired_messages >= stop:
                return True
            begin = subject.begin
            end = begin + min(chunk, stop - self._counters.expired_messages)
            entries = index.read_cached(begin, end)
            if entries is None:
                entries = await asyncio.to_thread(index.view(begin, end).read, begin, end)
                if subject.begin != begin:
                    continue
            count, is_damaged = self._old(subject, entries, before_ms)
            if count:
                index.hide_before(begin + count)
                subject.changed()
                self._counters.expired_messages += count
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


class HistoryRetention:
    """Hides entries of histories whose files are too old; checkpoints delete the files."""

    def __init__(self, store: MessageStore, keep_hours: float, clock: RetentionClock) -> None:
        self._store = store
        self._clock = clock
        self._keep_ms = round(keep_hours * 3_600_000)
        self._queue: deque[str] = deque()
        self._look_at: float | None = None
        self._problem = ""
        """The first failure of the last look at all histories; "" when there was none."""

    async def tick(self) -> None:
        """Look at some subjects' groups. Raises LogError until the next look when a history could not be read."""
        now = self._store.clock.monotonic()
        if not self._queue and (self._look_at is None or now >= self._look_at):
            self._look_at = now + LOOK_SECONDS
            self._problem = ""
            self._queue.extend(self._store.subjects)
        before_ms, searched = self._clock.before_ms(self._keep_ms), list[_Searched]()
        for _ in range(min(len(self._queue), TICK_HISTORIES_MAX)):
            subject = self._store.subjects.get(self._queue.popleft())
            for group in subject.groups.values() if subject is not None else ():
                history = group.history
                if firsts := [first for first in history.firsts if first > history.begin]:
                    searched.append((group, history.view(history.begin, firsts[-1]), firsts))
        for group, kept in await asyncio.to_thread(_first_kept, searched, before_ms) if searched else ():
            progress, begin = group.progress, group.history.begin
            if isinstance(kept, LogError):
                problem = f"group {progress.group} of {progress.subject}: its history stays: {kept}"
                self._problem = self._problem or problem
            elif kept > begin:
                group.history.hide_before(kept)
                self._store.counters.expired_history_entries += kept - begin
        if self._problem:
            raise LogError(self._problem)


def _first_kept(searched: list[_Searched], before_ms: int) -> list[tuple[Group, int | LogError]]:
    """For each history the first entry of the oldest file that holds a young one; from any thread."""
    found: list[tuple[Group, int | LogError]] = []
    for group, view, firsts in searched:
        kept = view.begin
        for first in firsts:
            # Times may step back with the wall clock, by less than it matters here: the last entry stands for its file, or the
            # next one that can be read.
            try:
                at_ms = time_from(view, first - 1)
            except LogError as error:
                found.append((group, error))
                break
            if at_ms is None or at_ms >= before_ms:
                found.append((group, kept))
                break
            kept = first
        else:
            found.append((group, kept))
    return found
