"""Indexes, written as a checkpoint writes them."""

from qmq.log.index import DenseIndex


def flush(index: DenseIndex) -> None:
    """Write what is in memory."""
    index.take()
    index.write()
    index.written()
