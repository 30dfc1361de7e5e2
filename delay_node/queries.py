"""Queries about delayed messages: find, list, and the calendar."""

from collections.abc import Awaitable, Callable, Sequence

from delay_node.calendar import Calendar
from delay_node.found import Found
from delay_node.listing import Listing
from delay_node.lookup import Lookup
from delay_node.schedule_log import Entry
from delay_node.store import DelayStore
from qmq.clock import Clock
from qmq.protocol.delayed import DelayedTarget, ListDelayedRequest
from qmq.protocol.masking import NO_MASKS, Masks
from qmq_node.log.disk import Disk

PAGE_BYTES_MAX = 4 << 20


class Queries:
    """Answers queries. What it shows is below the high watermark: nothing of it is undone by a failover.

    Args:
        synced: waits until the record at a log offset is synced by all in-sync members. Raises LogError.
    """

    def __init__(self, store: DelayStore, synced: Callable[[int], Awaitable[None]], disk: Disk, clock: Clock) -> None:
        self._store = store
        self._synced = synced
        self._lookup = Lookup(store)
        self._listing = Listing(store, disk, clock)
        self._calendar = Calendar(store)

    async def close(self) -> None:
        """End the process of filters."""
        await self._listing.close()

    async def find(self, target: DelayedTarget) -> list[Found]:
        """Return every copy of a message, oldest due first. Raises BadQuery, LogError."""
        found = await self._lookup.find(target)
        await self._shown()
        return found

    async def locate(self, targets: Sequence[DelayedTarget]) -> list[list[Entry]]:
        """Return the copies of each message, as Lookup.locate does, without waiting for what was decided of them."""
        return await self._lookup.locate(targets)

    async def page(
        self, query: ListDelayedRequest, bytes_max: int = PAGE_BYTES_MAX, masks: Masks = NO_MASKS
    ) -> tuple[list[Found], str]:
        """Messages by due time, up to the one that reaches `bytes_max`, and the next cursor. Raises BadQuery, LogError.

        The filter and `match` see messages as `masks` show them, so that a list finds nothing that is not shown.
        """
        page = await self._listing.page(query, bytes_max, masks)
        await self._shown()
        return page

    async def calendar(self, subject: str, from_ms: int, to_ms: int) -> list[tuple[int, int]]:
        """(begin of the hour, pending messages) for the hours of a range that have some. Raises BadQuery, LogError."""
        return await self._calendar.hours(subject, from_ms, to_ms)

    async def _shown(self) -> None:
        """Wait until the decisions that an answer contains are synced: in memory they are taken at once."""
        await self._synced(self._store.log.gather.records_end - 1)
