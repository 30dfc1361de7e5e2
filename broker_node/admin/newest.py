"""Pages of a subject's messages, newest first. Their cost depends on the page, not on the subject."""

import asyncio
from collections.abc import Sequence
from itertools import accumulate

from broker_node.admin.search import FOUND_BYTES_MAX, FOUND_MESSAGES_MAX, Criteria, Scan, scan
from broker_node.storage.consume_log import PLACE_FIELDS, entry_fields
from broker_node.storage.oldest_sequence import begin_adjusted
from broker_node.storage.store import MessageStore
from broker_node.storage.subject import Subject
from qmq.errors import LogError
from qmq.protocol.masking import Masks
from qmq_node.log.index import IndexView


async def newest_first(store: MessageStore, subject: Subject, until: int, *, limit: int, masks: Masks) -> Scan:
    """Return up to `limit` messages below sequence `until`, the newest first; at least one, if there is one. Raises LogError.

    An earlier page ends at the result's `begin`. Messages that fail their checks are included as withheld.
    """
    await begin_adjusted(store, subject)
    end = max(subject.begin, min(until, subject.visible_end))
    begin = await _begin(subject, end, min(max(1, limit), FOUND_MESSAGES_MAX))
    criteria = Criteria(with_unreadable=True, masks=masks)
    while True:
        found = await scan(
            store, subject, criteria, begin, end, limit=FOUND_MESSAGES_MAX, scan_limit=FOUND_MESSAGES_MAX
        )
        if found.next_sequence is None:
            found.messages.reverse()
            return found
        # Sizes in the index were wrong, and the answer is full: it has room for the newer ones.
        begin = max(found.reached, begin + 1)


async def _begin(subject: Subject, end: int, limit: int) -> int:
    """Return the first sequence of the page of at most `limit` messages that ends at `end` and fits an answer."""
    index = subject.consume_log
    while True:
        begin = max(index.begin, end - limit)
        if begin >= end:
            return end
        try:
            return await asyncio.to_thread(_first_that_fits, index.view(begin, end), begin)
        except LogError:
            if index.begin <= begin:
                raise
            # Retention removed the file during the read.


def _first_that_fits(view: IndexView, begin: int) -> int:
    """Return the first sequence of a view from which on its messages fit an answer; its last one does in any case."""
    sizes: Sequence[int] = entry_fields(PLACE_FIELDS, view.read(begin, view.end))[1::2]
    fitting = sum(total <= FOUND_BYTES_MAX for total in accumulate(reversed(sizes)))
    return begin + len(sizes) - max(1, fitting)
