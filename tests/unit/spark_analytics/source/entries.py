"""Entries as nodes store them."""

from zlib import crc32

from broker_node.storage import consume_log
from broker_node.storage.consume_log import ENTRY, ENTRY_HEAD_BYTES, encode_withheld
from broker_node.storage.progress_log import LAYOUT, LAYOUT_AT, PROGRESS_ENTRY

NOW_MS = 1_700_000_000_123


def index_entries(*sizes: int, first_offset: int = 1000) -> bytes:
    """Entries of messages back to back in the log; a size of 0 is a withheld one."""
    parts, at = [], first_offset
    for number, size in enumerate(sizes):
        if size:
            entry = consume_log.Entry(at, size, NOW_MS + number, (1 << 63) | number, 0)
            parts.append(ENTRY.pack(*entry[:4], crc32(ENTRY.pack(*entry[:4], 0)[:ENTRY_HEAD_BYTES], 7)))
        else:
            parts.append(encode_withheld(1))
        at += size
    return b"".join(parts)


def progress_entry(
    kind: int, key: int = 5, *, at_ms: int = NOW_MS, begin: int = 0, end: int = 1, after: int = 1, layout: int = LAYOUT
) -> bytes:
    body = bytearray(PROGRESS_ENTRY.pack(at_ms, key, begin, end, after, kind, 0)[:-4])
    body[LAYOUT_AT] = layout
    return bytes(body) + crc32(body).to_bytes(4, "big")
