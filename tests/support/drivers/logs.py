"""Logs without a node: opened from a folder, and cut short, in one call."""

from collections.abc import Callable
from typing import Any

from qmq_node.log.disk import Disk
from qmq_node.log.log import SegmentedLog
from qmq_node.log.opening import inspect
from qmq_node.log.recovery import Commit


def open_log(
    disk: Disk, folder: str, *, segment_bytes: int, visit: Callable[[Commit], None] = lambda _: None, **settings: Any
) -> SegmentedLog:
    """Open the log of an only member, and visit its valid commits; `settings` as those of `inspect`."""
    return SegmentedLog.activate(inspect(disk, folder, visit=visit, **settings), segment_bytes=segment_bytes)


def drop_before(log: SegmentedLog, offset: int) -> list[int]:
    """Drop whole segments below a log offset and delete their files at once; their bases."""
    bases = log.hide_before(offset)
    log.stored.delete_hidden(log.stored.hidden_segments)
    return bases
