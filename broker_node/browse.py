"""Look at stored messages without being a consumer: by sequence or time, decoded, paged."""

from typing import Any

from broker_node.consume_log import Entry
from broker_node.reader import read_messages
from broker_node.store import MessageStore
from broker_node.subject import Subject
from qmq.protocol.messages import decode_raw

BROWSE_MESSAGES_MAX = 500
"""Most messages of one page."""
BROWSE_BYTES_MAX = 4 << 20
"""Most bytes of messages of one page."""


def browse(store: MessageStore, subject: Subject, sequence: int, limit: int) -> dict[str, Any]:
    """A page of messages from `sequence` on; `next_sequence` is where the next page begins, null at the end."""
    store.adjust_begin(subject)
    begin = max(sequence, subject.begin)
    end = min(begin + max(1, min(limit, BROWSE_MESSAGES_MAX)), subject.visible_end)
    messages = _decoded(store, subject, begin, end)
    reached = messages[-1]["sequence"] + 1 if messages else end
    return page_of(subject, messages, reached if reached < subject.visible_end else None)


def page_of(subject: Subject, messages: list[dict[str, Any]], next_sequence: int | None) -> dict[str, Any]:
    """A page of messages as JSON; `next_sequence` is where the next page begins."""
    return {
        "subject": subject.name,
        "begin_sequence": subject.begin,
        "end_sequence": subject.visible_end,
        "messages": messages,
        "next_sequence": next_sequence,
    }


def _decoded(store: MessageStore, subject: Subject, begin: int, end: int) -> list[dict[str, Any]]:
    raws = read_messages(store, subject, begin, end, cached_only=False, bytes_max=BROWSE_BYTES_MAX)
    entries = subject.consume_log.entries(begin, end)
    return [
        shown(sequence, entry, raw) for sequence, (entry, raw) in enumerate(zip(entries, raws, strict=False), begin)
    ]


def shown(sequence: int, entry: Entry, raw: memoryview | None) -> dict[str, Any]:
    """A message as JSON; one whose bytes fail their checks (`raw` None) says so. For any thread."""
    place = {"sequence": sequence, "log_offset": entry.log_offset, "bytes": entry.size}
    if raw is None:
        return {**place, "withheld": True, "reason": "the stored bytes fail their checks"}
    message, _ = decode_raw(raw)
    return {
        **place,
        "message_id": message.message_id,
        "stored_at_ms": entry.stored_at_ms,
        "created_at_ms": message.created_at_ms,
        "tags": sorted(message.tags),
        "properties": message.properties,
    }
