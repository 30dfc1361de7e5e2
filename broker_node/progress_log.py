"""One group's history as fixed-size entries: what lag history, traces and Spark read without touching messages.

48 bytes an entry: i64 at_ms, u64 consumer (`consumer_key`), i64 begin and i64 end (pull sequences, half-open), i64
next_sequence (the group's position after the action), u8 kind (`actions.RecordKind`), 3 bytes 0, u32 CRC of the bytes
before. Derived from the message log's actions, never the truth.
"""

from hashlib import blake2b
from struct import Struct
from zlib import crc32

from broker_node.actions import Ack, Action, Pull, RecordKind, Start
from broker_node.progress import GroupProgress

_BODY = Struct(">qQqqqB3x")
_CHECK = Struct(">I")
PROGRESS_ENTRY = Struct(">qQqqqB3xI")
PROGRESS_ENTRY_BYTES = PROGRESS_ENTRY.size
assert PROGRESS_ENTRY_BYTES == 48, "Spark and the inspector rely on the entry's size"


def consumer_key(consumer_id: str) -> int:
    """A consumer id as the 64-bit number that progress entries carry."""
    return int.from_bytes(blake2b(consumer_id.encode(), digest_size=8).digest(), "big")


def encode_progress(action: Action, progress: GroupProgress) -> bytes:
    """The entry of an action that was just applied to `progress`."""
    begin = end = 0
    match action:
        case Pull():
            kind, begin, end = RecordKind.PULL, action.pull_begin, action.pull_begin + action.count
        case Ack():
            kind, begin, end = RecordKind.ACK, action.begin, action.end
        case Start():
            kind = RecordKind.START
        case _:
            kind = RecordKind.OFFLINE
    key = consumer_key(action.consumer_id)
    body = _BODY.pack(action.at_ms, key, begin, end, progress.next_sequence, kind)
    return body + _CHECK.pack(crc32(body))
