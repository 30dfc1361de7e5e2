"""Searches with a filter: one bounded step of one, newest messages first or oldest first."""

import asyncio
from dataclasses import dataclass, field
from typing import Any

from broker_node.admin.search import FOUND_BYTES_MAX, FOUND_MESSAGES_MAX, Criteria, scan, shown
from broker_node.reads.filtered.job import Job, Result
from broker_node.storage.consume_log import ENTRY, Entry
from broker_node.storage.oldest_sequence import begin_adjusted
from broker_node.storage.store import MessageStore
from broker_node.storage.subject import Subject
from qmq.clock import Clock
from qmq.errors import LogError
from qmq.protocol.masking import Masks
from qmq.protocol.messages import Message
from qmq_node.filters import Content, Filter, TooCostly
from qmq_node.filters.process import FilterProcess
from qmq_node.log.disk import Disk, SystemDisk

STEP_SECONDS = 0.5
"""After this time a step ends, and its answer says where to continue."""
STEP_MESSAGES_MAX = 400_000
"""Most messages of one step; their index entries that are only in memory are copied for it."""


@dataclass(slots=True)
class Found:
    """The result of a step: [begin, end) is the window of the search as far as it is stored."""

    begin: int
    end: int
    scanned: int
    reached: int
    """Newest first, everything from here on was searched; else everything before."""
    is_complete: bool
    messages: list[dict[str, Any]] = field(default_factory=list)
    """In the order of the search."""
    unreadable: int = 0
    """Messages whose stored bytes fail their checks: whether they match is unknown."""
    costly: int = 0
    """Messages for which the filter takes more than it may: whether they match is unknown."""


class FilteredSearches:
    """Runs steps of searches for a broker."""

    def __init__(self, store: MessageStore, disk: Disk, clock: Clock) -> None:
        self._store = store
        self._disk = disk
        self._clock = clock
        self._process = FilterProcess("broker_node.reads.filtered.step")
        # The disk of a test exists in its process only.
        self._is_apart = type(disk) is SystemDisk

    async def close(self) -> None:
        """End the process."""
        await asyncio.to_thread(self._process.close)

    def _run(self, job: Job) -> Result:
        return self._process.run(job) if self._is_apart else job.run(self._disk, self._clock)

    async def step(
        self,
        subject: Subject,
        wanted: Filter,
        now_ms: int,
        begin: int,
        end: int,
        *,
        newest_first: bool,
        limit: int,
        masks: Masks,
    ) -> Found:
        """Search [begin, end) until the limit, STEP_SECONDS or STEP_MESSAGES_MAX. Raises LogError, TooCostly.

        The filter sees messages as `masks` show them, so that a search finds nothing that it does not show.
        """
        store = self._store
        await begin_adjusted(store, subject)
        while True:
            begin = max(begin, subject.begin, subject.consume_log.begin)
            end = max(begin, min(end, subject.visible_end))
            first = max(begin, end - STEP_MESSAGES_MAX) if newest_first else begin
            stop = end if newest_first else min(end, begin + STEP_MESSAGES_MAX)
            job = Job(
                store.log.stored.files.folder, subject.consume_log.view(first, stop).copy(), wanted.expression, now_ms, first, stop,
                newest_first, min(max(1, limit), FOUND_MESSAGES_MAX), FOUND_BYTES_MAX, STEP_SECONDS, masks,
            )  # fmt: skip
            try:
                done = await asyncio.to_thread(self._run, job)
                break
            except LogError:
                if subject.consume_log.begin <= first:
                    raise
                # Retention removed the file during the read.
        await begin_adjusted(store, subject)
        scanned = stop - done.reached if newest_first else done.reached - first
        found = Found(begin, end, scanned, done.reached, done.reached == (begin if newest_first else end))
        found.costly = done.costly
        found.messages = await asyncio.to_thread(_decoded, done, masks)
        for sequence in done.unreadable:
            await self._read_again(subject, wanted, sequence, found, masks)
        found.messages.sort(key=lambda message: message["sequence"], reverse=newest_first)
        return found

    async def _read_again(self, subject: Subject, wanted: Filter, sequence: int, found: Found, masks: Masks) -> None:
        """Read a message that failed its check, as a pull does: it is repaired, or recorded as damaged."""
        if sequence < subject.begin:
            # Retention deleted it during the step.
            return
        criteria = Criteria(masks=masks)
        done = await scan(self._store, subject, criteria, sequence, sequence + 1, limit=1, scan_limit=1)
        found.unreadable += done.unreadable
        for message in done.messages:
            try:
                if await asyncio.to_thread(wanted.matches, _content(message)):
                    found.messages.append(message)
            except TooCostly:
                found.costly += 1


def _decoded(done: Result, masks: Masks) -> list[dict[str, Any]]:
    return [shown(sequence, Entry._make(ENTRY.unpack(entry)), raw, masks) for sequence, entry, raw in done.found]


def _content(message: dict[str, Any]) -> Content:
    """The values of a message as `shown` returns it, which is masked already."""
    source = Message(
        "", message["message_id"], message["properties"], tuple(message["tags"]), 0, message["created_at_ms"]
    )  # fmt: skip
    return Content(message["sequence"], source, message["bytes"], message["stored_at_ms"])
