"""class ReceivedEntries: the index entries that a slave's master sends with a commit, so that the slave need not make them."""

from dataclasses import dataclass

from broker_node.storage.consume_log import ENTRY, ENTRY_BYTES
from qmq.protocol.scan import CRC_BYTES


@dataclass(slots=True)
class ReceivedEntries:
    """Entries of the messages of one commit, in order.

    The entries of a record are used only if there is one for each message, the first one points at the first message, and the last
    one at the message that ends where the record ends. So entries of another record are never used. The check of an entry covers
    its other bytes and its message: one that was changed on the way fails when its message is read, and is made again from the log,
    as if it were damaged on the disk (`broker_node.reads.index_repair`).
    """

    _entries: memoryview
    _taken_bytes: int = 0

    def take(self, count: int, begin: int, end: int) -> memoryview | None:
        """Return the entries of the next record; None if they are missing, or belong to another one.

        Args:
            count: messages of the record.
            begin: log offset of the first message's CRC.
            end: log offset of the end of the last message.
        """
        at = self._taken_bytes
        self._taken_bytes = at + count * ENTRY_BYTES
        entries = self._entries[at : self._taken_bytes]
        if count < 1 or len(entries) < count * ENTRY_BYTES:
            return None
        offset, _, _, _, _ = ENTRY.unpack_from(entries)
        last_offset, last_size, _, _, _ = ENTRY.unpack_from(entries, len(entries) - ENTRY_BYTES)
        return entries if (offset, last_offset + last_size) == (begin + CRC_BYTES, end) else None
