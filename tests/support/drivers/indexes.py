"""Indexes, written as a checkpoint writes them."""

from broker_node.storage.consume_log import ENTRY, Entry
from qmq_node.log.index import DenseIndex


def flush(index: DenseIndex) -> None:
    """Write what is in memory."""
    index.take()
    index.write()
    index.written()


def read_entries(index: DenseIndex, begin: int, end: int) -> list[Entry]:
    """Entries [begin, end) of a consume log, clipped to what there is."""
    return list(map(Entry._make, ENTRY.iter_unpack(index.read(begin, end))))
