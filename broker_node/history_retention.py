"""Retention of groups' histories (progress logs): as long as messages are kept, in whole files.

A file goes when all its entries are too old, so of each history at most one file's worth (48 MiB) is kept beyond that. A group's
position and what it holds are not in there.
"""

import asyncio
from collections import deque
from collections.abc import Sequence

from broker_node.progress_log import time_from
from broker_node.retention_clock import RetentionClock
from broker_node.store import MessageStore
from broker_node.subject import Group
from qmq.errors import LogError
from qmq.log.index import IndexView

LOOK_SECONDS = 600.0
"""How often all histories are looked at."""
TICK_SUBJECTS_MAX = 200
"""Subjects looked at in one tick. A history of one file costs nothing, another one a read of one entry."""


_Searched = tuple[Group, IndexView, Sequence[int]]


class HistoryRetention:
    """Hides entries of histories whose files are too old; checkpoints delete the files."""

    def __init__(self, store: MessageStore, keep_hours: float, clock: RetentionClock) -> None:
        self._store = store
        self._clock = clock
        self._keep_ms = round(keep_hours * 3_600_000)
        self._queue: deque[str] = deque()
        self._look_at: float | None = None
        self.dropped = 0
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
        for _ in range(min(len(self._queue), TICK_SUBJECTS_MAX)):
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
                self.dropped += kept - begin
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
